//! Formats of addresses and names on a network.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What Go's `url.ParseRequestURI` accepts: a URI with a scheme, or an absolute path.
pub(super) fn is_uri(text: &str) -> bool {
    if text.is_empty() || text.bytes().any(|b| b < 0x20 || b == 0x7f) {
        return false;
    }
    if text == "*" {
        return true;
    }
    let (scheme, rest) = match text.split_once(':') {
        Some(("", _)) => return false,
        Some((scheme, rest)) if is_scheme(scheme) => (Some(scheme), rest),
        _ => (None, text),
    };
    let rest = rest.split('?').next().unwrap_or_default();
    if !rest.starts_with('/') {
        // `mailto:someone` is opaque and fine; `example.org` is neither a URI nor a path.
        return scheme.is_some();
    }
    let (authority, path) = match rest.strip_prefix("//") {
        Some(rest) if scheme.is_some() || !rest.starts_with('/') => {
            let end = rest.find('/').unwrap_or(rest.len());
            rest.split_at(end)
        }
        _ => ("", rest),
    };
    is_authority(authority) && percent_signs_are_sound(path)
}

fn is_scheme(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
}

fn is_authority(text: &str) -> bool {
    let host_and_port = text.rsplit_once('@').map_or(text, |(_, host)| host);
    let (host, port) = if let Some(rest) = host_and_port.strip_prefix('[') {
        let Some((host, port)) = rest.split_once(']') else {
            return false;
        };
        (host, port)
    } else {
        match host_and_port.find(':') {
            Some(i) => host_and_port.split_at(i),
            None => (host_and_port, ""),
        }
    };
    let forbidden = |c: char| " \"<>\\^`{|}#".contains(c);
    let port_is_sound = match port.strip_prefix(':') {
        Some(digits) => digits.bytes().all(|b| b.is_ascii_digit()),
        None => port.is_empty(),
    };
    !host.contains(forbidden) && port_is_sound && percent_signs_are_sound(host)
}

fn percent_signs_are_sound(text: &str) -> bool {
    text.split('%').skip(1).all(|after| {
        let digits = after.as_bytes();
        digits.len() >= 2 && digits[..2].iter().all(u8::is_ascii_hexdigit)
    })
}

pub(super) fn is_email(text: &str) -> bool {
    let address = match text.split_once('<') {
        Some((_, rest)) => match rest.strip_suffix('>') {
            Some(address) => address,
            None => return false,
        },
        None => text,
    };
    let odd = |c: char| c.is_whitespace() || c.is_control() || "<>()[]\\,;:\"".contains(c);
    address.rsplit_once('@').is_some_and(|(name, domain)| {
        let dotted = |part: &str| !part.is_empty() && part.split('.').all(|atom| !atom.is_empty());
        dotted(name) && dotted(domain) && !name.contains(odd) && !domain.contains(odd)
    })
}

/// Kubernetes' expression for host names has its oddities, kept here so that what passes here passes there: a lone
/// label may have a dash in second place only, and a last label has two characters or more and no two dashes in a row.
pub(super) fn is_hostname(text: &str) -> bool {
    let labels: Vec<&str> = text.split('.').collect();
    let plain = |label: &str| !label.is_empty() && label.chars().all(is_host_char);
    if text.len() > 255 || labels.iter().any(|label| label.len() > 63) {
        return false;
    }
    let Some((last, first)) = labels.split_last() else {
        return false;
    };
    if first.is_empty() {
        let mut rest = last.chars();
        let tail = rest.next().filter(|c| is_host_char(*c)).map(|_| rest.as_str());
        return tail.is_some_and(|tail| tail.strip_prefix('-').unwrap_or(tail).chars().all(is_host_char));
    }
    let inner = |label: &&str| label.split('-').count() == 1 && plain(label) || dashed(label);
    first.iter().all(inner) && last.chars().count() > 1 && last.split('-').all(plain)
}

fn dashed(label: &str) -> bool {
    let ends = |c: Option<char>| c.is_some_and(is_host_char);
    ends(label.chars().next()) && ends(label.chars().next_back()) && label.chars().all(|c| c == '-' || is_host_char(c))
}

/// Letters of any script, digits, and symbols such as emoji.
fn is_host_char(c: char) -> bool {
    c.is_ascii_alphanumeric()
        || (!c.is_ascii() && (c.is_alphabetic() || !c.is_alphanumeric()) && !c.is_whitespace() && !c.is_control())
}

pub(super) fn is_ipv4(text: &str) -> bool {
    text.contains('.') && text.parse::<IpAddr>().is_ok()
}

pub(super) fn is_ipv6(text: &str) -> bool {
    text.contains(':') && text.parse::<Ipv6Addr>().is_ok()
}

pub(super) fn is_cidr(text: &str) -> bool {
    let Some((address, prefix)) = text.split_once('/') else {
        return false;
    };
    let longest = if address.parse::<Ipv4Addr>().is_ok() {
        32
    } else if address.parse::<Ipv6Addr>().is_ok() {
        128
    } else {
        return false;
    };
    prefix.bytes().all(|b| b.is_ascii_digit()) && prefix.parse::<u8>().is_ok_and(|n| n <= longest)
}

/// 6, 8 or 20 octets, in pairs after colons or dashes or in fours after dots.
pub(super) fn is_mac(text: &str) -> bool {
    let groups = |separator: char, digits: usize| {
        let groups: Vec<&str> = text.split(separator).collect();
        let sound = |g: &&str| g.len() == digits && g.bytes().all(|b| b.is_ascii_hexdigit());
        groups.iter().all(sound).then_some(groups.len() * digits / 2)
    };
    let octets = groups(':', 2).or_else(|| groups('-', 2)).or_else(|| groups('.', 4));
    matches!(octets, Some(6 | 8 | 20))
}
