//! Projects: what owns servers, volumes and networks.

use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use super::envelope::kind;
use super::names::{KeystoneName, KeystoneTag, ObjectRef};

kind! {
    /// A Keystone project: what owns servers, volumes and networks, and what quotas count.
    "Project", Project, ProjectSpec, ProjectStatus,
    resource ProjectResource, filter ProjectFilter, observed ProjectObserved
}

/// The project as it should be.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProjectResource {
    /// The name in Keystone; the object's own name when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<KeystoneName>,
    /// What it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 65535))]
    pub description: Option<String>,
    /// The Domain that it belongs to; the domain of the credentials when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = Rule::new("self == oldSelf").message("domainRef is immutable"))]
    pub domain_ref: Option<ObjectRef>,
    /// Whether it can be used; true when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// Words to find it by.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 80), extend("x-kubernetes-list-type" = "set"))]
    pub tags: Vec<KeystoneTag>,
}

/// Which project to read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct ProjectFilter {
    /// Its exact name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<KeystoneName>,
    /// The Domain that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain_ref: Option<ObjectRef>,
    /// It has all of these.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 80), extend("x-kubernetes-list-type" = "set"))]
    pub tags: Vec<KeystoneTag>,
    /// It has at least one of these.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 80), extend("x-kubernetes-list-type" = "set"))]
    pub tags_any: Vec<KeystoneTag>,
    /// It does not have all of these.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 80), extend("x-kubernetes-list-type" = "set"))]
    pub not_tags: Vec<KeystoneTag>,
    /// It has none of these.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 80), extend("x-kubernetes-list-type" = "set"))]
    pub not_tags_any: Vec<KeystoneTag>,
}

/// The project as it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProjectObserved {
    /// Its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub name: Option<String>,
    /// What it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 65535))]
    pub description: Option<String>,
    /// The id of its domain.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "domainID")]
    #[schemars(length(max = 1024))]
    pub domain_id: Option<String>,
    /// Whether it is on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// Its tags.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 80), inner(length(max = 1024)), extend("x-kubernetes-list-type" = "atomic"))]
    pub tags: Vec<String>,
}
