//! OVN: the databases that hold the virtual networks, and the hypervisors that carry them out.

use std::collections::BTreeMap;
use std::net::IpAddr;

use k8s_openapi::api::core::v1::Toleration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::core::Rule;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::blocks::{
    Condition, Host, Image, ObjectName, Port, Quorum, Replicas, Resources, Scheduling, SecretRef, ServerTls, Size,
    WaitStatus,
};
use crate::catalog::Rules;

/// An OVN: its northbound and southbound databases, northd between them, and the daemons on hypervisors.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "ovn.c5c3.io",
    version = "v1alpha1",
    kind = "OVNCluster",
    plural = "ovnclusters",
    namespaced,
    status = "OVNClusterStatus",
    derive = "PartialEq",
    shortname = "ovnc",
    category = "c5c3",
    printcolumn(name = "Ready", type_ = "string", json_path = ".status.conditions[?(@.type=='Ready')].status"),
    printcolumn(name = "Reason", type_ = "string", json_path = ".status.conditions[?(@.type=='Ready')].reason"),
    printcolumn(name = "Chassis", type_ = "integer", json_path = ".status.chassisCount"),
    printcolumn(name = "Southbound", type_ = "string", json_path = ".status.endpoints.southbound", priority = 1),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct OVNClusterSpec {
    /// Image of the databases, northd and ovn-controller; the one of the operator's release when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ovn_image: Option<Image>,
    /// Image of Open vSwitch; the one of the operator's release when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ovs_image: Option<Image>,
    /// The database that Neutron writes networks, routers and rules to.
    #[serde(default)]
    pub northbound: RaftDatabase,
    /// The database that hypervisors read flows from.
    #[serde(default)]
    pub southbound: RaftDatabase,
    /// The daemon that translates northbound to southbound; one pod is active, the others stand by.
    #[serde(default)]
    pub northd: Northd,
    /// ovn-controller on each hypervisor.
    #[serde(default)]
    pub controller: NodeDaemon,
    /// Open vSwitch on each hypervisor.
    #[serde(default)]
    pub ovs: NodeDaemon,
    /// Which bridge leads to which provider network, on nodes whose OVNChassis has no `bridgeMappings` of its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["physicalNetwork"]))]
    pub bridge_mappings: Vec<BridgeMapping>,
    /// The cluster that the hypervisors are nodes of; this one when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hypervisor_cluster: Option<HypervisorCluster>,
    /// The Services that Neutron connects to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub neutron_integration: Option<NeutronIntegration>,
    /// TLS between all parts of OVN.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<ServerTls>,
}

impl OVNClusterSpec {
    /// The Service of the northbound database that the object names, as far as it does.
    pub fn northbound_service(&self) -> Option<&ServicePort> {
        self.neutron_integration.as_ref()?.nb_connection.as_ref()?.service.as_ref()
    }

    /// The Service of the southbound database that the object names, as far as it does.
    pub fn southbound_service(&self) -> Option<&ServicePort> {
        self.neutron_integration.as_ref()?.sb_connection.as_ref()?.service.as_ref()
    }
}

/// An OVSDB server cluster that agrees by Raft.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct RaftDatabase {
    /// How many members vote.
    #[serde(default = "three")]
    pub replicas: Quorum,
    /// The volume of each member.
    #[serde(default)]
    pub storage: Volume,
    /// CPU and memory of each member.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<Resources>,
    /// The nodes that members are scheduled to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduling: Option<Scheduling>,
    /// How clients outside the cluster reach the database; hypervisors in another cluster need the southbound one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<Exposure>,
}

impl Default for RaftDatabase {
    fn default() -> Self {
        Self { replicas: three(), storage: Volume::default(), resources: None, scheduling: None, service: None }
    }
}

fn three() -> Quorum {
    Quorum::new(3).expect("3 is odd")
}

/// A volume that outlives pods.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("has(self.storageClass) == has(oldSelf.storageClass) && (!has(self.storageClass) || self.storageClass == oldSelf.storageClass)")
        .message("changes storageClass, and the data would not follow; keep the old one, or create a new object and migrate"),
    validation = Rule::new("!isQuantity(self.size) || !isQuantity(oldSelf.size) || !quantity(self.size).isLessThan(quantity(oldSelf.size))")
        .message("makes size smaller, and volumes only grow; keep the old size or choose a larger one")
)]
pub struct Volume {
    /// Size of the volume. It can grow.
    #[serde(default = "ten_gi")]
    pub size: Size,
    /// Storage class of the volume; the cluster's default class when absent. It cannot be changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage_class: Option<ObjectName>,
}

impl Default for Volume {
    fn default() -> Self {
        Self { size: ten_gi(), storage_class: None }
    }
}

fn ten_gi() -> Size {
    Size::new("10Gi").expect("10Gi is a size")
}

/// How a Service is reached.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Exposure {
    /// Type of the Service.
    #[serde(default)]
    pub r#type: ServiceType,
    /// Annotations of the Service, such as a load balancer asks for.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 32))]
    pub annotations: BTreeMap<String, String>,
}

/// From where a Service is reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ServiceType {
    /// From within the cluster.
    #[default]
    ClusterIP,
    /// Through a port of each node.
    NodePort,
    /// Through a load balancer.
    LoadBalancer,
}

/// The daemon between the two databases.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Northd {
    /// How many pods run; one is active.
    #[serde(default = "two")]
    pub replicas: Replicas,
    /// CPU and memory of each pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<Resources>,
    /// The nodes that the pods are scheduled to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduling: Option<Scheduling>,
}

impl Default for Northd {
    fn default() -> Self {
        Self { replicas: two(), resources: None, scheduling: None }
    }
}

fn two() -> Replicas {
    Replicas::new(2).expect("2 is in range")
}

/// A daemon that runs once on each hypervisor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeDaemon {
    /// Labels of the nodes that it runs on.
    #[serde(default = "hypervisors")]
    #[schemars(extend("maxProperties" = 32))]
    pub node_selector: BTreeMap<String, String>,
    /// Taints that it tolerates.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub tolerations: Vec<Toleration>,
    /// CPU and memory of each pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<Resources>,
}

impl Default for NodeDaemon {
    fn default() -> Self {
        Self { node_selector: hypervisors(), tolerations: Vec::new(), resources: None }
    }
}

fn hypervisors() -> BTreeMap<String, String> {
    BTreeMap::from([("node-role.kubernetes.io/hypervisor".into(), String::new())])
}

/// Access to the cluster that the hypervisors are nodes of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct HypervisorCluster {
    /// Secret with a kubeconfig; key `kubeconfig.yaml` when absent.
    pub kubeconfig_secret_ref: SecretRef,
    /// Namespace there that the daemons run in; the one of this object when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<ObjectName>,
}

/// Where Neutron finds the databases.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct NeutronIntegration {
    /// The northbound database; all of its members when absent. The Service is `NAME-nb`, port 6641, for an OVNCluster NAME.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nb_connection: Option<Connection>,
    /// The southbound database; all of its members when absent. The Service is `NAME-sb`, port 6642, for an OVNCluster NAME.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sb_connection: Option<Connection>,
}

/// A way to a database.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Connection {
    /// The Service in front of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<ServicePort>,
}

/// A Service in the same namespace, and its port.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServicePort {
    /// Name of the Service; `NAME-nb` or `NAME-sb` of an OVNCluster NAME when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<ObjectName>,
    /// Its port; 6641 or 6642 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<Port>,
}

/// What the operator observed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct OVNClusterStatus {
    /// Ready, NorthboundReady, SouthboundReady, NorthdReady, ControllersReady.
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
    /// OVSDB connections of the databases; `ssl:` with TLS, `tcp:` without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoints: Option<Endpoints>,
    /// The northbound members.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub northbound: Option<RaftStatus>,
    /// The southbound members.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub southbound: Option<RaftStatus>,
    /// How many chassis are registered in the southbound database.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chassis_count: Option<i32>,
    /// How many ovn-controllers follow the southbound database.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active_controllers: Option<i32>,
}

/// Where the databases answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Endpoints {
    /// The northbound database: the Service that `neutronIntegration` names, such as
    /// `ssl:ovn-nb.ovn-system.svc.cluster.local:6641`, or else all members, separated by commas.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub northbound: Option<String>,
    /// The southbound database.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub southbound: Option<String>,
}

/// The members of a database, as they see each other.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct RaftStatus {
    /// Id of the Raft cluster; another id means that a new cluster was initialised.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub cluster_id: Option<String>,
    /// Pod that leads; absent while none does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub leader: Option<String>,
    /// How many members are in the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub members: Option<i32>,
    /// How many of them are ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_members: Option<i32>,
}

impl Rules for OVNCluster {}

/// One hypervisor in OVN. The operator creates it for each node.
#[derive(CustomResource, Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "ovn.c5c3.io",
    version = "v1alpha1",
    kind = "OVNChassis",
    plural = "ovnchassis",
    namespaced,
    status = "OVNChassisStatus",
    derive = "PartialEq",
    shortname = "chassis",
    category = "c5c3",
    printcolumn(name = "Ready", type_ = "string", json_path = ".status.conditions[?(@.type=='Ready')].status"),
    printcolumn(name = "Reason", type_ = "string", json_path = ".status.conditions[?(@.type=='Ready')].reason"),
    printcolumn(name = "Encapsulation", type_ = "string", json_path = ".spec.encapsulation.type"),
    printcolumn(name = "IP", type_ = "string", json_path = ".spec.encapsulation.ip"),
    printcolumn(name = "Heartbeat", type_ = "date", json_path = ".status.lastHeartbeat"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct OVNChassisSpec {
    /// Host name of the node. It cannot be changed.
    #[x_kube(validation = Rule::new("self == oldSelf")
        .message("cannot be changed; ports are bound to it, so delete the chassis and let it register again"))]
    pub hostname: Host,
    /// Id of the Open vSwitch on the node, `external_ids:system-id` there. It cannot be changed.
    #[schemars(length(min = 1, max = 255))]
    #[x_kube(
        validation = Rule::new("self.matches('^[^ \\\\t\\\\r\\\\n,;\"]+$')")
            .message("is not a system id; leave out spaces, quotes, ',' and ';'"),
        validation = Rule::new("self == oldSelf")
            .message("cannot be changed; the southbound database knows the chassis by it, so delete the chassis and let it register again")
    )]
    pub system_id: String,
    /// Which bridge leads to which provider network.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["physicalNetwork"]))]
    pub bridge_mappings: Vec<BridgeMapping>,
    /// How packets travel between hypervisors.
    pub encapsulation: Encapsulation,
}

/// A provider network, and the bridge that leads to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct BridgeMapping {
    /// Name of the network in Neutron, such as `provider`; without spaces, `,` and `:`.
    #[schemars(length(min = 1, max = 64), regex(pattern = r"^[^\s,:]+$"))]
    pub physical_network: String,
    /// Name of the bridge, such as `br-provider`; up to 15 characters, without spaces, `,`, `:` and `/`.
    #[schemars(length(min = 1, max = 15), regex(pattern = r"^[^\s,:/]+$"))]
    #[x_kube(validation = Rule::new("self != 'br-int'")
        .message("is the bridge that OVN connects instances to; map the network to a bridge with an uplink, such as br-ex"))]
    pub bridge: String,
    /// The link of the node that leads to the network, such as a network card. It becomes a port of the bridge, and must have no
    /// address. When absent, whoever manages the node adds one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 15), regex(pattern = r"^[^\s,:/]+$"))]
    pub interface: Option<String>,
}

/// How packets travel between hypervisors.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Encapsulation {
    /// The tunnel protocol.
    #[serde(default)]
    pub r#type: EncapsulationType,
    /// Address of the node's end of tunnels, IPv4 or IPv6.
    #[schemars(with = "String", length(max = 45))]
    #[x_kube(validation = an_address())]
    pub ip: IpAddr,
}

/// A tunnel protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum EncapsulationType {
    /// Geneve, which carries all that OVN has to say about a packet.
    #[default]
    Geneve,
    /// VXLAN, for gateways that know no Geneve. It limits OVN to 4095 networks.
    Vxlan,
}

/// Eight bits of an IPv4 address.
macro_rules! h8 {
    () => {
        "(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
    };
}

/// Sixteen bits of an IPv6 address.
macro_rules! h16 {
    () => {
        "[0-9a-f]{1,4}"
    };
}

/// The rule of an IP address. CEL's `isIP` would be shorter, but Kubernetes has it only since 1.30, and we support 1.29.
pub(crate) fn an_address() -> Rule {
    Rule::new(concat!(
        concat!("self.matches('^(", h8!(), "[.]){3}", h8!(), "$') || self.matches('(?i)^("),
        concat!("(", h16!(), ":){7}", h16!()),
        concat!("|(", h16!(), ":){1,7}:"),
        concat!("|(", h16!(), ":){1,6}:", h16!()),
        concat!("|(", h16!(), ":){1,5}(:", h16!(), "){1,2}"),
        concat!("|(", h16!(), ":){1,4}(:", h16!(), "){1,3}"),
        concat!("|(", h16!(), ":){1,3}(:", h16!(), "){1,4}"),
        concat!("|(", h16!(), ":){1,2}(:", h16!(), "){1,5}"),
        concat!("|", h16!(), ":(:", h16!(), "){1,6}"),
        concat!("|:(:", h16!(), "){1,7}"),
        "|::)$')"
    ))
    .message("is not an IP address; write an IPv4 address such as 10.0.1.100 or an IPv6 address such as fd00::100, without a prefix length")
}

/// What the operator observed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct OVNChassisStatus {
    /// Ready, OVSConnected.
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
    /// When the chassis first appeared in the southbound database.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registered_at: Option<Time>,
    /// When its ovn-controller last caught up with the southbound database.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_heartbeat: Option<Time>,
}

impl Rules for OVNChassis {}
