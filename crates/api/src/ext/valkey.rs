//! Valkey of SAP's valkey-operator (`cache.cs.sap.com`).

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Affinity, Toleration, TopologySpreadConstraint};
use kube::CustomResource;
use serde::{Deserialize, Serialize};

use super::readiness::Judge;
use super::{IssuerRef, Readiness, Ready, Toggle};
use crate::blocks::{Condition, Quantity, Resources};

const OPERATOR: &str = "valkey-operator";

/// A Valkey: one primary and its replicas, with Sentinel or without.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "cache.cs.sap.com",
    version = "v1alpha1",
    kind = "Valkey",
    plural = "valkeys",
    namespaced,
    status = "ValkeyStatus",
    derive = "PartialEq",
    derive = "Default",
    schema = "disabled"
)]
#[serde(rename_all = "camelCase")]
pub struct ValkeySpec {
    /// How many nodes; 1 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// Version of Valkey; the operator's when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Failover by Sentinel. Cannot change later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sentinel: Option<Toggle>,
    /// Encryption.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<ValkeyTls>,
    /// The exporter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metrics: Option<ValkeyMetrics>,
    /// The append-only file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub persistence: Option<ValkeyPersistence>,
    /// The Secret with what a client needs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub binding: Option<ValkeyBinding>,
    /// CPU and memory of each node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<Resources>,
    /// Labels that a Kubernetes node must have.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub node_selector: BTreeMap<String, String>,
    /// Taints that are tolerated.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tolerations: Vec<Toleration>,
    /// Attraction to nodes and pods, and repulsion from them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub affinity: Option<Affinity>,
    /// How pods spread over zones and nodes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub topology_spread_constraints: Vec<TopologySpreadConstraint>,
    /// Priority of the pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority_class_name: Option<String>,
}

/// Encryption of a Valkey.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ValkeyTls {
    /// Whether clients use TLS.
    #[serde(default)]
    pub enabled: bool,
    /// Have cert-manager issue the certificate; the operator signs one itself when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cert_manager: Option<ValkeyCertManager>,
}

/// Who signs a Valkey's certificate.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ValkeyCertManager {
    /// The issuer; one that signs for itself is made when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issuer: Option<IssuerRef>,
}

/// The exporter of a Valkey, on port 9121.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ValkeyMetrics {
    /// Whether it runs.
    #[serde(default)]
    pub enabled: bool,
    /// A ServiceMonitor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub monitor: Option<Toggle>,
    /// A PrometheusRule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prometheus_rule: Option<Toggle>,
}

/// The append-only file of a Valkey. Class and size cannot change later.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ValkeyPersistence {
    /// Whether there is one.
    #[serde(default)]
    pub enabled: bool,
    /// Storage class of the volumes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage_class: Option<String>,
    /// Size of each volume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<Quantity>,
}

/// The Secret with what a client needs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ValkeyBinding {
    /// Name of the Secret; `valkey-<name>-binding` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_name: Option<String>,
    /// What the Secret holds, as a template; what every client needs when absent. We write none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<String>,
}

/// What valkey-operator reports.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ValkeyStatus {
    /// The generation that the state is about; the API server fills in -1 before the operator has seen the object.
    #[serde(default)]
    pub observed_generation: i64,
    /// Ready, Pending, Processing, DeletionPending, Deleting or Error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// What the operator has observed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// The Secret with what a client of the Valkey `name` needs: `password`, `tlsEnabled`, `caData`, and with Sentinel
/// `host`, `port`, `sentinelHost`, `sentinelPort`, `primaryName`, without it `primaryHost`, `primaryPort`,
/// `replicaHost`, `replicaPort`.
pub fn binding_secret(name: &str) -> String {
    format!("valkey-{name}-binding")
}

impl Readiness for Valkey {
    fn readiness(&self) -> Ready {
        Judge::judge(OPERATOR, &self.metadata, self.status.as_ref(), |judge, status| {
            let why = status.conditions.iter().find(|c| c.r#type == "Ready").and_then(|c| c.message.as_deref());
            let state = status.state.as_deref();
            if state.is_some() {
                judge.current(Some(status.observed_generation))?;
            }
            judge.in_state("state", state, "Ready", why)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn readiness(status: &serde_json::Value) -> Ready {
        let valkey = json!({
            "apiVersion": "cache.cs.sap.com/v1alpha1", "kind": "Valkey",
            "metadata": {"name": "larder", "generation": 2}, "spec": {}, "status": status,
        });
        serde_json::from_value::<Valkey>(valkey).unwrap().readiness()
    }

    #[test]
    fn a_valkey_is_ready_when_its_state_says_so_of_the_present_generation() {
        assert_eq!(readiness(&json!({"observedGeneration": 2, "state": "Ready"})), Ready::Yes);
        let Ready::No { reason, .. } = readiness(&json!({"observedGeneration": 1, "state": "Ready"})) else { panic!() };
        assert_eq!(reason, "Outdated");
        let ready = readiness(&json!({
            "observedGeneration": 2, "state": "Error",
            "conditions": [{"type": "Ready", "status": "False", "reason": "Error", "message": "no such storage class"}],
        }));
        assert_eq!(ready, Ready::No { reason: "Error".into(), message: "no such storage class".into() });
    }

    #[test]
    fn the_status_that_the_api_server_fills_in_is_no_status() {
        let ready = readiness(&json!({"observedGeneration": -1}));
        let message = "has no status yet: is valkey-operator running?".to_string();
        assert_eq!(ready, Ready::No { reason: "NoStatus".into(), message });
    }
}
