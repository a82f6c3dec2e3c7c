//! `$(NAME)` in commands, arguments and values.

use std::collections::HashMap;

/// Replaces `$(NAME)` by what the name stands for; what is not known stays, and `$$` is a dollar sign.
pub(crate) fn expand(text: &str, known: &HashMap<String, String>) -> String {
    expand_by(text, &|name| known.get(name).cloned())
}

pub(super) fn expand_by(text: &str, known: &dyn Fn(&str) -> Option<String>) -> String {
    let mut expanded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        expanded.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let name = rest.strip_prefix('(').and_then(|inner| inner.split_once(')'));
        if let Some((name, after)) = name {
            expanded.push_str(&known(name).unwrap_or_else(|| format!("$({name})")));
            rest = after;
        } else {
            expanded.push('$');
            rest = rest.strip_prefix('$').unwrap_or(rest);
        }
    }
    expanded + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_brackets_are_replaced() {
        let known = HashMap::from([("A".to_owned(), "1".to_owned())]);
        let expected = [
            ("$(A)", "1"),
            ("x$(A)y$(A)", "x1y1"),
            ("$(B)", "$(B)"),
            ("$$(A)", "$(A)"),
            ("$$$(A)", "$1"),
            ("$A", "$A"),
            ("$(A", "$(A"),
            ("$", "$"),
            ("$$", "$"),
            ("", ""),
            ("ä$(A)ö", "ä1ö"),
        ];
        for (text, wanted) in expected {
            assert_eq!(expand(text, &known), wanted, "{text}");
        }
    }
}
