//! MaxScale: the proxy in front of a MariaDB.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Toleration;
use kube::CustomResource;
use serde::{Deserialize, Serialize};

use super::{Affinity, DisruptionBudget, MariaDbRef, OPERATOR, Service};
use crate::blocks::{Condition, Resources};
use crate::ext::{IssuerRef, Toggle};

/// A proxy that sends writes to the primary and reads to the others. Its Service has the name of the object.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "k8s.mariadb.com",
    version = "v1alpha1",
    kind = "MaxScale",
    plural = "maxscales",
    namespaced,
    status = "MaxScaleStatus",
    derive = "PartialEq",
    derive = "Default",
    schema = "disabled"
)]
#[serde(rename_all = "camelCase")]
pub struct MaxScaleSpec {
    /// What it is in front of; servers and monitor follow from it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub maria_db_ref: Option<MariaDbRef>,
    /// How many pods; 1 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// The image; the operator's when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// What it listens on; one readwritesplit on 3306 when absent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub services: Vec<MaxScaleService>,
    /// How it watches the servers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub monitor: Option<MaxScaleMonitor>,
    /// Its users.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth: Option<MaxScaleAuth>,
    /// Its own API.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub admin: Option<MaxScaleAdmin>,
    /// Encryption; on when the MariaDB requires it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<MaxScaleTls>,
    /// The Service of its listeners.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubernetes_service: Option<Service>,
    /// The exporter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metrics: Option<Toggle>,
    /// CPU and memory of each pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<Resources>,
    /// Labels that a Kubernetes node must have.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub node_selector: BTreeMap<String, String>,
    /// Attraction to nodes, and repulsion between pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub affinity: Option<Affinity>,
    /// Taints that are tolerated.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tolerations: Vec<Toleration>,
    /// How many pods a drain leaves running.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_disruption_budget: Option<DisruptionBudget>,
    /// Whether the operator leaves the pods alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspend: Option<bool>,
}

/// One thing that a MaxScale listens on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MaxScaleService {
    /// Its name.
    pub name: String,
    /// How it distributes.
    pub router: Router,
    /// Where it listens.
    pub listener: Listener,
    /// Parameters of the router.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub params: BTreeMap<String, String>,
}

words! {
    /// How a MaxScale distributes.
    Router {
        /// By statement: writes to the primary, reads to the others.
        ReadWriteSplit = "readwritesplit",
        /// By connection.
        ReadConnRoute = "readconnroute",
    }
}

/// Where a service listens.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Listener {
    /// Port.
    #[serde(default)]
    pub port: i32,
    /// Protocol; `MariaDBProtocol` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<String>,
}

/// How a MaxScale watches the servers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MaxScaleMonitor {
    /// `galeramon` or `mariadbmon`; follows from the MariaDB when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub module: Option<String>,
    /// How often, such as `2s`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<String>,
    /// How several MaxScales agree on who may switch the primary.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cooperative_monitoring: Option<Monitoring>,
    /// Parameters of the module.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub params: BTreeMap<String, String>,
}

words! {
    /// How several MaxScales agree on who may switch the primary.
    Monitoring {
        /// The one with locks on most of all servers.
        MajorityOfAll = "majority_of_all",
        /// The one with locks on most of the servers that run.
        MajorityOfRunning = "majority_of_running",
    }
}

/// Users of a MaxScale.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MaxScaleAuth {
    /// Whether the operator makes users and passwords.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generate: Option<bool>,
    /// How many connections its clients may have in all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_max_connections: Option<i32>,
    /// How many connections it may have to the servers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_max_connections: Option<i32>,
}

/// The API of a MaxScale itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MaxScaleAdmin {
    /// Port; 8989 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<i32>,
    /// Whether there is a web page; so when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gui_enabled: Option<bool>,
}

/// Encryption of a MaxScale. All of its connections use it, or none.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MaxScaleTls {
    /// Whether it is on.
    #[serde(default)]
    pub enabled: bool,
    /// Who signs the certificate that clients see; the operator's own CA when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub listener_cert_issuer_ref: Option<IssuerRef>,
    /// Who signs the certificate of its API; the operator's own CA when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub admin_cert_issuer_ref: Option<IssuerRef>,
    /// Whether it checks the servers' certificates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verify_peer_certificate: Option<bool>,
}

/// What mariadb-operator reports of a MaxScale.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MaxScaleStatus {
    /// `Ready`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// The server that takes the writes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub primary_server: Option<String>,
    /// How many pods there are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// The servers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub servers: Vec<NamedState>,
}

/// How something of a MaxScale is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedState {
    /// What.
    #[serde(default)]
    pub name: String,
    /// How, such as `Master, Running`.
    #[serde(default)]
    pub state: String,
}

ready_by_condition!(OPERATOR; MaxScale);
