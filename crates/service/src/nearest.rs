//! Suggestions for mistyped names: "did you mean".

/// The known name that is most like `name`, as a hint for a message; empty if none is.
pub(crate) fn hint<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let scored = known.into_iter().map(|one| (strsim::jaro_winkler(name, one), one));
    match scored.max_by(|a, b| a.0.total_cmp(&b.0)) {
        Some((likeness, one)) if likeness > 0.8 => format!("did you mean {one}?"),
        _ => String::new(),
    }
}
