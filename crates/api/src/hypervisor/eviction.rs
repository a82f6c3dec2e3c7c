//! Eviction: moving every instance off a hypervisor.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::blocks::{Condition, ObjectName, WaitStatus};
use crate::catalog::Rules;

/// A request to move every instance off a hypervisor. It runs once; deleting it stops it.
#[derive(CustomResource, Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "hypervisor.c5c3.io",
    version = "v1",
    kind = "Eviction",
    plural = "evictions",
    status = "EvictionStatus",
    derive = "PartialEq",
    shortname = "evi",
    category = "c5c3",
    printcolumn(name = "Hypervisor", type_ = "string", json_path = ".spec.hypervisor"),
    printcolumn(name = "Reason", type_ = "string", json_path = ".spec.reason"),
    printcolumn(name = "State", type_ = "string", json_path = ".status.conditions[?(@.type=='Evicting')].reason"),
    printcolumn(name = "Outstanding MiB", type_ = "integer", json_path = ".status.outstandingRamMb"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct EvictionSpec {
    /// Name of the Hypervisor. It cannot be changed.
    #[x_kube(validation = Rule::new("self == oldSelf")
        .message("cannot be changed; delete the Eviction and create one for the other hypervisor"))]
    pub hypervisor: ObjectName,
    /// Why, for the people who read it in Nova as the reason that the host is disabled. It cannot be changed.
    #[schemars(length(min = 1, max = 255))]
    #[x_kube(validation = Rule::new("self == oldSelf")
        .message("cannot be changed; Nova has it already, so delete the Eviction and create another"))]
    pub reason: String,
}

/// What the operator observed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct EvictionStatus {
    /// Evicting (reason Running, Succeeded or Failed), PreflightChecksSucceeded, HypervisorDisabled, MigratingInstance,
    /// HypervisorReEnabled.
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
    /// Id of the hypervisor in Nova.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub hypervisor_service_id: Option<String>,
    /// Memory of the instances that are still there, in MiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outstanding_ram_mb: Option<i64>,
    /// Ids of the instances that are still there; the last one is next.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 4096), inner(length(min = 1, max = 64)))]
    pub outstanding_instances: Vec<String>,
    /// What became of each instance.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 4096), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["id"]))]
    pub instances: Vec<EvictionInstance>,
    /// When the first instance began to move.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<Time>,
    /// When the eviction ended, well or not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished: Option<Time>,
}

/// One instance of an eviction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct EvictionInstance {
    /// UUID of the instance.
    #[schemars(length(min = 1, max = 64))]
    pub id: String,
    /// How far it is.
    pub state: EvictionInstanceState,
    /// How often a move was tried.
    #[serde(default)]
    pub attempts: i32,
    /// Why the last attempt failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 4096))]
    pub last_error: Option<String>,
    /// The host that it moved to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub destination: Option<String>,
}

/// How far an instance is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum EvictionInstanceState {
    /// Its turn has not come.
    Pending,
    /// It is moving.
    Migrating,
    /// It runs elsewhere.
    Migrated,
    /// The last attempt failed, and there is another to come.
    Retrying,
    /// It cannot move; a person must decide.
    NonMigratable,
}

impl Rules for Eviction {}
