//! Migration: the progress of one instance from one hypervisor to another.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::blocks::{Condition, Duration, Quantity, WaitStatus};
use crate::catalog::Rules;

/// The migration of one instance, named by its UUID. The agent on the source host creates it and keeps its status.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "hypervisor.c5c3.io",
    version = "v1alpha1",
    kind = "Migration",
    plural = "migrations",
    namespaced,
    status = "MigrationStatus",
    derive = "PartialEq",
    shortname = "mig",
    category = "c5c3",
    printcolumn(name = "Origin", type_ = "string", json_path = ".status.origin"),
    printcolumn(name = "Destination", type_ = "string", json_path = ".status.destination"),
    printcolumn(name = "Type", type_ = "string", json_path = ".status.type"),
    printcolumn(name = "Elapsed", type_ = "string", json_path = ".status.timeElapsed"),
    printcolumn(name = "Remaining", type_ = "string", json_path = ".status.dataRemaining"),
    printcolumn(name = "Downtime", type_ = "string", json_path = ".status.downtime", priority = 1),
    printcolumn(name = "Error", type_ = "string", json_path = ".status.errMsg", priority = 1),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct MigrationSpec {}

/// What the agents on both hosts observed. Amounts are in bytes, rates in bytes a second unless said otherwise.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct MigrationStatus {
    /// Completed.
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
    /// The host that the instance leaves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub origin: Option<String>,
    /// The destination host; absent until the agent there reports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub destination: Option<String>,
    /// What kind of migration it is, or how it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub r#type: Option<MigrationType>,
    /// When it started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<Time>,
    /// What libvirt is doing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<MigrationOperation>,
    /// Time since the start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_elapsed: Option<Duration>,
    /// Time that libvirt expects it to take still.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_remaining: Option<Duration>,
    /// Time before the first byte was sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub setup_time: Option<Duration>,
    /// Time that the instance stands still.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub downtime: Option<Duration>,
    /// Memory and disk to transfer in all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_total: Option<Quantity>,
    /// Memory and disk transferred so far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_processed: Option<Quantity>,
    /// Memory and disk still to transfer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_remaining: Option<Quantity>,
    /// Memory to transfer in all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mem_total: Option<Quantity>,
    /// Memory transferred so far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mem_processed: Option<Quantity>,
    /// Memory still to transfer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mem_remaining: Option<Quantity>,
    /// Rate at which memory is transferred.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mem_bps: Option<Quantity>,
    /// Rate at which the instance changes its memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mem_dirty_rate: Option<Quantity>,
    /// How many times memory was gone through.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mem_iteration: Option<i64>,
    /// Size of a memory page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mem_page_size: Option<Quantity>,
    /// Pages that were sent as they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mem_normal: Option<i64>,
    /// The same in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mem_normal_bytes: Option<Quantity>,
    /// Pages that were sent as a single byte repeated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mem_constant: Option<i64>,
    /// Pages that the destination had to ask for after the switch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mem_postcopy_requests: Option<i64>,
    /// Disk to transfer in all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_total: Option<Quantity>,
    /// Disk transferred so far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_processed: Option<Quantity>,
    /// Disk still to transfer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_remaining: Option<Quantity>,
    /// Rate at which disks are transferred.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_bps: Option<Quantity>,
    /// How far the instance is slowed down so that its memory can be caught up with, in percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 4), regex(pattern = r"^[0-9]{1,3}%?$"))]
    pub auto_converge_throttle: Option<String>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 4096))]
    pub err_msg: Option<String>,
}

/// What kind of migration it is, or how it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum MigrationType {
    /// The instance keeps running.
    Live,
    /// The instance keeps running, and the end can be foretold.
    Bounded,
    /// The instance keeps running, and the end cannot be foretold.
    Unbounded,
    /// All is transferred.
    Completed,
    /// The instance runs at the destination.
    Success,
    /// It failed, and the instance runs at the origin.
    Failed,
    /// It was aborted.
    Cancelled,
}

/// The job of libvirt that the numbers are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)] // Each is libvirt's job of its name.
pub enum MigrationOperation {
    Unknown,
    Running,
    Start,
    Save,
    Restore,
    MigrationIn,
    MigrationOut,
    Snapshot,
    SnapshotRevert,
    SnapshotDelete,
    Dump,
    Backup,
}

impl Rules for Migration {}
