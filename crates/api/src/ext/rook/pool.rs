//! CephBlockPool: a pool for block devices.

use std::collections::BTreeMap;

use kube::CustomResource;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::OPERATOR;
use crate::blocks::Condition;
use crate::ext::readiness::Judge;
use crate::ext::{Readiness, Ready};

/// A pool. It must live in the namespace of the CephCluster.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "ceph.rook.io",
    version = "v1",
    kind = "CephBlockPool",
    plural = "cephblockpools",
    namespaced,
    status = "CephBlockPoolStatus",
    derive = "PartialEq",
    derive = "Default",
    schema = "disabled"
)]
#[serde(rename_all = "camelCase")]
pub struct CephBlockPoolSpec {
    /// Name of the pool; the object's when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What may fail without a loss: `host` when absent, or `osd`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_domain: Option<String>,
    /// The class of disks that it is on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_class: Option<String>,
    /// What uses the pool; `rbd` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub application: Option<String>,
    /// Copies of everything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicated: Option<Replicated>,
    /// Parity instead of copies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub erasure_coded: Option<Value>,
    /// Options of the pool, such as `pg_num`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub parameters: BTreeMap<String, String>,
    /// Limits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quotas: Option<PoolQuotas>,
    /// Copies at another site.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mirroring: Option<PoolMirroring>,
}

/// Copies.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Replicated {
    /// How many.
    pub size: i32,
    /// Whether fewer than two are refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub require_safe_replica_size: Option<bool>,
}

/// Limits of a pool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PoolQuotas {
    /// How much, such as `10Gi`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_size: Option<String>,
    /// How much, in bytes; the older spelling.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_bytes: Option<i64>,
    /// How many objects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_objects: Option<i64>,
}

/// Copies at another site.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PoolMirroring {
    /// Whether there are any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
}

/// What Rook reports.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CephBlockPoolStatus {
    /// `Progressing`, `Ready`, `Failure`, `Deleting`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// The generation that the phase is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The number of the pool.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "poolID")]
    pub pool_id: Option<i64>,
    /// `type`, `failureDomain`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub info: BTreeMap<String, String>,
    /// `DeletionIsBlocked`, and `Ready` where there is something to say.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

impl CephBlockPool {
    /// The pool.
    pub fn pool(&self) -> Option<&str> {
        self.spec.name.as_deref().or(self.metadata.name.as_deref())
    }
}

impl Readiness for CephBlockPool {
    fn readiness(&self) -> Ready {
        Judge::judge(OPERATOR, &self.metadata, self.status.as_ref(), |judge, status| {
            let said = status.conditions.iter().find_map(|condition| condition.message.as_deref());
            judge.in_state("phase", status.phase.as_deref(), "Ready", said)?;
            judge.current(status.observed_generation)
        })
    }
}
