//! Roles: what a policy asks for.

use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use super::envelope::kind;
use super::names::{KeystoneName, ObjectRef};

kind! {
    /// A Keystone role: what the policies of the services ask for.
    "Role", Role, RoleSpec, RoleStatus,
    resource RoleResource, filter RoleFilter, observed RoleObserved
}

/// The role as it should be.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct RoleResource {
    /// The name in Keystone; the object's own name when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<KeystoneName>,
    /// What it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 255))]
    pub description: Option<String>,
    /// The Domain that it belongs to; a role of the whole cloud when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = Rule::new("self == oldSelf").message("domainRef is immutable"))]
    pub domain_ref: Option<ObjectRef>,
}

/// Which role to read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct RoleFilter {
    /// Its exact name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<KeystoneName>,
    /// The Domain that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain_ref: Option<ObjectRef>,
}

/// The role as it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct RoleObserved {
    /// Its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub name: Option<String>,
    /// What it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub description: Option<String>,
    /// The id of its domain; empty for a role of the whole cloud.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "domainID")]
    #[schemars(length(max = 1024))]
    pub domain_id: Option<String>,
}
