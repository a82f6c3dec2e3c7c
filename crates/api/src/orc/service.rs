//! Services: the entries of the catalog.

use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use super::envelope::kind;
use super::names::OpenStackName;
use crate::blocks::yes;

kind! {
    /// An entry of the Keystone catalog: a kind of API that the cloud has.
    "Service", Service, ServiceSpec, ServiceStatus,
    resource ServiceResource, filter ServiceFilter, observed ServiceObserved
}

/// The service as it should be.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServiceResource {
    /// The name in Keystone; the object's own name when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<OpenStackName>,
    /// What it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 255))]
    pub description: Option<String>,
    /// What kind of API it is, such as `compute`; clients look it up by this.
    #[schemars(length(min = 1, max = 255))]
    pub r#type: String,
    /// Whether the catalog shows it.
    #[serde(default = "yes")]
    pub enabled: bool,
}

/// Which service to read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct ServiceFilter {
    /// Its exact name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<OpenStackName>,
    /// What kind of API it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 255))]
    pub r#type: Option<String>,
}

/// The service as it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServiceObserved {
    /// Its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 255))]
    pub name: Option<String>,
    /// What it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 255))]
    pub description: Option<String>,
    /// What kind of API it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 255))]
    pub r#type: Option<String>,
    /// Whether it is on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
}
