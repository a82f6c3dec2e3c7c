//! What names, keys and values may look like. A rule answers what is wrong, or nothing.

use std::net::IpAddr;

use crate::resource::NameRule;

/// The rule that an object's name follows.
pub(super) fn of(rule: NameRule) -> fn(&str) -> Option<String> {
    match rule {
        NameRule::DnsSubdomain => subdomain,
        NameRule::DnsLabel => label,
        NameRule::Dns1035Label => label_from_letter,
        NameRule::PathSegment => path_segment,
        NameRule::IpAddress => ip_address,
    }
}

fn too_long(text: &str, most: usize) -> Option<String> {
    (text.len() > most).then(|| format!("must be no more than {most} characters"))
}

fn is_alphanumeric(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit()
}

fn is_label(text: &str) -> bool {
    let bytes = text.as_bytes();
    let (Some(first), Some(last)) = (bytes.first(), bytes.last()) else { return false };
    is_alphanumeric(*first) && is_alphanumeric(*last) && bytes.iter().all(|b| is_alphanumeric(*b) || *b == b'-')
}

/// An RFC 1123 label.
pub(super) fn label(text: &str) -> Option<String> {
    too_long(text, 63).or_else(|| {
        (!is_label(text)).then(|| {
            "must be a lowercase RFC 1123 label: letters a-z, digits and '-', with a letter or digit at both ends \
             (such as 'my-name' or '123-abc')"
                .to_owned()
        })
    })
}

/// An RFC 1035 label: the same, but it starts with a letter.
pub(super) fn label_from_letter(text: &str) -> Option<String> {
    too_long(text, 63).or_else(|| {
        let starts_well = text.starts_with(|c: char| c.is_ascii_lowercase());
        (!is_label(text) || !starts_well).then(|| {
            "must be a DNS-1035 label: letters a-z, digits and '-', starting with a letter and ending with a letter or \
             digit (such as 'my-name' or 'abc-123')"
                .to_owned()
        })
    })
}

/// An RFC 1123 subdomain: labels joined by dots.
pub(super) fn subdomain(text: &str) -> Option<String> {
    too_long(text, 253).or_else(|| {
        (!text.split('.').all(is_label)).then(|| {
            "must be a lowercase RFC 1123 subdomain: letters a-z, digits, '-' and '.', with a letter or digit at both \
             ends of each part (such as 'example.com')"
                .to_owned()
        })
    })
}

/// A name that fits a path segment.
pub(super) fn path_segment(text: &str) -> Option<String> {
    match text {
        "." | ".." => Some(format!("may not be '{text}'")),
        _ => ['/', '%'].iter().find(|c| text.contains(**c)).map(|c| format!("may not contain '{c}'")),
    }
}

/// An IP address as Go prints it.
pub(super) fn ip_address(text: &str) -> Option<String> {
    match text.parse::<IpAddr>() {
        Err(_) => Some("must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)".to_owned()),
        Ok(address) if address.to_string() != text => {
            Some(format!("must be in canonical form ({:?})", address.to_string()))
        }
        Ok(_) => None,
    }
}

fn is_name_part(text: &str) -> bool {
    let bytes = text.as_bytes();
    let (Some(first), Some(last)) = (bytes.first(), bytes.last()) else { return false };
    first.is_ascii_alphanumeric()
        && last.is_ascii_alphanumeric()
        && bytes.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
}

/// A label's key, a finalizer: a name, perhaps after a domain and a slash.
pub(super) fn qualified(text: &str) -> Option<String> {
    let (prefix, name) = match text.split_once('/') {
        None => (None, text),
        Some((_, name)) if name.contains('/') => {
            return Some(
                "must be a name, optionally after a DNS subdomain and one '/' (such as 'example.com/MyName')"
                    .to_owned(),
            );
        }
        Some((prefix, name)) => (Some(prefix), name),
    };
    if let Some(prefix) = prefix {
        if prefix.is_empty() {
            return Some("prefix part must be non-empty".to_owned());
        }
        if let Some(why) = subdomain(prefix) {
            return Some(format!("prefix part {why}"));
        }
    }
    if name.is_empty() {
        return Some("name part must be non-empty".to_owned());
    }
    too_long(name, 63).map(|why| format!("name part {why}")).or_else(|| {
        (!is_name_part(name)).then(|| {
            "name part must consist of letters, digits, '-', '_' and '.', with a letter or digit at both ends (such as \
             'MyName', 'my.name' or '123-abc')"
                .to_owned()
        })
    })
}

/// The value of a label.
pub(super) fn label_value(text: &str) -> Option<String> {
    too_long(text, 63).or_else(|| {
        (!text.is_empty() && !is_name_part(text)).then(|| {
            "a valid label must be empty or consist of letters, digits, '-', '_' and '.', with a letter or digit at \
             both ends (such as 'MyValue', 'my_value' or '12345')"
                .to_owned()
        })
    })
}

/// A key of a ConfigMap or a Secret: the name of a file.
pub(super) fn config_key(text: &str) -> Option<String> {
    too_long(text, 253).or_else(|| {
        let fits =
            !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'));
        if !fits {
            return Some(
                "a valid config key must consist of letters, digits, '-', '_' and '.' (such as 'key.name', 'KEY_NAME' \
                 or 'key-name')"
                    .to_owned(),
            );
        }
        match text {
            "." | ".." => Some(format!("must not be '{text}'")),
            _ => text.starts_with("..").then(|| "must not start with '..'".to_owned()),
        }
    })
}

/// The name of a port, as IANA registers services.
pub(super) fn port_name(text: &str) -> Option<String> {
    too_long(text, 15).or_else(|| {
        let why = if !text.bytes().all(|b| is_alphanumeric(b) || b == b'-') {
            "must contain only letters a-z, digits and '-'"
        } else if !text.bytes().any(|b| b.is_ascii_lowercase()) {
            "must contain at least one letter (a-z)"
        } else if text.contains("--") {
            "must not contain consecutive hyphens"
        } else if text.starts_with('-') || text.ends_with('-') {
            "must not begin or end with a hyphen"
        } else {
            return None;
        };
        Some(why.to_owned())
    })
}

/// The name of an environment variable: any printable ASCII but `=`.
pub(super) fn variable(text: &str) -> Option<String> {
    let fits = text.bytes().all(|b| (b' '..=b'~').contains(&b) && b != b'=');
    (!fits).then(|| {
        "a valid environment variable name must consist of printable ASCII characters other than '='".to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_right_pass_and_others_do_not() {
        type Rule = fn(&str) -> Option<String>;
        let cases: [(Rule, &[&str], &[&str]); 8] = [
            (label, &["a", "a-1", "1a"], &["", "A", "-a", "a-", "a.b", "a_b"]),
            (label_from_letter, &["a", "a-1"], &["1a", "a-", ""]),
            (subdomain, &["a.b", "1.2-3"], &["", "a..b", ".a", "a.", "A.b", "a.-b"]),
            (path_segment, &["system:node", "A B"], &[".", "..", "a/b", "a%b"]),
            (qualified, &["a", "A_b.c", "x.y/Name"], &["", "/a", "a/", "a/b/c", "X.y/a", "-a", "a b"]),
            (label_value, &["", "a", "A_b.c-1"], &["-a", "a b", "a/b"]),
            (config_key, &["a", "_a", ".hidden", "A.b-c"], &["", ".", "..", "..a", "a/b", "a b"]),
            (port_name, &["http", "web-1"], &["123", "a--b", "-a", "HTTP", "longer-than-fifteen"]),
        ];
        for (at, (rule, right, wrong)) in cases.into_iter().enumerate() {
            for text in right {
                assert_eq!(rule(text), None, "rule {at}: {text:?}");
            }
            for text in wrong {
                assert!(rule(text).is_some(), "rule {at}: {text:?}");
            }
        }
    }

    #[test]
    fn lengths_are_bounded() {
        assert!(label(&"a".repeat(63)).is_none() && label(&"a".repeat(64)).is_some());
        assert!(subdomain(&"a".repeat(253)).is_none() && subdomain(&"a".repeat(254)).is_some());
        assert!(qualified(&format!("{}/n", "a".repeat(254))).is_some());
    }
}
