//! Links that begin at the root of what is proxied, made to begin where it is proxied.

use std::sync::LazyLock;

use regex::{Captures, Regex};

/// An attribute with a link from the root; two slashes would begin a host.
static LINK: LazyLock<Regex> = LazyLock::new(|| {
    let attributes =
        "action|background|cite|classid|codebase|data|formaction|href|icon|longdesc|manifest|poster|profile|src|usemap";
    let pattern = format!(r#"(?i)(\s(?:{attributes})\s*=\s*["']?)(/(?:[^/"'\s>][^"'\s>]*)?)(["'\s>])"#);
    Regex::new(&pattern).expect("a pattern that is written here")
});

/// The page with its links from the root changed.
pub(super) fn page(text: &str, prefix: &str) -> String {
    let changed = |found: &Captures<'_>| format!("{}{}{}", &found[1], below(&found[2], prefix), &found[3]);
    LINK.replace_all(text, changed).into_owned()
}

/// Where a redirection leads, if that is changed: to the root, or to the proxied server by its address.
pub(super) fn location(to: &str, prefix: &str, server: &str) -> Option<String> {
    let by_address = ["http://", "https://"].iter().find_map(|scheme| to.strip_prefix(scheme)?.strip_prefix(server));
    let path = by_address.unwrap_or(to);
    let is_from_root = path.starts_with('/') && !path.starts_with("//");
    match (is_from_root, by_address) {
        (true, _) => Some(below(path, prefix)),
        (false, Some("")) => Some(format!("{prefix}/")),
        (false, _) => None,
    }
}

fn below(path: &str, prefix: &str) -> String {
    if path.starts_with(prefix) { path.to_owned() } else { format!("{prefix}{path}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PREFIX: &str = "/api/v1/namespaces/shop/pods/web/proxy";

    #[test]
    fn links_from_the_root_are_changed_and_others_are_not() {
        let text = r#"<a href="/rewriteme">test</a><img src='/'><a href="a/b"><a href="//host/a"><p>/b</p><a HREF=/c>"#;
        let wanted = format!(
            r#"<a href="{PREFIX}/rewriteme">test</a><img src='{PREFIX}/'><a href="a/b"><a href="//host/a"><p>/b</p><a HREF={PREFIX}/c>"#
        );
        assert_eq!(page(text, PREFIX), wanted);
        assert_eq!(page(&wanted, PREFIX), wanted);
    }

    #[test]
    fn redirections_stay_behind_the_proxy() {
        let at = |to| location(to, PREFIX, "10.1.0.9:80");
        assert_eq!(at("/a?b").unwrap(), format!("{PREFIX}/a?b"));
        assert_eq!(at("http://10.1.0.9:80/a").unwrap(), format!("{PREFIX}/a"));
        assert_eq!(at("http://10.1.0.9:80").unwrap(), format!("{PREFIX}/"));
        assert_eq!((at("a/b"), at("https://elsewhere/a"), at("//elsewhere/a")), (None, None, None));
    }
}
