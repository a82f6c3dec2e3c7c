//! Hypervisor: one compute host, what is wanted of it and what it offers.
// The spec's switches are set one by one. Allowed for the module, as the derive copies the struct without its attributes.
#![allow(clippy::struct_excessive_bools)]

use std::collections::BTreeMap;

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::host::{
    Amounts, Capabilities, Cell, DomainCapabilities, GuestFailure, HypervisorInstance, OperatingSystem, UpdateStatus,
};
use crate::blocks::{Condition, WaitStatus, yes};
use crate::catalog::Rules;

/// A compute host, named like its node. The operator creates it, brings the host into Nova and takes it out again.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "hypervisor.c5c3.io",
    version = "v1",
    kind = "Hypervisor",
    plural = "hypervisors",
    status = "HypervisorStatus",
    derive = "PartialEq",
    shortname = "hv",
    category = "c5c3",
    printcolumn(
        name = "Zone",
        type_ = "string",
        json_path = ".metadata.labels.topology\\.kubernetes\\.io/zone",
        priority = 2
    ),
    printcolumn(name = "Ready", type_ = "string", json_path = ".status.conditions[?(@.type=='Ready')].status"),
    printcolumn(name = "State", type_ = "string", json_path = ".status.conditions[?(@.type=='Ready')].reason"),
    printcolumn(name = "Maintenance", type_ = "string", json_path = ".spec.maintenance"),
    printcolumn(name = "Version", type_ = "string", json_path = ".status.operatingSystem.prettyVersion"),
    printcolumn(name = "IP", type_ = "string", json_path = ".status.internalIp"),
    printcolumn(name = "Instances", type_ = "integer", json_path = ".status.numInstances"),
    printcolumn(name = "Lifecycle", type_ = "boolean", json_path = ".spec.lifecycleEnabled", priority = 1),
    printcolumn(name = "HA", type_ = "boolean", json_path = ".spec.highAvailability", priority = 1),
    printcolumn(
        name = "Onboarding",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Onboarding')].reason",
        priority = 1
    ),
    printcolumn(
        name = "Tainted",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Tainted')].message",
        priority = 1
    ),
    printcolumn(
        name = "Hardware",
        type_ = "string",
        json_path = ".status.operatingSystem.hardwareModel",
        priority = 2
    ),
    printcolumn(name = "Kernel", type_ = "string", json_path = ".status.operatingSystem.kernelRelease", priority = 2),
    printcolumn(name = "Service ID", type_ = "string", json_path = ".status.serviceId", priority = 3),
    printcolumn(name = "Hypervisor ID", type_ = "string", json_path = ".status.hypervisorId", priority = 3),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("!has(self.maintenance) || self.maintenance != 'manual' || (has(self.maintenanceReason) && self.maintenanceReason != '')")
        .message("is in manual maintenance without a reason; set maintenanceReason to what is done and by whom"),
    // On the way to `ha` other fields may change too: CEL cannot compare a spec but for one field.
    validation = Rule::new("!has(oldSelf.maintenance) || oldSelf.maintenance != 'termination' || self == oldSelf || (has(self.maintenance) && self.maintenance == 'ha')")
        .message("is of a host that is being terminated and cannot be changed; only maintenance may be set to ha")
)]
pub struct HypervisorSpec {
    /// Version of the operating system that is wanted; `latest` for the newest. Nothing of this version acts on it: a condition says so
    /// when it is set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub version: Option<String>,
    /// Whether the host reboots by itself after an update of the operating system. Nothing of this version acts on it: a condition says so
    /// when it is true.
    #[serde(default)]
    pub reboot: bool,
    /// Whether instances are moved away before a reboot. Nothing of this version acts on it: a condition says so when it is false.
    #[serde(default = "yes")]
    pub evacuate_on_reboot: bool,
    /// Whether the operator may act on the host at all: onboard it, set traits and aggregates, take it out of Nova.
    #[serde(default = "yes")]
    pub lifecycle_enabled: bool,
    /// Whether the host is onboarded without testing it first.
    #[serde(default)]
    pub skip_tests: bool,
    /// Traits in Placement beyond those of the hardware, such as `CUSTOM_NVME`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 128),
        inner(length(max = 255), regex(pattern = r"^CUSTOM_[A-Z0-9_]+$")),
        extend("x-kubernetes-list-type" = "set")
    )]
    pub custom_traits: Vec<String>,
    /// Names of the Nova aggregates that the host is in; the one of its availability zone among them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(min = 1, max = 255)), extend("x-kubernetes-list-type" = "set"))]
    pub aggregates: Vec<String>,
    /// Traits and aggregates that a scheduler keeps for the host.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 128))]
    pub groups: Vec<Group>,
    /// Ids of the projects whose instances the host takes; those of all projects when empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256), inner(length(min = 1, max = 64)), extend("x-kubernetes-list-type" = "set"))]
    pub allowed_projects: Vec<String>,
    /// Whether instances are restarted elsewhere when the host fails, and in place when they crash.
    #[serde(default = "yes")]
    pub high_availability: bool,
    /// Whether the host's agent requests its own libvirt certificate from cert-manager. No agent of this version does: a condition says so
    /// when it is true.
    #[serde(default)]
    pub create_cert_manager_certificate: bool,
    /// Whether the host's agent installs the libvirt certificate. No agent of this version does: a condition says so when it is false.
    #[serde(default = "yes")]
    pub install_certificate: bool,
    /// Why the host is taken out of service; empty when it is not.
    #[serde(default)]
    pub maintenance: Maintenance,
    /// What is done and by whom; required for manual maintenance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub maintenance_reason: Option<String>,
    /// How far the host may be filled beyond what it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overcommit: Option<Overcommit>,
}

/// Why a host is taken out of service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Maintenance {
    /// It is not.
    #[default]
    #[serde(rename = "")]
    None,
    /// A person works on it.
    Manual,
    /// Its node is being replaced or restarted.
    Auto,
    /// It failed.
    Ha,
    /// It leaves for good.
    Termination,
}

/// Factors that capacity is multiplied with.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Overcommit {
    /// Virtual CPUs for each CPU of the host; 1 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1000))]
    pub cpu: Option<f64>,
    /// Instance memory for each byte of the host's memory; 1 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1000))]
    pub memory: Option<f64>,
}

/// A trait or an aggregate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.trait) != has(self.aggregate)")
    .message("needs exactly one of trait and aggregate; set one of them"))]
pub struct Group {
    /// A trait in Placement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub r#trait: Option<GroupTrait>,
    /// A Nova aggregate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aggregate: Option<Aggregate>,
}

/// A trait in Placement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct GroupTrait {
    /// Name of the trait: capital letters, digits and `_`, such as `HW_CPU_X86_AVX2`.
    #[schemars(length(min = 1, max = 255), regex(pattern = r"^[A-Z0-9_]+$"))]
    pub name: String,
}

/// A Nova aggregate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Aggregate {
    /// Name of the aggregate.
    #[schemars(length(min = 1, max = 255))]
    pub name: String,
    /// Its UUID.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 36), regex(pattern = r"^[0-9a-fA-F]{8}-([0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}$"))]
    pub uuid: Option<String>,
    /// Its metadata, such as `availability_zone`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 64, "additionalProperties" = {"type": "string", "maxLength": 255}))]
    pub metadata: BTreeMap<String, String>,
}

/// What the operator and the host's agent observed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct HypervisorStatus {
    /// Ready, Onboarding, Offboarded, Terminating, Tainted, TraitsUpdated, AggregatesUpdated, AgentPodsEvicted,
    /// HypervisorDisabled, Evicting, NodeHeld, CertificateIssued; from the operator ha HaEnabled, HostFailed, Fenced and GuestsFailed;
    /// from the agent LibVirtConnection, OperatingSystemUpdate, TLSCertificateInstalled and one for each systemd unit. Each has one writer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// The generation that the status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// What is waited for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub waiting_for: Vec<WaitStatus>,
    /// Version of libvirt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub lib_virt_version: Option<String>,
    /// Version of QEMU or Cloud Hypervisor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub hypervisor_version: Option<String>,
    /// The operating system and the hardware below it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operating_system: Option<OperatingSystem>,
    /// The update of the operating system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update_status: Option<UpdateStatus>,
    /// What the host has, as libvirt says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capabilities: Option<Capabilities>,
    /// What instances on the host can have, as libvirt says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain_capabilities: Option<DomainCapabilities>,
    /// What the host has for instances.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<Amounts>,
    /// What instances have of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocation: Option<Amounts>,
    /// The capacity multiplied by `spec.overcommit`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effective_capacity: Option<Amounts>,
    /// The same for each NUMA cell.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 128), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["cellID"]))]
    pub cells: Vec<Cell>,
    /// The instances on the host, running or not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 4096), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["id"]))]
    pub instances: Vec<HypervisorInstance>,
    /// What happened to instances in the last hour that no one asked for, such as crashes; for a day of those that have not gone
    /// on since.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 128),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["instance", "kind"])
    )]
    pub guest_failures: Vec<GuestFailure>,
    /// How many instances there are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub num_instances: Option<i32>,
    /// Id of the hypervisor in Nova.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub hypervisor_id: Option<String>,
    /// Id of the compute service in Nova.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub service_id: Option<String>,
    /// Traits that were set in Placement.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1024), inner(length(max = 255)), extend("x-kubernetes-list-type" = "set"))]
    pub traits: Vec<String>,
    /// Aggregates that the host is in.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub aggregates: Vec<Aggregate>,
    /// Address of the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub internal_ip: Option<String>,
    /// Whether all instances were moved away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evicted: Option<bool>,
}

impl Rules for Hypervisor {}
