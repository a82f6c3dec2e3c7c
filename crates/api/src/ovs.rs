//! Open vSwitch on one hypervisor, as its agent sees it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::blocks::{Condition, LocalRef, WaitStatus};
use crate::catalog::Rules;

/// The Open vSwitch of one node. The agent on the node creates it and keeps its status.
#[derive(CustomResource, Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "ovs.c5c3.io",
    version = "v1alpha1",
    kind = "OVSNode",
    plural = "ovsnodes",
    namespaced,
    status = "OVSNodeStatus",
    derive = "PartialEq",
    shortname = "ovsn",
    category = "c5c3",
    printcolumn(name = "Ready", type_ = "string", json_path = ".status.conditions[?(@.type=='Ready')].status"),
    printcolumn(name = "Reason", type_ = "string", json_path = ".status.conditions[?(@.type=='Ready')].reason"),
    printcolumn(name = "OVN", type_ = "boolean", json_path = ".status.ovnController.connected"),
    printcolumn(name = "Version", type_ = "string", json_path = ".status.ovsVersion"),
    printcolumn(name = "DPDK", type_ = "boolean", json_path = ".status.dpdkEnabled", priority = 1),
    printcolumn(name = "Flows", type_ = "integer", json_path = ".status.flowStats.totalFlows", priority = 1),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct OVSNodeSpec {
    /// The node that it runs on.
    #[x_kube(validation = Rule::new("self == oldSelf")
        .message("cannot be changed; each node has an OVSNode of its own"))]
    pub node_ref: LocalRef,
}

/// What the agent observed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct OVSNodeStatus {
    /// Ready, OVSDBConnected, OVNControllerConnected, AllBridgesHealthy, AllBondsHealthy.
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
    /// Version of ovs-vswitchd.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub ovs_version: Option<String>,
    /// Version of ovsdb-server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub ovsd_version: Option<String>,
    /// Whether packets are switched by DPDK in user space.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dpdk_enabled: Option<bool>,
    /// Version of DPDK.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub dpdk_version: Option<String>,
    /// The bridges.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 128), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub bridges: Vec<Bridge>,
    /// Network cards and what they are bundled to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interfaces: Option<Interfaces>,
    /// The ovn-controller that programs the flows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ovn_controller: Option<OvnController>,
    /// How many flows there are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow_stats: Option<FlowStats>,
    /// Traffic since Open vSwitch started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metrics: Option<Traffic>,
    /// What the agent found wrong, such as orphan ports and stale flows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 128))]
    pub issues: Vec<Issue>,
}

/// One bridge.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Bridge {
    /// Name of the bridge, such as `br-int`.
    #[schemars(length(min = 1, max = 255))]
    pub name: String,
    /// How many ports it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ports: Option<i32>,
    /// How many flows it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flows: Option<i64>,
    /// Where its packets are switched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub datapath_type: Option<DatapathType>,
    /// Its state, such as `Active`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub status: Option<String>,
}

/// Where packets of a bridge are switched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DatapathType {
    /// In user space, by DPDK.
    Netdev,
    /// In the kernel.
    System,
}

/// Network cards and bonds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Interfaces {
    /// Network cards.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub physical: Vec<PhysicalInterface>,
    /// Network cards that act as one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub bonds: Vec<Bond>,
}

/// One network card.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct PhysicalInterface {
    /// Name of the interface, such as `eno1`.
    #[schemars(length(min = 1, max = 255))]
    pub name: String,
    /// Its link, such as `Up`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub status: Option<String>,
    /// Speed of the link, such as `25Gbps`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub speed: Option<String>,
    /// The bond that it is a member of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 255))]
    pub bond: Option<String>,
}

/// Network cards that act as one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Bond {
    /// Name of the bond, such as `bond0`.
    #[schemars(length(min = 1, max = 255))]
    pub name: String,
    /// How traffic is spread, such as `balance-tcp`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub mode: Option<String>,
    /// Its state, such as `Active`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub status: Option<String>,
    /// How many members it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub members: Option<i32>,
    /// How many of them carry traffic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active_members: Option<i32>,
}

/// The link to OVN.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct OvnController {
    /// Whether ovn-controller is connected to the southbound database.
    #[serde(default)]
    pub connected: bool,
    /// The southbound database, such as `ssl:10.0.0.10:6642`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub sb_connection: Option<String>,
    /// The `systemId` of the node's OVNChassis.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 255))]
    pub chassis_id: Option<String>,
}

/// How many flows there are, in all and by table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct FlowStats {
    /// Flows of all bridges.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_flows: Option<i64>,
    /// Flows of each table that has any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["table"]))]
    pub flows_per_table: Vec<TableFlows>,
}

/// The flows of one OpenFlow table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct TableFlows {
    /// Number of the table.
    #[schemars(range(min = 0, max = 255))]
    pub table: i32,
    /// How many flows it has.
    pub flows: i64,
}

/// Traffic through all ports.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Traffic {
    /// Packets that came in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packets_received: Option<i64>,
    /// Packets that went out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packets_sent: Option<i64>,
    /// Bytes that came in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_received: Option<i64>,
    /// Bytes that went out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_sent: Option<i64>,
    /// Packets that were dropped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drops: Option<i64>,
    /// Packets that were broken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub errors: Option<i64>,
}

/// Something that is wrong on the node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Issue {
    /// How bad it is.
    pub severity: Severity,
    /// What it is.
    #[schemars(length(min = 1, max = 4096))]
    pub message: String,
    /// When the agent first saw it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detected_at: Option<Time>,
}

/// How bad an issue is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum Severity {
    /// Good to know.
    Info,
    /// It will hurt.
    Warning,
    /// It hurts.
    Critical,
}

impl Rules for OVSNode {}
