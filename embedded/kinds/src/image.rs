//! Image references, as far as a pull policy needs them.

/// The tag of an image, `latest` if it names neither tag nor digest, none if it names only a digest.
pub(crate) fn tag(image: &str) -> Option<&str> {
    let (name, digest) = image.split_once('@').map_or((image, None), |(name, digest)| (name, Some(digest)));
    let last = name.rsplit('/').next().unwrap_or(name);
    match (last.split_once(':'), digest) {
        (Some((_, tag)), _) => Some(tag),
        (None, Some(_)) => None,
        (None, None) => Some("latest"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_of_the_registry_is_not_a_tag() {
        assert_eq!(tag("registry:5000/a"), Some("latest"));
        assert_eq!(tag("registry:5000/a:1.2"), Some("1.2"));
        assert_eq!(tag("a@sha256:00"), None);
        assert_eq!(tag("a:b@sha256:00"), Some("b"));
    }
}
