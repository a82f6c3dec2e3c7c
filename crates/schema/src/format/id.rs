//! Formats of identifiers, encodings and numbers written as text.

/// 32 hexadecimal digits in either case; each dash may be left out.
pub(super) fn is_uuid(text: &str, version: Option<char>) -> bool {
    let mut rest = text;
    let mut digits = String::with_capacity(32);
    for (i, width) in [8, 4, 4, 4, 12].into_iter().enumerate() {
        if i > 0 {
            rest = rest.strip_prefix('-').unwrap_or(rest);
        }
        let Some((group, after)) = rest.split_at_checked(width) else {
            return false;
        };
        if !group.bytes().all(|b| b.is_ascii_hexdigit()) {
            return false;
        }
        digits.push_str(group);
        rest = after;
    }
    let at = |i: usize| char::from(digits.as_bytes()[i]).to_ascii_lowercase();
    // Versions 4 and 5 also fix the variant.
    let variant = !matches!(version, Some('4' | '5')) || "89ab".contains(at(16));
    rest.is_empty() && version.is_none_or(|v| at(12) == v) && variant
}

pub(super) fn is_bson_object_id(text: &str) -> bool {
    text.len() == 24 && text.bytes().all(|b| b.is_ascii_hexdigit())
}

pub(super) fn is_isbn10(text: &str) -> bool {
    let text = text.replace(['-', ' '], "");
    let digits: Option<Vec<u32>> =
        text.chars().enumerate().map(|(i, c)| if i == 9 && c == 'X' { Some(10) } else { c.to_digit(10) }).collect();
    digits.is_some_and(|d| d.len() == 10 && weighted(&d, |i| i + 1).is_multiple_of(11))
}

pub(super) fn is_isbn13(text: &str) -> bool {
    let text = text.replace(['-', ' '], "");
    let digits: Option<Vec<u32>> = text.chars().map(|c| c.to_digit(10)).collect();
    digits.is_some_and(|d| d.len() == 13 && weighted(&d, |i| if i % 2 == 0 { 1 } else { 3 }).is_multiple_of(10))
}

fn weighted(digits: &[u32], weight: fn(u32) -> u32) -> u32 {
    (0..).zip(digits).map(|(i, digit)| weight(i) * digit).sum()
}

/// A number of a known issuer's length whose check digit is right; what is not a digit is skipped.
pub(super) fn is_credit_card(text: &str) -> bool {
    let digits: Vec<u32> = text.chars().filter_map(|c| c.to_digit(10)).collect();
    let luhn: u32 = digits
        .iter()
        .rev()
        .enumerate()
        .map(|(i, &d)| match i % 2 {
            0 => d,
            _ if d > 4 => 2 * d - 9,
            _ => 2 * d,
        })
        .sum();
    (13..=16).contains(&digits.len()) && luhn.is_multiple_of(10)
}

pub(super) fn is_ssn(text: &str) -> bool {
    let mut rest = text;
    for (i, width) in [3, 2, 4].into_iter().enumerate() {
        if i > 0 {
            rest = rest.strip_prefix(['-', ' ']).unwrap_or(rest);
        }
        let Some((group, after)) = rest.split_at_checked(width) else {
            return false;
        };
        if !group.bytes().all(|b| b.is_ascii_digit()) {
            return false;
        }
        rest = after;
    }
    rest.is_empty()
}

pub(super) fn is_hex_color(text: &str) -> bool {
    let digits = text.strip_prefix('#').unwrap_or(text);
    matches!(digits.len(), 3 | 6) && digits.bytes().all(|b| b.is_ascii_hexdigit())
}

pub(super) fn is_rgb_color(text: &str) -> bool {
    let Some(inner) = text.strip_prefix("rgb(").and_then(|t| t.strip_suffix(')')) else {
        return false;
    };
    let part = |part: &str| {
        let part = part.trim();
        part.parse::<u8>().is_ok_and(|n| n.to_string() == part)
    };
    inner.split(',').count() == 3 && inner.split(',').all(part)
}

/// Standard base64 with padding. The empty string is not, which Kubernetes decided long ago.
pub(super) fn is_base64(text: &str) -> bool {
    let body = text.trim_end_matches('=');
    !text.is_empty()
        && text.len().is_multiple_of(4)
        && text.len() - body.len() <= 2
        && body.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'+' || b == b'/')
}

const SUFFIXES: [&str; 16] = ["", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

/// A Kubernetes quantity: a signed decimal with a binary, decimal or exponent suffix.
pub(super) fn is_quantity(text: &str) -> bool {
    let number = text.strip_prefix(['+', '-']).unwrap_or(text);
    let end = number.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(number.len());
    let (digits, suffix) = number.split_at(end);
    let exponent = suffix.strip_prefix(['e', 'E']).is_some_and(|exponent| {
        let exponent = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        !exponent.is_empty() && exponent.bytes().all(|b| b.is_ascii_digit())
    });
    digits.matches('.').count() <= 1
        && digits.bytes().any(|b| b.is_ascii_digit())
        && (exponent || SUFFIXES.contains(&suffix))
}

pub(super) fn is_short_name(text: &str) -> bool {
    text.len() <= 63 && is_label(text)
}

pub(super) fn is_long_name(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(is_label)
}

fn is_label(text: &str) -> bool {
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let bytes = text.as_bytes();
    bytes.first().is_some_and(|b| plain(*b))
        && bytes.last().is_some_and(|b| plain(*b))
        && bytes.iter().all(|b| plain(*b) || *b == b'-')
}
