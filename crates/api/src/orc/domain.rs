//! Domains: the outermost containers of users, groups and projects.

use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use super::envelope::kind;
use super::names::KeystoneName;

kind! {
    /// A Keystone domain: the outermost container of users, groups and projects.
    "Domain", Domain, DomainSpec, DomainStatus,
    resource DomainResource, filter DomainFilter, observed DomainObserved
}

/// The domain as it should be.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct DomainResource {
    /// The name in Keystone; the object's own name when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<KeystoneName>,
    /// What it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 255))]
    pub description: Option<String>,
    /// Whether its users can sign in; true when absent. Keystone deletes only a disabled domain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
}

/// Which domain to read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct DomainFilter {
    /// Its exact name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<KeystoneName>,
    /// Whether it is on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
}

/// The domain as it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct DomainObserved {
    /// Its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub name: Option<String>,
    /// What it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub description: Option<String>,
    /// Whether it is on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
}
