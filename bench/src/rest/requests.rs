//! The requests that `kubectl proxy -v=6` logs, and what they are for.

use std::collections::{BTreeMap, BTreeSet};

/// A request as it was logged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Request {
    verb: String,
    /// The path, without what a query asks for.
    path: String,
    query: String,
}

/// What a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Sort {
    /// Election of the leader.
    Lease,
    /// A watch that is opened, for the first time or again.
    Watch,
    /// A service that is asked whether it answers.
    Probe,
    /// Anything else that is read.
    Read,
    /// Anything else that is written.
    Write,
}

impl Sort {
    pub(super) const ALL: [Self; 5] = [Self::Lease, Self::Watch, Self::Probe, Self::Read, Self::Write];

    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Lease => "the Lease",
            Self::Watch => "watches opened again",
            Self::Probe => "probes of services",
            Self::Read => "reads",
            Self::Write => "writes",
        }
    }
}

impl Request {
    fn sort(&self) -> Sort {
        match self.verb.as_str() {
            _ if self.resource() == "leases" => Sort::Lease,
            "GET" if self.query.contains("watch=true") => Sort::Watch,
            "GET" if self.path.contains("/proxy/") => Sort::Probe,
            "GET" => Sort::Read,
            _ => Sort::Write,
        }
    }

    /// The resource, by its plural.
    fn resource(&self) -> &str {
        let mut parts = self.path.split('/').skip(1);
        // Of the core group, or of a named one.
        let skipped = if parts.next() == Some("api") { 1 } else { 2 };
        let mut parts = parts.skip(skipped);
        match parts.next() {
            Some("namespaces") => parts.nth(1).unwrap_or("namespaces"),
            other => other.unwrap_or_default(),
        }
    }
}

/// The requests in a log, in their order.
pub(super) fn requests(log: &str) -> Vec<Request> {
    log.lines().filter_map(request).collect()
}

fn request(line: &str) -> Option<Request> {
    let (_, line) = line.split_once("] \"Response\" verb=\"")?;
    let (verb, line) = line.split_once("\" url=\"")?;
    let (url, _) = line.split_once('"')?;
    let (_, path) = url.split_once("://")?.1.split_once('/')?;
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    Some(Request { verb: verb.to_owned(), path: format!("/{path}"), query: query.to_owned() })
}

/// What is watched: the path and the selectors of each list that a watch keeps up to date.
pub(super) fn watched(requests: &[Request]) -> BTreeSet<String> {
    let watches = requests.iter().filter(|request| request.sort() == Sort::Watch);
    let lists = watches.map(|request| {
        let selectors = request.query.split('&').filter(|part| part.contains("Selector="));
        format!("{}?{}", request.path, selectors.collect::<Vec<_>>().join("&"))
    });
    lists.collect()
}

/// Requests, counted by what they are for and by verb and resource.
#[derive(Debug, Default)]
pub(super) struct Requests(BTreeMap<(Sort, String), u32>);

impl Requests {
    pub(super) fn of(requests: &[Request]) -> Self {
        let mut counts = BTreeMap::new();
        for request in requests {
            let what = format!("{} {}", request.verb, request.resource());
            *counts.entry((request.sort(), what)).or_default() += 1;
        }
        Self(counts)
    }

    pub(super) fn count(&self, sort: Sort) -> u32 {
        self.details(sort).map(|(_, count)| count).sum()
    }

    pub(super) fn details(&self, sort: Sort) -> impl Iterator<Item = (&str, u32)> {
        self.0.iter().filter(move |((of, _), _)| *of == sort).map(|((_, what), count)| (what.as_str(), *count))
    }

    pub(super) fn all(&self) -> u32 {
        self.0.values().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = r#"
I1116 14:29:50.166354   31650 proxy_server.go:131] Filter accepting GET /api/v1/nodes 127.0.0.1
I1116 14:29:50.178882   31650 round_trippers.go:632] "Response" verb="PUT" url="https://127.0.0.1:6443/apis/coordination.k8s.io/v1/namespaces/shed/leases/press?" status="200 OK" milliseconds=12
I1116 14:29:51.178882   31650 round_trippers.go:632] "Response" verb="GET" url="https://127.0.0.1:6443/api/v1/namespaces/shed/secrets?&watch=true&timeoutSeconds=290&fieldSelector=metadata.name%3Dkey&resourceVersion=7" status="200 OK" milliseconds=1
I1116 14:29:51.178882   31650 round_trippers.go:632] "Response" verb="GET" url="https://127.0.0.1:6443/api/v1/namespaces/shed/secrets?&watch=true&timeoutSeconds=290&fieldSelector=metadata.name%3Dkey&resourceVersion=9" status="200 OK" milliseconds=1
I1116 14:29:52.178882   31650 round_trippers.go:632] "Response" verb="GET" url="https://127.0.0.1:6443/api/v1/namespaces/shed/services/http:press:80/proxy/" status="200 OK" milliseconds=1
I1116 14:29:53.178882   31650 round_trippers.go:632] "Response" verb="GET" url="https://127.0.0.1:6443/apis/apps/v1/deployments?limit=500" status="200 OK" milliseconds=1
I1116 14:29:54.178882   31650 round_trippers.go:632] "Response" verb="PATCH" url="https://127.0.0.1:6443/api/v1/namespaces/shed?force=true" status="200 OK" milliseconds=1
"#;

    #[test]
    fn requests_are_counted_by_what_they_are_for() {
        let all = requests(LOG);
        let counted = Requests::of(&all);
        assert_eq!(Sort::ALL.map(|sort| counted.count(sort)), [1, 2, 1, 1, 1]);
        assert_eq!(counted.all(), 6);
        assert_eq!(counted.details(Sort::Read).collect::<Vec<_>>(), [("GET deployments", 1)]);
        assert_eq!(counted.details(Sort::Write).collect::<Vec<_>>(), [("PATCH namespaces", 1)]);
    }

    #[test]
    fn a_watch_that_is_opened_again_is_one_list() {
        let lists: Vec<_> = watched(&requests(LOG)).into_iter().collect();
        assert_eq!(lists, ["/api/v1/namespaces/shed/secrets?fieldSelector=metadata.name%3Dkey"]);
    }
}
