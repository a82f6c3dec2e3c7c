//! How a service grows with its load, and who reaches it from where.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Cidr, Host, ObjectName, Port, Replicas, yes};

/// How the API of a service is reached and scaled. Part of each service's spec.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Exposure {
    /// A route of the Gateway API to the API; none when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<GatewayRoute>,
    /// Network policy: which clients may connect to the pods, and what the pods may connect to. When absent, all clients may
    /// connect to the API, and the pods to what they need.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network_policy: Option<NetworkAccess>,
    /// Autoscaling of the API's pods with their load, in the place of a fixed number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub autoscaling: Option<Autoscaling>,
}

/// Autoscaling of pods with their load.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("has(self.targetCPUUtilization) || has(self.targetMemoryUtilization)")
        .message("has nothing to go by; set targetCPUUtilization or targetMemoryUtilization"),
    validation = Rule::new("self.maxReplicas > 0 && (!has(self.minReplicas) || (self.minReplicas > 0 && self.minReplicas <= self.maxReplicas))")
        .message("has no room; set 1 <= minReplicas <= maxReplicas")
)]
pub struct Autoscaling {
    /// The fewest pods; `replicas` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_replicas: Option<Replicas>,
    /// The most pods.
    pub max_replicas: Replicas,
    /// The share of the requested CPU that pods should use, in percent.
    #[serde(default, rename = "targetCPUUtilization", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100))]
    pub target_cpu_utilization: Option<i32>,
    /// The share of the requested memory that pods should use, in percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100))]
    pub target_memory_utilization: Option<i32>,
}

/// A route of the Gateway API that leads to the service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct GatewayRoute {
    /// The Gateway.
    pub parent_ref: GatewayRef,
    /// The host name that clients use.
    pub hostname: Host,
    /// The path that the service is under. It may end with the version of the API, such as `/identity/v3`.
    #[serde(default = "root")]
    #[schemars(length(min = 1, max = 1024), regex(pattern = r"^/[A-Za-z0-9/._-]*$"))]
    #[x_kube(validation = Rule::new("!self.contains('//') && !(self + '/').contains('/./') && !(self + '/').contains('/../')")
        .message("has a part that is empty, . or .., which no Gateway takes; write each part by its name"))]
    pub path: String,
}

fn root() -> String {
    "/".into()
}

/// A Gateway, and one of its listeners.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct GatewayRef {
    /// Name of the Gateway.
    pub name: ObjectName,
    /// Its namespace; the one of the referring object when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<ObjectName>,
    /// One of its listeners; all of them when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub section_name: Option<ObjectName>,
}

/// Which clients may connect to the service's pods, and what the pods may connect to besides what the service needs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct NetworkAccess {
    /// Whether a NetworkPolicy is written at all.
    #[serde(default = "yes")]
    pub enabled: bool,
    /// Which clients may connect to the API; all when empty. The operator probes it through the API server: name the
    /// addresses of that, too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub ingress: Vec<NetworkPeer>,
    /// What pods may reach beside the names, databases, queues and caches that they need, such as a directory server.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub additional_egress: Vec<NetworkTarget>,
}

/// Pods or addresses that may reach the API.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("!has(self.cidr) || !(has(self.namespaceSelector) || has(self.podSelector))")
        .message("has both addresses and labels; write two entries, one with cidr and one with the selectors")
)]
pub struct NetworkPeer {
    /// Addresses outside the cluster's pods, such as those of nodes or clients: `10.0.0.0/8`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cidr: Option<Cidr>,
    /// Labels of their namespaces; the service's own namespace when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace_selector: Option<LabelSelector>,
    /// Labels of the pods; all of those namespaces when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_selector: Option<LabelSelector>,
}

/// Something that pods may reach.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct NetworkTarget {
    /// Addresses, such as `10.0.0.0/8`; all when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cidr: Option<Cidr>,
    /// The TCP port.
    pub port: Port,
}

/// A store of the External Secrets operator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecretStoreRef {
    /// Name of the store.
    pub name: ObjectName,
    /// Its kind.
    #[serde(default)]
    pub kind: SecretStoreKind,
}

/// Where a store of the External Secrets operator lives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum SecretStoreKind {
    /// For the whole cluster.
    #[default]
    ClusterSecretStore,
    /// For one namespace.
    SecretStore,
}
