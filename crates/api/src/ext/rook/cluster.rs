//! CephCluster: monitors, managers and disks.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::PersistentVolumeClaimSpec;
use kube::CustomResource;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::OPERATOR;
use crate::blocks::{Condition, Resources};
use crate::ext::readiness::Judge;
use crate::ext::{Readiness, Ready};

/// A Ceph cluster. There is one in a namespace at most.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "ceph.rook.io",
    version = "v1",
    kind = "CephCluster",
    plural = "cephclusters",
    namespaced,
    status = "CephClusterStatus",
    derive = "PartialEq",
    derive = "Default",
    schema = "disabled"
)]
#[serde(rename_all = "camelCase")]
pub struct CephClusterSpec {
    /// The image of daemons.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ceph_version: Option<CephVersionImage>,
    /// Where daemons keep their data on a node, if no claim does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_dir_host_path: Option<String>,
    /// Its monitors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mon: Option<CephMons>,
    /// Its managers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mgr: Option<CephMgrs>,
    /// Its disks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage: Option<CephStorage>,
    /// Options of Ceph: by section, such as `global` or `osd`, then by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub ceph_config: BTreeMap<String, BTreeMap<String, String>>,
    /// What daemons may use: `mon`, `mgr`, `osd`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub resources: BTreeMap<String, Resources>,
    /// What becomes of the data when the cluster is deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cleanup_policy: Option<CleanupPolicy>,
    /// A cluster that Rook does not run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external: Option<External>,
    /// The network of daemons.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<Value>,
}

/// The image of daemons.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CephVersionImage {
    /// The image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// Whether a release may run that Rook does not know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow_unsupported: Option<bool>,
}

/// Monitors.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CephMons {
    /// How many; 3 when absent or 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<i32>,
    /// Whether two of them may share a node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow_multiple_per_node: Option<bool>,
    /// The claim for the data of each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume_claim_template: Option<ClaimTemplate>,
    /// Monitors of another site.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "externalMonIDs")]
    pub external_mon_ids: Option<Vec<String>>,
    /// Monitors in several sites.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stretch_cluster: Option<Value>,
}

/// A claim to be made.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ClaimTemplate {
    /// What is claimed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spec: Option<PersistentVolumeClaimSpec>,
}

/// Managers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CephMgrs {
    /// How many; one of them is active.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<i32>,
    /// Whether two of them may share a node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow_multiple_per_node: Option<bool>,
}

/// Disks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CephStorage {
    /// Whether all nodes give their disks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub use_all_nodes: Option<bool>,
    /// Whether all empty disks are taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub use_all_devices: Option<bool>,
    /// Which disks are taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_filter: Option<String>,
    /// Which nodes give disks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<Vec<Value>>,
    /// Disks out of claims.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub storage_class_device_sets: Vec<CephDeviceSet>,
}

/// Disks that are claims of one kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CephDeviceSet {
    /// The name of the set.
    pub name: String,
    /// How many disks.
    pub count: i32,
    /// Whether a disk can move to another node; then each is a host of its own to Ceph.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub portable: Option<bool>,
    /// Whether disks are encrypted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encrypted: Option<bool>,
    /// What its OSDs may use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<Resources>,
    /// The claims of one disk: `data`, and others for its metadata.
    #[serde(default)]
    pub volume_claim_templates: Vec<ClaimTemplate>,
}

/// What becomes of the data when a cluster is deleted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CleanupPolicy {
    /// `yes-really-destroy-data`, or nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confirmation: Option<String>,
}

/// A cluster that Rook does not run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct External {
    /// Whether it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enable: Option<bool>,
}

/// What Rook reports.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CephClusterStatus {
    /// `Progressing`, `Ready`, `Deleting`, `Failure`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// `Creating`, `Created`, `Error`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// What it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The generation that the phase is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Its conditions, by the names of phases.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// What Ceph says of itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ceph: Option<CephClusterHealth>,
    /// What runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<CephClusterVersion>,
    /// Its disks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage: Option<CephStorageStatus>,
}

/// What Ceph says of itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CephClusterHealth {
    /// `HEALTH_OK`, `HEALTH_WARN`, `HEALTH_ERR`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health: Option<String>,
    /// The health before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous_health: Option<String>,
    /// Why it is not `HEALTH_OK`, by the name of the check.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub details: BTreeMap<String, CephHealthMessage>,
    /// When Ceph was asked last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_checked: Option<String>,
    /// When the health changed last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_changed: Option<String>,
    /// The identity of the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fsid: Option<String>,
    /// How much it holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<CephCapacity>,
}

/// One reason for a health.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CephHealthMessage {
    /// In words.
    #[serde(default)]
    pub message: String,
    /// `HEALTH_WARN` or `HEALTH_ERR`.
    #[serde(default)]
    pub severity: String,
}

/// How much a cluster holds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CephCapacity {
    /// All of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_total: Option<i64>,
    /// What is used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_used: Option<i64>,
    /// What is free.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_available: Option<i64>,
    /// As of when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_updated: Option<String>,
}

/// What runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CephClusterVersion {
    /// The image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// The release, such as `18.2.7-0`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

/// Disks as they are.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CephStorageStatus {
    /// Their classes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub device_classes: Vec<CephDeviceClass>,
}

/// A class of disks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CephDeviceClass {
    /// Such as `hdd` or `ssd`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

impl CephCluster {
    /// Why its health is not `HEALTH_OK`; nothing when it is, or when nothing is known.
    pub fn ailments(&self) -> Vec<String> {
        let health = self.status.as_ref().and_then(|status| status.ceph.as_ref());
        let details = health.into_iter().flat_map(|health| &health.details);
        details.map(|(check, said)| format!("{check}: {}", said.message)).collect()
    }
}

impl Readiness for CephCluster {
    fn readiness(&self) -> Ready {
        Judge::judge(OPERATOR, &self.metadata, self.status.as_ref(), |judge, status| {
            judge.in_state("phase", status.phase.as_deref(), "Ready", status.message.as_deref())?;
            judge.current(status.observed_generation)?;
            // A cluster that is degraded serves; one in HEALTH_ERR, or that does not answer, may not.
            match status.ceph.as_ref().and_then(|ceph| ceph.health.as_deref()) {
                Some("HEALTH_ERR") => {
                    let said = format!("health is HEALTH_ERR: {}", self.ailments().join("; "));
                    Err(Ready::no("HEALTH_ERR", said.trim_end_matches(": ")))
                }
                _ => Ok(()),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn cluster(status: &serde_json::Value) -> CephCluster {
        serde_json::from_value(json!({
            "apiVersion": "ceph.rook.io/v1", "kind": "CephCluster", "metadata": {"name": "kiln", "generation": 2},
            "spec": {}, "status": status,
        }))
        .unwrap()
    }

    #[test]
    fn a_cluster_is_ready_while_it_serves() {
        let with = |health: &str| {
            json!({"phase": "Ready", "observedGeneration": 2, "ceph": {"health": health,
                "details": {"OSD_DOWN": {"message": "1 osds down", "severity": "HEALTH_WARN"}}}})
        };
        assert_eq!(cluster(&with("HEALTH_OK")).readiness(), Ready::Yes);
        assert_eq!(cluster(&with("HEALTH_WARN")).readiness(), Ready::Yes);
        let Ready::No { message, .. } = cluster(&with("HEALTH_ERR")).readiness() else { panic!() };
        assert_eq!(message, "health is HEALTH_ERR: OSD_DOWN: 1 osds down");
        let early = json!({"phase": "Progressing", "message": "Configuring Ceph Mons"});
        assert!(!cluster(&early).readiness().is_yes());
    }
}
