//! The grammar of image names.

/// Whether a name is one: `[registry/]path[:tag][@digest]`.
pub(crate) fn is_valid(image: &str) -> bool {
    let (name, digest) = match image.split_once('@') {
        Some((name, digest)) => (name, Some(digest)),
        None => (image, None),
    };
    let (registry, rest) = split_registry(name);
    let (path, tag) = match rest.rsplit_once(':') {
        Some((path, tag)) => (path, Some(tag)),
        None => (rest, None),
    };
    registry.is_none_or(is_registry)
        && path.split('/').all(is_component)
        && tag.is_none_or(is_tag)
        && digest.is_none_or(is_digest)
}

/// The registry, if the name begins with one: it has a dot or a port, or is `localhost`.
pub(super) fn split_registry(name: &str) -> (Option<&str>, &str) {
    match name.split_once('/') {
        Some((first, rest)) if first.contains(['.', ':']) || first == "localhost" => (Some(first), rest),
        _ => (None, name),
    }
}

fn is_registry(name: &str) -> bool {
    let (host, port) = name.split_once(':').map_or((name, None), |(host, port)| (host, Some(port)));
    let is_label = |label: &str| {
        let inner = |c: char| c.is_ascii_alphanumeric() || c == '-';
        !label.is_empty() && label.chars().all(inner) && !label.starts_with('-') && !label.ends_with('-')
    };
    host.split('.').all(is_label) && port.is_none_or(|port| port.parse::<u16>().is_ok())
}

/// Small letters and digits, with single separators between.
fn is_component(component: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let parts: Vec<&str> = component.split(|c| !is_plain(c)).collect();
    let ends = component.starts_with(is_plain) && component.ends_with(is_plain);
    let known = component.chars().all(|c| is_plain(c) || matches!(c, '.' | '_' | '-'));
    // Between two parts one separator, or two underscores, or any number of dashes.
    let single = !component.contains("..") && !component.contains("___") && !component.contains("._");
    ends && known && single && !parts.is_empty()
}

fn is_tag(tag: &str) -> bool {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    (1..=128).contains(&tag.len()) && tag.starts_with(is_word) && tag.chars().all(|c| is_word(c) || ".-".contains(c))
}

fn is_digest(digest: &str) -> bool {
    digest.split_once(':').is_some_and(|(algorithm, hex)| {
        algorithm.starts_with(|c: char| c.is_ascii_alphabetic())
            && hex.len() >= 32
            && hex.chars().all(|c| c.is_ascii_hexdigit())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_images() {
        let digest = format!("a@sha256:{}", "0".repeat(64));
        for good in ["a", "a:1", "local.dev/pause:1", "localhost:5000/a/b-c:v1.2_x", "a__b", "a--b", &digest] {
            assert!(is_valid(good), "{good}");
        }
        for bad in ["", "A", "a:", "a b", "a//b", "-a", "a..b", "a:1:2", "a@sha256:1", "INVALID!", "a/", "https://a/b"]
        {
            assert!(!is_valid(bad), "{bad}");
        }
    }
}
