//! What a request asks for, read from its method, path and query.

use std::collections::BTreeMap;

use c5c3_kinds::Verb;
use http::Method;
use percent_encoding::percent_decode_str;

/// The parameters of a query, decoded; the last of several with one name counts.
#[derive(Clone, Debug, Default)]
pub struct Query(BTreeMap<String, String>);

impl Query {
    /// Reads a query string.
    pub fn parse(text: &str) -> Self {
        let pairs = text.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decode(name), decode(value))
        });
        Self(pairs.collect())
    }

    /// A parameter that is there and not empty.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// A parameter that is there, even if empty.
    pub fn raw(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// A switch: present without a value counts as on.
    pub fn is_on(&self, name: &str) -> bool {
        self.0.get(name).is_some_and(|value| matches!(value.as_str(), "" | "1" | "true" | "True" | "TRUE" | "t" | "T"))
    }

    /// A number; an unreadable one is an error of the client's.
    pub fn number(&self, name: &str) -> Result<Option<u64>, String> {
        self.get(name)
            .map(|value| value.parse().map_err(|_| format!("{name} must be a number, and is {value:?}")))
            .transpose()
    }
}

/// All values of a parameter that may be there several times, in order, decoded.
pub fn every(query: &str, name: &str) -> Vec<String> {
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    pairs.filter(|(found, _)| decode(found) == name).map(|(_, value)| decode(value)).collect()
}

/// A part of a query, in which a plus stands for a space.
fn decode(text: &str) -> String {
    unescape(&text.replace('+', " "))
}

fn unescape(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

/// A request for a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The group; empty for core.
    pub group: String,
    /// The version.
    pub version: String,
    /// The resource's plural.
    pub plural: String,
    /// The namespace, if one is named.
    pub namespace: Option<String>,
    /// The object, if one is named.
    pub name: Option<String>,
    /// What is below the object, and the rest of the path below that; what is proxied is no business of this server's.
    pub subresource: Option<String>,
}

/// What a path asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// A resource.
    Resource(Target),
    /// Anything else: discovery, health, documents.
    Path,
}

impl Asked {
    /// Reads a path. Percent-escapes are decoded per segment, so that a name cannot smuggle in a slash.
    pub fn parse(path: &str) -> Self {
        let parts: Vec<String> = path.trim_matches('/').split('/').map(unescape).collect();
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        let (group, version, rest) = match parts.as_slice() {
            ["api", version, rest @ ..] if !rest.is_empty() => ("", *version, rest),
            ["apis", group, version, rest @ ..] if !rest.is_empty() => (*group, *version, rest),
            _ => return Self::Path,
        };
        let target = |namespace: Option<&str>, plural: &str, rest: &[&str]| {
            let part = |index: usize| rest.get(index).map(|part| (*part).to_owned());
            Self::Resource(Target {
                group: group.to_owned(),
                version: version.to_owned(),
                plural: plural.to_owned(),
                namespace: namespace.map(ToOwned::to_owned),
                name: part(0).filter(|name| !name.is_empty()),
                subresource: match rest {
                    [] | [_] => None,
                    [_, "proxy", ..] => Some("proxy".to_owned()),
                    [_, below @ ..] => Some(below.join("/")),
                },
            })
        };
        match rest {
            // `namespaces` is a resource itself, and the prefix of all that is inside one.
            ["namespaces", _, "status" | "finalize"] => target(None, "namespaces", &rest[1..]),
            ["namespaces", namespace, plural, rest @ ..] => target(Some(namespace), plural, rest),
            // `/api/v1/watch/...` is the old way to watch, which is not served.
            ["watch", ..] | [] => Self::Path,
            [plural, rest @ ..] => target(None, plural, rest),
        }
    }
}

/// What a request does to a resource; none for a method that only proxies know.
pub fn verb(method: &Method, target: &Target, query: &Query) -> Option<Verb> {
    Some(match (method, &target.name) {
        // Below an object, `watch` is a word for whoever is there.
        (&Method::GET | &Method::HEAD, _) if query.is_on("watch") && target.subresource.is_none() => Verb::Watch,
        (&Method::GET | &Method::HEAD, Some(_)) => Verb::Get,
        (&Method::GET | &Method::HEAD, None) => Verb::List,
        (&Method::POST, _) => Verb::Create,
        (&Method::PUT, _) => Verb::Update,
        (&Method::PATCH, _) => Verb::Patch,
        (&Method::DELETE, Some(_)) => Verb::Delete,
        (&Method::DELETE, None) => Verb::DeleteCollection,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(path: &str) -> Target {
        match Asked::parse(path) {
            Asked::Resource(target) => target,
            Asked::Path => panic!("{path} asks for no resource"),
        }
    }

    #[test]
    fn paths_are_read_as_kubernetes_writes_them() {
        let pod = target("/api/v1/namespaces/orchard/pods/tree/log");
        assert_eq!((pod.plural.as_str(), pod.namespace.as_deref()), ("pods", Some("orchard")));
        assert_eq!((pod.name.as_deref(), pod.subresource.as_deref()), (Some("tree"), Some("log")));
        let namespace = target("/api/v1/namespaces/orchard");
        assert_eq!((namespace.plural.as_str(), namespace.name.as_deref()), ("namespaces", Some("orchard")));
        let status = target("/api/v1/namespaces/orchard/status");
        assert_eq!((status.plural.as_str(), status.subresource.as_deref()), ("namespaces", Some("status")));
        let all = target("/apis/apps/v1/deployments");
        assert_eq!((all.group.as_str(), all.name, all.namespace), ("apps", None, None));
        assert_eq!(target("/api/v1/namespaces/a/pods/b%2Fc").name.as_deref(), Some("b/c"));
        let proxied = target("/api/v1/namespaces/a/services/http:b:80/proxy/c/d");
        assert_eq!((proxied.name.as_deref(), proxied.subresource.as_deref()), (Some("http:b:80"), Some("proxy")));
        for path in ["/", "/api", "/apis", "/api/v1", "/apis/apps", "/apis/apps/v1", "/version", "/openapi/v3"] {
            assert_eq!(Asked::parse(path), Asked::Path, "{path}");
        }
    }

    #[test]
    fn queries_are_decoded() {
        let query = Query::parse("labelSelector=a%3Db%2Cc+in+%28d%29&watch=1&limit=x");
        assert_eq!(query.get("labelSelector"), Some("a=b,c in (d)"));
        assert!(query.is_on("watch"));
        assert!(query.number("limit").is_err());
        assert_eq!(every("command=echo&command=a%26b&tty=1", "command"), ["echo", "a&b"]);
    }
}
