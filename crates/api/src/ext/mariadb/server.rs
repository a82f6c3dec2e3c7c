//! MariaDB: a server or a Galera cluster.
//!
//! There is no inline `maxScale`: mariadb-operator dropped it in 25.10.3 and newer CRDs prune it without a word. A
//! proxy is a [`MaxScale`](super::MaxScale) of its own, named in `maxScaleRef`.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{NodeAffinity, PodAntiAffinity, Toleration};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::CustomResource;
use serde::{Deserialize, Serialize};

use super::{CleanupPolicy, OPERATOR};
use crate::blocks::{Condition, Quantity, Resources};
use crate::ext::{IssuerRef, NamedRef, Toggle};

/// A MariaDB server or Galera cluster.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "k8s.mariadb.com",
    version = "v1alpha1",
    kind = "MariaDB",
    plural = "mariadbs",
    namespaced,
    status = "MariaDBStatus",
    derive = "PartialEq",
    derive = "Default",
    schema = "disabled"
)]
#[serde(rename_all = "camelCase")]
pub struct MariaDBSpec {
    /// How many servers; 1 when absent, an odd number with Galera.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// The image; the operator's when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// Synchronous replication.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub galera: Option<Galera>,
    /// The password of root. Cannot change once set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root_password_secret_key_ref: Option<GeneratedSecretKey>,
    /// The volumes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage: Option<Storage>,
    /// Text of a `my.cnf`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub my_cnf: Option<String>,
    /// Port; 3306 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<i32>,
    /// Encryption; on but not required when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<MariaDBTls>,
    /// The proxy in front.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_scale_ref: Option<MaxScaleRef>,
    /// The exporter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metrics: Option<Toggle>,
    /// CPU and memory of each server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<Resources>,
    /// Labels that a Kubernetes node must have.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub node_selector: BTreeMap<String, String>,
    /// Attraction to nodes, and repulsion between servers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub affinity: Option<Affinity>,
    /// Taints that are tolerated.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tolerations: Vec<Toleration>,
    /// Priority of the pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority_class_name: Option<String>,
    /// How many servers a drain leaves running.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_disruption_budget: Option<DisruptionBudget>,
    /// The Service of the primary.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub primary_service: Option<Service>,
    /// What happens to the server when the object is deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cleanup_policy: Option<CleanupPolicy>,
    /// Whether the operator leaves the servers alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspend: Option<bool>,
    /// The backup that a new server begins with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bootstrap_from: Option<serde_json::Value>,
}

/// Synchronous replication.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Galera {
    /// Whether servers form a cluster.
    #[serde(default)]
    pub enabled: bool,
    /// The server that takes the writes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub primary: Option<GaleraPrimary>,
    /// What the operator does when the cluster has lost its quorum.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovery: Option<GaleraRecovery>,
}

/// The server of a Galera cluster that takes the writes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GaleraPrimary {
    /// Whether another takes over when it fails. Was called `automaticFailover` up to 0.38.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auto_failover: Option<bool>,
}

/// What the operator does when the cluster has lost its quorum.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GaleraRecovery {
    /// Whether it bootstraps a new cluster.
    #[serde(default)]
    pub enabled: bool,
    /// How many servers must be healthy, as a number or in percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_cluster_size: Option<IntOrString>,
}

/// One key of a Secret that the operator can fill itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GeneratedSecretKey {
    /// Name of the Secret.
    #[serde(default)]
    pub name: String,
    /// Key in the Secret.
    #[serde(default)]
    pub key: String,
    /// Whether the operator makes the Secret if there is none; not when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generate: Option<bool>,
}

/// The volumes. The size can only grow and the class cannot change.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Storage {
    /// Size of each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<Quantity>,
    /// Storage class; the cluster's default when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage_class_name: Option<String>,
    /// Whether data is lost with the pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ephemeral: Option<bool>,
    /// What becomes of the volumes; they stay when absent. Releases before 25.10 do not know it, and keep them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pvc_retention_policy: Option<PvcRetentionPolicy>,
}

/// What becomes of volumes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PvcRetentionPolicy {
    /// When the MariaDB is deleted; they stay when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when_deleted: Option<PvcRetention>,
    /// When there are fewer servers; they stay when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when_scaled: Option<PvcRetention>,
}

words! {
    /// What becomes of a volume.
    PvcRetention {
        /// It goes.
        Delete = "Delete",
        /// It stays.
        Retain = "Retain",
    }
}

/// Encryption between servers and their clients.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MariaDBTls {
    /// Whether clients may use it.
    #[serde(default)]
    pub enabled: bool,
    /// Whether clients must use it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub required: Option<bool>,
    /// Who signs the servers' certificates; the operator's own CA when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_cert_issuer_ref: Option<IssuerRef>,
    /// The servers' certificate, as a Secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_cert_secret_ref: Option<NamedRef>,
    /// The CA of the servers' certificate.
    #[serde(default, rename = "serverCASecretRef", skip_serializing_if = "Option::is_none")]
    pub server_ca_secret_ref: Option<NamedRef>,
    /// Who signs the clients' certificates; the operator's own CA when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_cert_issuer_ref: Option<IssuerRef>,
    /// The clients' certificate, as a Secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_cert_secret_ref: Option<NamedRef>,
    /// The CA of the clients' certificate.
    #[serde(default, rename = "clientCASecretRef", skip_serializing_if = "Option::is_none")]
    pub client_ca_secret_ref: Option<NamedRef>,
    /// Whether servers encrypt what they copy to each other.
    #[serde(default, rename = "galeraSSTEnabled", skip_serializing_if = "Option::is_none")]
    pub galera_sst_enabled: Option<bool>,
}

/// The proxy in front of a MariaDB.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MaxScaleRef {
    /// Name of the MaxScale.
    #[serde(default)]
    pub name: String,
    /// Its namespace; the MariaDB's when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

/// Attraction to nodes, and repulsion between pods.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Affinity {
    /// Whether no two pods share a node; the operator writes the rule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub anti_affinity_enabled: Option<bool>,
    /// Attraction to nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_affinity: Option<NodeAffinity>,
    /// Repulsion between pods. The operator knows the `labelSelector` and `topologyKey` of a term, nothing else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_anti_affinity: Option<PodAntiAffinity>,
}

/// How many pods a drain leaves running. Set one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DisruptionBudget {
    /// At most so many are down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_unavailable: Option<IntOrString>,
    /// At least so many are up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_available: Option<IntOrString>,
}

/// A Service that the operator makes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Service {
    /// Type; ClusterIP when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub r#type: Option<ServiceType>,
}

words! {
    /// Type of a Service.
    ServiceType {
        /// Within the cluster.
        ClusterIp = "ClusterIP",
        /// On a port of each node.
        NodePort = "NodePort",
        /// Through a load balancer.
        LoadBalancer = "LoadBalancer",
    }
}

/// What mariadb-operator reports. There is no observedGeneration.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MariaDBStatus {
    /// `Ready`, and many others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// The pod that takes the writes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_primary: Option<String>,
    /// Its number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_primary_pod_index: Option<i32>,
    /// How many servers there are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// The certificates in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<MariaDBTlsStatus>,
}

/// The certificates in use.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MariaDBTlsStatus {
    /// The servers'.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_cert: Option<CertificateStatus>,
    /// The clients'.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_cert: Option<CertificateStatus>,
}

/// A certificate in use.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CertificateStatus {
    /// Who signed it.
    #[serde(default)]
    pub issuer: String,
    /// Whose it is.
    #[serde(default)]
    pub subject: String,
    /// Start of its validity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before: Option<Time>,
    /// End of its validity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_after: Option<Time>,
}

/// The Secret with the CAs to trust when talking to the MariaDB `name`, under `ca.crt`.
pub fn ca_bundle_secret(name: &str) -> String {
    format!("{name}-ca-bundle")
}

/// The Secret with a client certificate for the MariaDB `name`.
pub fn client_cert_secret(name: &str) -> String {
    format!("{name}-client-cert")
}

impl MariaDB {
    /// The Service to write to: the proxy's, or that of the primary, which exists only in a Galera cluster.
    pub fn write_service(&self) -> Option<String> {
        let name = self.metadata.name.as_ref()?;
        Some(match (&self.spec.max_scale_ref, &self.spec.galera) {
            (Some(proxy), _) => proxy.name.clone(),
            (None, Some(galera)) if galera.enabled => format!("{name}-primary"),
            _ => name.clone(),
        })
    }
}

ready_by_condition!(OPERATOR; MariaDB);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ext::{Readiness, Ready};
    use serde_json::json;

    fn mariadb(spec: &serde_json::Value) -> MariaDB {
        serde_json::from_value(json!({
            "apiVersion": "k8s.mariadb.com/v1alpha1", "kind": "MariaDB", "metadata": {"name": "ledger"}, "spec": spec,
            "status": {"conditions": [
                {"type": "Ready", "status": "False", "reason": "GaleraNotReady", "message": "Galera not ready"},
            ]},
        }))
        .unwrap()
    }

    #[test]
    fn writes_go_to_the_proxy_or_the_primary_or_the_only_server() {
        let service = |spec| mariadb(&spec).write_service().unwrap();
        assert_eq!(service(json!({"maxScaleRef": {"name": "usher"}, "galera": {"enabled": true}})), "usher");
        assert_eq!(service(json!({"galera": {"enabled": true}})), "ledger-primary");
        assert_eq!(service(json!({"galera": {"enabled": false}})), "ledger");
    }

    #[test]
    fn a_mariadb_passes_on_what_its_operator_says() {
        assert_eq!(
            mariadb(&json!({})).readiness(),
            Ready::No { reason: "GaleraNotReady".into(), message: "Galera not ready".into() },
        );
    }
}
