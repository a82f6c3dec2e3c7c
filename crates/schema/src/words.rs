//! How values and advice are put into words.

use serde_json::Value;

/// Longer values are cut: a message names the value so that it can be found, not so that it can be read.
const LONGEST: usize = 60;

/// A value as it would stand in a message.
pub(crate) fn show(value: &Value) -> String {
    match value {
        Value::String(text) if text.chars().count() > LONGEST => {
            let start: String = text.chars().take(LONGEST).collect();
            format!("{start:?}…")
        }
        Value::Object(_) => "an object".to_owned(),
        Value::Array(_) => "a list".to_owned(),
        other => other.to_string(),
    }
}

/// A value with its type, for a sentence such as `"three" is a string, not an integer`.
pub(crate) fn show_typed(value: &Value) -> String {
    match value {
        Value::Object(_) => "is an object".to_owned(),
        Value::Array(_) => "is a list".to_owned(),
        Value::Null => "is null".to_owned(),
        Value::Bool(_) => format!("{value} is a boolean"),
        Value::Number(_) => format!("{value} is a number"),
        Value::String(_) => format!("{} is a string", show(value)),
    }
}

/// The first sentence of a description, without its full stop; `None` when there is nothing to quote.
pub(crate) fn first_sentence(description: &str) -> Option<String> {
    // kubebuilder wraps lines; a blank line ends a paragraph and with it the sentence.
    let paragraph = description.split("\n\n").next().unwrap_or_default();
    let text = paragraph.split_whitespace().collect::<Vec<_>>().join(" ");
    let end =
        text.match_indices(". ").map(|(i, _)| i).find(|&i| !ends_in_abbreviation(&text[..i])).unwrap_or(text.len());
    let sentence = text[..end].trim_end_matches(['.', ':', ';']);
    (!sentence.is_empty()).then(|| sentence.to_owned())
}

fn ends_in_abbreviation(text: &str) -> bool {
    ["e.g", "i.e", "etc", "vs", "cf"]
        .iter()
        .any(|short| text.strip_suffix(short).is_some_and(|rest| !rest.ends_with(|c: char| c.is_alphanumeric())))
}

/// The candidate that `written` was probably meant to be.
pub(crate) fn closest<'a>(written: &str, candidates: &[&'a str]) -> Option<&'a str> {
    let lower = written.to_lowercase();
    let best = candidates
        .iter()
        .map(|candidate| {
            let distance = strsim::damerau_levenshtein(&lower, &candidate.to_lowercase());
            (distance, *candidate)
        })
        .min()?;
    // A third of the word may differ: `replcas` is `replicas`, `port` is not `host`.
    let tolerated = (written.chars().count() / 3).max(1);
    let hopeless = best.0 >= written.chars().count().max(1);
    (best.0 <= tolerated && !hopeless).then_some(best.1)
}

/// `1 item`, `2 items`.
pub(crate) fn count(n: u64, one: &str, many: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_first_sentence_ends_at_its_full_stop_and_not_at_an_abbreviation() {
        let cases = [
            ("Name of the cell. Must be unique.", Some("Name of the cell")),
            ("A host, e.g. db.example.org, of ours.", Some("A host, e.g. db.example.org, of ours")),
            ("Wrapped\nover lines.\n\nMore.", Some("Wrapped over lines")),
            ("No full stop", Some("No full stop")),
            ("v1.2 is fine. Really.", Some("v1.2 is fine")),
            ("  ", None),
        ];
        for (description, sentence) in cases {
            assert_eq!(first_sentence(description).as_deref(), sentence, "{description}");
        }
    }

    #[test]
    fn a_guess_is_made_only_when_it_is_close() {
        let known = ["replicas", "image", "secretRef"];
        assert_eq!(closest("replcas", &known), Some("replicas"));
        assert_eq!(closest("secretref", &known), Some("secretRef"));
        assert_eq!(closest("imgae", &known), Some("image"));
        assert_eq!(closest("storage", &known), None);
        assert_eq!(closest("x", &known), None);
        assert_eq!(closest("", &known), None);
    }

    #[test]
    fn a_long_value_is_cut_at_a_character_and_not_within_one() {
        let shown = show(&json!("ä".repeat(100)));
        assert!(shown.ends_with("\"…"), "{shown}");
        assert_eq!(shown.matches('ä').count(), LONGEST);
    }
}
