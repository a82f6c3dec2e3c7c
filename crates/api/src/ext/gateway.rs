//! HTTPRoute of the Gateway API (`gateway.networking.k8s.io`).

use kube::CustomResource;
use serde::{Deserialize, Serialize};

/// Requests for some host names, and where they go.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[kube(
    group = "gateway.networking.k8s.io",
    version = "v1",
    kind = "HTTPRoute",
    plural = "httproutes",
    namespaced,
    derive = "PartialEq",
    derive = "Default",
    schema = "disabled"
)]
#[serde(rename_all = "camelCase")]
pub struct HTTPRouteSpec {
    /// The Gateways that the requests come through.
    #[serde(default)]
    pub parent_refs: Vec<ParentRef>,
    /// The host names; those of the Gateways when empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hostnames: Vec<String>,
    /// Where they go.
    #[serde(default)]
    pub rules: Vec<Rule>,
}

/// A Gateway.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ParentRef {
    /// Its name.
    #[serde(default)]
    pub name: String,
    /// Its namespace; that of the route when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// One of its listeners; all when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub section_name: Option<String>,
}

/// Which requests go where.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Rule {
    /// Which requests.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub matches: Vec<Match>,
    /// Where they go.
    #[serde(default)]
    pub backend_refs: Vec<BackendRef>,
}

impl Rule {
    /// Requests below `path` go to a port of the Service `service`.
    pub fn prefix(path: &str, service: &str, port: i32) -> Self {
        let path = PathMatch { r#type: "PathPrefix".into(), value: path.into() };
        Self { matches: vec![Match { path }], backend_refs: vec![BackendRef { name: service.into(), port }] }
    }
}

/// Which requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Match {
    /// By their path.
    #[serde(default)]
    pub path: PathMatch,
}

/// Paths.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathMatch {
    /// How they are compared.
    #[serde(default)]
    pub r#type: String,
    /// With what.
    #[serde(default)]
    pub value: String,
}

/// A port of a Service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackendRef {
    /// The Service.
    #[serde(default)]
    pub name: String,
    /// The port.
    #[serde(default)]
    pub port: i32,
}
