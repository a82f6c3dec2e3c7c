//! Endpoints: where the services of the catalog answer. Upstream knows no region here.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::envelope::kind;
use super::names::ObjectRef;

kind! {
    /// An endpoint of the Keystone catalog: where a service answers.
    "Endpoint", Endpoint, EndpointSpec, EndpointStatus,
    resource EndpointResource, filter EndpointFilter, observed EndpointObserved
}

/// The endpoint as it should be.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct EndpointResource {
    /// The interface: public, internal or admin.
    pub interface: Interface,
    /// Where the API answers.
    #[schemars(length(max = 1024))]
    pub url: String,
    /// The Service whose endpoint it is.
    #[x_kube(validation = Rule::new("self == oldSelf").message("serviceRef is immutable"))]
    pub service_ref: ObjectRef,
    /// What it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 255))]
    #[x_kube(validation = Rule::new("self == oldSelf").message("description is immutable"))]
    pub description: Option<String>,
    /// Whether the catalog shows it; true when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
}

/// Which endpoint to read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct EndpointFilter {
    /// The interface: public, internal or admin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interface: Option<Interface>,
    /// The Service whose endpoint it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_ref: Option<ObjectRef>,
    /// Where the API answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub url: Option<String>,
}

/// The endpoint as it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct EndpointObserved {
    /// The interface: public, internal or admin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub interface: Option<String>,
    /// Where the API answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub url: Option<String>,
    /// The id of its service.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "serviceID")]
    #[schemars(length(max = 1024))]
    pub service_id: Option<String>,
    /// Whether it is on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// What it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 255))]
    pub description: Option<String>,
}

/// The interface of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Interface {
    /// Administrators.
    Admin,
    /// Services of the cloud.
    Internal,
    /// Everybody.
    Public,
}
