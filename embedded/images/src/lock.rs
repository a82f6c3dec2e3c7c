//! Locks: which versions of packages an image has, to the byte.

pub mod debian;
pub mod python;

/// What has changed from one lock to another, as lines that people read: `+ name version`, `- name version`,
/// `name old -> new`.
pub fn changes<'a>(
    old: impl IntoIterator<Item = (&'a str, &'a str)>,
    new: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Vec<String> {
    let mut old: std::collections::BTreeMap<_, _> = old.into_iter().collect();
    let mut lines = Vec::new();
    for (name, version) in new {
        match old.remove(name) {
            None => lines.push(format!("+ {name} {version}")),
            Some(before) if before != version => lines.push(format!("{name} {before} -> {version}")),
            Some(_) => {}
        }
    }
    lines.extend(old.into_iter().map(|(name, version)| format!("- {name} {version}")));
    lines
}

#[cfg(test)]
mod tests {
    #[test]
    fn changes_are_told_by_package() {
        let changes = super::changes([("a", "1"), ("b", "1"), ("c", "1")], [("a", "1"), ("b", "2"), ("d", "3")]);
        assert_eq!(changes, ["b 1 -> 2", "+ d 3", "- c 1"]);
    }
}
