//! What a test made on a cluster that is not its own, so that it can be removed: everything that is not in a namespace
//! of the test's, which goes with its namespace.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Mutex, PoisonError};

use axum::body::Body;
use bytes::Bytes;
use c5c3_apiserver::{Asked, Target};
use http::{Response, StatusCode};
use http_body_util::BodyExt;
use serde_json::Value;

use crate::upstream::Failure;
use crate::wire::Wanted;

/// An object that a test made, by the path under which it is served.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Made {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) plural: String,
    pub(crate) namespace: Option<String>,
    pub(crate) name: String,
}

impl Made {
    /// An object that is in no namespace.
    pub(crate) fn across(group: &str, version: &str, plural: &str, name: &str) -> Self {
        let (group, version, plural) = (group.to_owned(), version.to_owned(), plural.to_owned());
        Self { group, version, plural, namespace: None, name: name.to_owned() }
    }

    pub(crate) fn namespace(name: &str) -> Self {
        Self::across("", "v1", "namespaces", name)
    }

    pub(crate) fn definition(name: &str) -> Self {
        Self::across("apiextensions.k8s.io", "v1", "customresourcedefinitions", name)
    }

    pub(crate) fn is_namespace(&self) -> bool {
        self.group.is_empty() && self.plural == "namespaces"
    }

    pub(crate) fn is_definition(&self) -> bool {
        self.plural == "customresourcedefinitions"
    }

    /// Where it is served.
    pub(crate) fn path(&self) -> String {
        let root = if self.group.is_empty() { "/api".to_owned() } else { format!("/apis/{}", self.group) };
        let within = self.namespace.as_ref().map(|namespace| format!("namespaces/{namespace}/")).unwrap_or_default();
        format!("{root}/{}/{within}{}/{}", self.version, self.plural, self.name)
    }

    /// What a request that was answered with 201 made, and whether it is in a namespace of the test's is for the caller.
    fn by(target: &Target, answer: &Bytes) -> Option<Self> {
        let object: Value = serde_json::from_slice(answer).ok()?;
        // A review has no name, and is not stored.
        let name = object["metadata"]["name"].as_str().filter(|name| !name.is_empty())?.to_owned();
        let Target { group, version, plural, namespace, .. } = target.clone();
        Some(Self { group, version, plural, namespace, name })
    }
}

impl fmt::Display for Made {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let group = if self.group.is_empty() { String::new() } else { format!(".{}", self.group) };
        write!(f, "{}{group}/{}", self.plural, self.name)?;
        self.namespace.as_ref().map_or(Ok(()), |namespace| write!(f, " in {namespace}"))
    }
}

/// All that one test cluster made.
#[derive(Debug, Default)]
pub(crate) struct Ledger(Mutex<Entries>);

/// What a ledger holds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Entries {
    pub(crate) made: BTreeSet<Made>,
    /// The definitions that it shares with others.
    pub(crate) shared: BTreeSet<String>,
}

impl Ledger {
    fn with<T>(&self, work: impl FnOnce(&mut Entries) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn entries(&self) -> Entries {
        self.with(|entries| entries.clone())
    }

    pub(crate) fn add(&self, made: Made) {
        self.with(|entries| entries.made.insert(made));
    }

    pub(crate) fn share(&self, definition: &str) {
        self.with(|entries| entries.shared.insert(definition.to_owned()));
    }

    /// Whether a namespace is the test's.
    pub(crate) fn owns(&self, namespace: &str) -> bool {
        self.with(|entries| entries.made.contains(&Made::namespace(namespace)))
    }

    /// Writes down what a request made, if anything.
    pub(crate) async fn note(&self, wanted: &Wanted, answer: Response<Body>) -> Result<Response<Body>, Failure> {
        let Asked::Resource(target) = &wanted.asked else { return Ok(answer) };
        let within_own = target.namespace.as_deref().is_some_and(|namespace| self.owns(namespace));
        if answer.status() != StatusCode::CREATED || wanted.dry_run || within_own || target.subresource.is_some() {
            return Ok(answer);
        }
        let (parts, body) = answer.into_parts();
        let body = body.collect().await?.to_bytes();
        if let Some(made) = Made::by(target, &body) {
            self.add(made);
        }
        Ok(Response::from_parts(parts, Body::from(body)))
    }
}
