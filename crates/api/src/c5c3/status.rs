//! What the operator reports about a ControlPlane.

use std::collections::BTreeMap;

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::IdentityStatus;
use crate::blocks::{Condition, WaitStatus};

/// Where an update of the whole cloud is, `Idle` when none is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[allow(missing_docs)] // Each is the phase of its name.
pub enum UpdatePhase {
    Idle,
    Validating,
    UpdatingInfra,
    UpdatingKeystone,
    UpdatingServices,
    Verifying,
    Complete,
    RollingBack,
}

/// What the operator observed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ControlPlaneStatus {
    /// Ready, InfrastructureReady, KeystoneReady, KORCReady, CredentialsReady, ServicesReady, CrossClusterSyncReady.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// The generation that the status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// What is waited for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub waiting_for: Vec<WaitStatus>,
    /// `Ready`, or the first group of parts that is not ready: `Infrastructure`, `Identity`, `Services`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub phase: Option<String>,
    /// Where an update of the whole cloud is: `Updating...` while a part is installed, upgraded or changed, `Idle` when none
    /// is. A part that fails by itself shows in the conditions and in `services`, not here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update_phase: Option<UpdatePhase>,
    /// Service by service.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 64))]
    pub services: BTreeMap<String, ServiceStatus>,
    /// How far the identities are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<IdentityStatus>,
    /// How far Ceph's pools are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ceph: Option<CephStatus>,
}

/// How one service is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServiceStatus {
    /// Whether it is ready.
    #[serde(default)]
    pub ready: bool,
    /// Which version runs, as the service's own object reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub version: Option<String>,
    /// Which version spec.openStackRelease asks for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub wanted_version: Option<String>,
    /// What it says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 4096))]
    pub message: Option<String>,
}

/// How far Ceph's pools are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct CephStatus {
    /// Cinder's pool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub volume_pool: Option<String>,
    /// Glance's pool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub image_pool: Option<String>,
}
