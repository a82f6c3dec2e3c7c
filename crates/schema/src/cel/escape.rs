//! Field names in rules. A name that CEL could not read as an identifier is written with escapes: `__namespace__`,
//! `foo__dash__bar`. kube-cel has escapes too, but doubles single underscores, which Kubernetes does not.

use std::borrow::Cow;

const RESERVED: [&str; 21] = [
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

const ESCAPES: [(&str, &str); 4] = [("__", "__underscores__"), (".", "__dot__"), ("-", "__dash__"), ("/", "__slash__")];

/// The name as a rule writes it; `None` if no rule can.
pub(crate) fn escape(name: &str) -> Option<Cow<'_, str>> {
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    if RESERVED.contains(&name) {
        return Some(Cow::Owned(format!("__{name}__")));
    }
    if name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') && !name.contains("__") {
        return Some(Cow::Borrowed(name));
    }
    let mut escaped = String::with_capacity(name.len() * 2);
    let mut rest = name;
    while let Some(c) = rest.chars().next() {
        if let Some((plain, written)) = ESCAPES.iter().find(|(plain, _)| rest.starts_with(plain)) {
            escaped.push_str(written);
            rest = &rest[plain.len()..];
        } else if c.is_ascii_alphanumeric() || c == '_' {
            escaped.push(c);
            rest = &rest[1..];
        } else {
            return None;
        }
    }
    Some(Cow::Owned(escaped))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_escaped_as_kubernetes_documents() {
        let cases = [
            ("plain", Some("plain")),
            ("namespace", Some("__namespace__")),
            ("import", Some("__import__")),
            ("default", Some("default")),
            ("my_field", Some("my_field")),
            ("my__field", Some("my__underscores__field")),
            ("x-prop", Some("x__dash__prop")),
            ("a.b/c", Some("a__dot__b__slash__c")),
            ("redact__d", Some("redact__underscores__d")),
            ("___", Some("__underscores___")),
            ("", None),
            ("1st", None),
            ("ä", None),
            ("a b", None),
        ];
        for (name, escaped) in cases {
            assert_eq!(escape(name).as_deref(), escaped, "{name}");
        }
    }
}
