//! What an API server serves under one group, version and plural: the row of its resource table.

mod builtin;
mod custom;

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use builtin::builtin;
pub use custom::{Custom, ScalePaths, custom};

/// What can be done with a resource, in the order in which discovery prints it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verb {
    /// Make a new object.
    Create,
    /// Delete one object.
    Delete,
    /// Delete all that a selector selects.
    DeleteCollection,
    /// Read one object.
    Get,
    /// Read all that a selector selects.
    List,
    /// Change a part of an object.
    Patch,
    /// Replace an object.
    Update,
    /// Read changes as they happen.
    Watch,
}

impl Verb {
    /// As RBAC and discovery write it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
            Self::Get => "get",
            Self::List => "list",
            Self::Patch => "patch",
            Self::Update => "update",
            Self::Watch => "watch",
        }
    }
}

/// The verbs of a resource with storage.
pub const VERBS: &[Verb] = &[
    Verb::Create,
    Verb::Delete,
    Verb::DeleteCollection,
    Verb::Get,
    Verb::List,
    Verb::Patch,
    Verb::Update,
    Verb::Watch,
];

/// One resource: a kind as it is served in one group and version.
#[derive(Debug, Clone, PartialEq)]
pub struct Resource {
    /// API group; empty for the core group.
    pub group: String,
    /// Version: `v1`.
    pub version: String,
    /// Kind: `Pod`.
    pub kind: String,
    /// Kind of its lists: `PodList`. Empty for resources that cannot be listed.
    pub list_kind: String,
    /// The name in paths: `pods`.
    pub plural: String,
    /// What a person may also type: `pod`.
    pub singular: String,
    /// Abbreviations: `po`.
    pub short_names: Vec<String>,
    /// Groups of resources such as `all`.
    pub categories: Vec<String>,
    /// Whether its objects live in namespaces.
    pub namespaced: bool,
    /// What can be done with it.
    pub verbs: &'static [Verb],
    /// What hangs below its objects.
    pub subresources: Vec<Subresource>,
    /// What its objects may be called.
    pub name_rule: NameRule,
    /// Where its objects are stored, without slashes at the ends. Resources that show the same objects in different
    /// shapes have the same prefix.
    pub storage_prefix: String,
    /// `apiVersion` of the shape that is stored.
    pub storage_version: String,
    /// Whether its `metadata.generation` counts changes of everything but metadata and status.
    pub generation: bool,
    /// Where its description comes from.
    pub origin: Origin,
}

/// Where the description of a resource comes from.
#[derive(Debug, Clone, PartialEq)]
pub enum Origin {
    /// It is built in; schemas, defaults and validation are this crate's.
    BuiltIn,
    /// A CustomResourceDefinition.
    Custom(Arc<Custom>),
}

/// Something below an object: `pods/log`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subresource {
    /// Last segment of its path: `log`.
    pub name: String,
    /// Group of the kind that it speaks.
    pub group: String,
    /// Version of that kind.
    pub version: String,
    /// That kind: `Scale`.
    pub kind: String,
    /// What can be done with it.
    pub verbs: &'static [Verb],
}

/// What an object may be called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameRule {
    /// Labels joined by dots, 253 characters at most: most kinds.
    DnsSubdomain,
    /// One label, 63 characters at most: namespaces.
    DnsLabel,
    /// One label that starts with a letter: services, because their names become variables in containers.
    Dns1035Label,
    /// Anything that fits a path segment: RBAC's `system:node`.
    PathSegment,
    /// An IP address, in its shortest form: IPAddresses.
    IpAddress,
}

impl Resource {
    /// `v1`, `apps/v1`.
    pub fn api_version(&self) -> String {
        api_version(&self.group, &self.version)
    }

    /// Whether requests may use the verb.
    pub fn allows(&self, verb: Verb) -> bool {
        self.verbs.contains(&verb)
    }

    /// The subresource of that name.
    pub fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources.iter().find(|subresource| subresource.name == name)
    }

    /// What its CustomResourceDefinition says, if it has one.
    pub fn custom(&self) -> Option<&Custom> {
        match &self.origin {
            Origin::BuiltIn => None,
            Origin::Custom(custom) => Some(custom),
        }
    }

    /// Whether it is the built-in kind of that group and name.
    pub fn is(&self, group: &str, kind: &str) -> bool {
        self.custom().is_none() && self.group == group && self.kind == kind
    }

    /// `pods`, `deployments.apps`: how errors and RBAC name it.
    pub fn qualified_plural(&self) -> String {
        if self.group.is_empty() { self.plural.clone() } else { format!("{}.{}", self.plural, self.group) }
    }

    /// `(group, kind)` of a built-in kind, to choose by; a custom kind matches nothing.
    pub(crate) fn built_in_kind(&self) -> (&str, &str) {
        match self.origin {
            Origin::BuiltIn => (&self.group, &self.kind),
            Origin::Custom(_) => ("", ""),
        }
    }

    /// The `x-kubernetes-group-version-kind` of OpenAPI.
    pub(crate) fn gvk(&self) -> Value {
        gvk(&self.group, &self.version, &self.kind)
    }
}

/// `v1` for the core group, `group/version` otherwise.
pub(crate) fn api_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

pub(crate) fn gvk(group: &str, version: &str, kind: &str) -> Value {
    serde_json::json!({"group": group, "kind": kind, "version": version})
}

/// The built-in resource of that group, version and plural.
pub fn find(group: &str, version: &str, plural: &str) -> Option<&'static Resource> {
    builtin().iter().find(|r| r.group == group && r.version == version && r.plural == plural)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_resources_share_a_path_and_only_known_pairs_share_a_prefix() {
        let mut paths: Vec<_> = builtin().iter().map(|r| (&r.group, &r.version, &r.plural)).collect();
        paths.sort();
        let count = paths.len();
        paths.dedup();
        assert_eq!(paths.len(), count);

        let mut shared: Vec<&str> = Vec::new();
        for (i, a) in builtin().iter().enumerate() {
            if builtin()[..i].iter().any(|b| a.storage_prefix == b.storage_prefix) {
                shared.push(&a.storage_prefix);
            }
        }
        assert_eq!(shared, ["events", "autoscaling/horizontalpodautoscalers"]);
    }

    #[test]
    fn short_names_and_categories_are_those_that_kubectl_users_type() {
        let short = |group: &str, version: &str, plural: &str| {
            find(group, version, plural).map(|r| (r.short_names.join(","), r.categories.join(",")))
        };
        let pair = |a: &str, b: &str| Some((a.to_owned(), b.to_owned()));
        assert_eq!(short("", "v1", "pods"), pair("po", "all"));
        assert_eq!(short("apps", "v1", "deployments"), pair("deploy", "all"));
        assert_eq!(
            short("apiextensions.k8s.io", "v1", "customresourcedefinitions"),
            pair("crd,crds", "api-extensions")
        );
        assert_eq!(short("policy", "v1", "poddisruptionbudgets"), pair("pdb", ""));
    }

    #[test]
    fn a_subresource_may_speak_a_kind_of_another_group() {
        let token = find("", "v1", "serviceaccounts").and_then(|r| r.subresource("token")).unwrap();
        assert_eq!((token.group.as_str(), token.kind.as_str()), ("authentication.k8s.io", "TokenRequest"));
        let scale = find("apps", "v1", "statefulsets").and_then(|r| r.subresource("scale")).unwrap();
        assert_eq!((scale.group.as_str(), scale.version.as_str()), ("autoscaling", "v1"));
    }
}
