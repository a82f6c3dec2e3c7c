//! What the agent on a host tells of it: operating system, hardware, capacity, instances.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::blocks::Quantity;

/// The operating system of a host and the hardware below it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct OperatingSystem {
    /// Version of the operating system; comparable with `spec.version`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub version: Option<String>,
    /// Variant of the operating system's image.
    #[serde(rename = "variantID", default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub variant_id: Option<String>,
    /// The version for people, such as `Garden Linux 1592.9`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub pretty_version: Option<String>,
    /// Name of the kernel, such as `Linux`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub kernel_name: Option<String>,
    /// Release of the kernel, such as `6.6.62-cloud-amd64`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub kernel_release: Option<String>,
    /// Build of the kernel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub kernel_version: Option<String>,
    /// Command line that the kernel was started with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 4096))]
    pub kernel_command_line: Option<String>,
    /// Vendor of the hardware.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub hardware_vendor: Option<String>,
    /// Model of the hardware.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub hardware_model: Option<String>,
    /// Serial number of the hardware.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub hardware_serial: Option<String>,
    /// Version of the firmware.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub firmware_version: Option<String>,
    /// Vendor of the firmware.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub firmware_vendor: Option<String>,
    /// When the firmware was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub firmware_date: Option<String>,
    /// Commit that a Garden Linux image was built from.
    #[serde(rename = "gardenLinuxCommitID", default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub garden_linux_commit_id: Option<String>,
    /// Features of a Garden Linux image.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 128), inner(length(max = 128)))]
    pub garden_linux_features: Vec<String>,
}

/// The update of a host's operating system.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct UpdateStatus {
    /// Whether an update is running.
    #[serde(default)]
    pub in_progress: bool,
    /// Version that was installed last; it runs after the next reboot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub installed: Option<String>,
    /// How many attempts are left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<i32>,
}

/// What a host has, as libvirt says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Capabilities {
    /// Architecture of the CPUs, such as `x86_64`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub cpu_arch: Option<String>,
    /// Memory of all NUMA cells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Quantity>,
    /// CPUs of all NUMA cells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<Quantity>,
}

/// What instances on a host can have, as libvirt says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct DomainCapabilities {
    /// Architecture of instances, such as `x86_64`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub arch: Option<String>,
    /// What runs them: `kvm`, `qemu`, `ch` or `cloud-hypervisor`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub hypervisor_type: Option<String>,
    /// Devices and their models, such as `video` and `video/virtio`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1024), inner(length(max = 255)))]
    pub supported_devices: Vec<String>,
    /// CPU modes and their models, such as `host-passthrough`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1024), inner(length(max = 255)))]
    pub supported_cpu_modes: Vec<String>,
    /// Features, such as `sev`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256), inner(length(max = 255)))]
    pub supported_features: Vec<String>,
}

/// Amounts of what instances need.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Amounts {
    /// CPUs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<Quantity>,
    /// Memory in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Quantity>,
}

/// One NUMA cell of a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Cell {
    /// Number of the cell.
    #[serde(rename = "cellID")]
    #[schemars(range(min = 0))]
    pub cell_id: i32,
    /// What instances have of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocation: Option<Amounts>,
    /// What it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<Amounts>,
    /// Its capacity multiplied by `spec.overcommit`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effective_capacity: Option<Amounts>,
}

/// One instance on a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct HypervisorInstance {
    /// UUID of the instance.
    #[schemars(length(min = 1, max = 64))]
    pub id: String,
    /// Name of the libvirt domain.
    #[serde(default)]
    #[schemars(length(max = 255))]
    pub name: String,
    /// Whether it runs.
    #[serde(default)]
    pub active: bool,
}

/// What happened to an instance that no one asked for: the last time for each kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct GuestFailure {
    /// UUID of the instance.
    #[schemars(length(min = 1, max = 64))]
    pub instance: String,
    /// What happened.
    pub kind: GuestFailureKind,
    /// When, by the clock of the host.
    pub time: Time,
    /// How the instance is since then.
    pub state: GuestState,
    /// What libvirt says of it, such as the disk of an I/O error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512))]
    pub message: Option<String>,
}

/// What happened to an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub enum GuestFailureKind {
    /// Its QEMU ended, or libvirt ended it after a failure.
    Crashed,
    /// The kernel in it panicked.
    Panicked,
    /// A disk returned an error.
    IoError,
    /// There is no space for a disk to grow. The instance can go on once there is.
    NoSpace,
    /// Its watchdog was not fed; what follows is what its image or flavor asks for.
    Watchdog,
    /// It restarts itself again and again.
    RebootLoop,
}

/// How an instance is since a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum GuestState {
    /// It runs, still or again.
    Running,
    /// It does not run, and keeps its memory.
    Paused,
    /// It does not run.
    Stopped,
}
