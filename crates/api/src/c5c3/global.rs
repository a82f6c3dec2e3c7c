//! What a ControlPlane sets for all of its services at once.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::blocks::{DataKey, Host, IssuerRef, LocalRef, ObjectName, PolicyOverrides, Region, Repository, SecretRef};

/// Settings of every service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Global {
    /// Region of every endpoint. `RegionOne` when absent. It cannot be changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<Region>,
    /// The domain below which clients outside the cluster reach each API, as in `https://nova.cloud.example.net` for
    /// `cloud.example.net`. A service's own `publicEndpoint` comes first. The addresses within the cluster when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub public_domain: Option<Host>,
    /// TLS on every API, and of MariaDB, RabbitMQ and Valkey with everybody. Memcached has none, and answers its own namespace
    /// alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<GlobalTls>,
    /// Metrics.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub monitoring: Option<Monitoring>,
    /// Policies that hold for every service; a service's own win. A service gets the rules that it has policies for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy_overrides: Option<PolicyOverrides>,
    /// Where images are pulled from, and with which credentials.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<GlobalImage>,
    /// How every service logs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logging: Option<GlobalLogging>,
    /// Certificate authorities that every service trusts beside those of its image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_bundle_ref: Option<GlobalCaBundle>,
}

/// Where images are pulled from, and with which credentials.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct GlobalImage {
    /// Registry and path that every image is below, such as `registry.example.net/c5c3`, with the names and tags that the
    /// images have at `ghcr.io/c5c3`; `ghcr.io/c5c3` itself, and what the operators of MariaDB and RabbitMQ choose, when
    /// absent. The operator of Valkey takes no image from an object: its own installation names the registry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registry: Option<Repository>,
    /// Secrets of type `kubernetes.io/dockerconfigjson` in the namespace of the ControlPlane, which pods pull images with.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub pull_secrets: Vec<LocalRef>,
}

/// How every service logs. A service's own template may add what is absent here.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct GlobalLogging {
    /// The least that is logged; each service has its own default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<GlobalLogLevel>,
    /// How a line is written; each service has its own default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<GlobalLogFormat>,
    /// Whether each request to an API is logged; each service has its own default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access_log: Option<bool>,
}

/// How much is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum GlobalLogLevel {
    /// Everything.
    Debug,
    /// What happens.
    Info,
    /// What may be wrong.
    Warning,
    /// What is wrong.
    Error,
}

/// How a line is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum GlobalLogFormat {
    /// For people.
    Text,
    /// One JSON object in each line.
    Json,
}

/// Where certificates of authorities are, in PEM.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.secretRef) != has(self.configMapRef)")
    .message("needs exactly one of secretRef and configMapRef; set one of them"))]
pub struct GlobalCaBundle {
    /// A Secret; key `ca.crt` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<SecretRef>,
    /// A ConfigMap, such as one that trust-manager writes; key `ca.crt` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_map_ref: Option<ConfigMapRef>,
}

/// A ConfigMap in the same namespace, and optionally one of its keys.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConfigMapRef {
    /// Name of the ConfigMap.
    pub name: ObjectName,
    /// Key in the ConfigMap.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<DataKey>,
}

/// TLS on every API and of the servers that can, with certificates from one issuer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct GlobalTls {
    /// Whether it is used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// The cert-manager issuer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issuer_ref: Option<IssuerRef>,
}

/// Metrics.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Monitoring {
    /// Whether ServiceMonitors are made.
    #[serde(default)]
    pub enabled: bool,
}
