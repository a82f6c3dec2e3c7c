//! Neutron: networks, and the OVN that makes them.

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::shared::replicas;
use super::{LONGEST_NAME, keeps_schema, keystone_aliases, service_mistakes, service_object};
use crate::alias::{Alias, alias};
use crate::blocks::{
    Cache, Database, DeletionPolicy, DependsOn, Exposure, ExtraConfig, HttpUrl, Image, KeystoneAuth, Messaging,
    Middleware, NamespacedRef, Operations, OvsdbConnection, Plugin, PolicyOverrides, Resources, Scheduling, SecretRef,
    ServiceStatus, Tls, Workload,
};
use crate::catalog::Rules;
use crate::ovn::NodeDaemon;
use crate::{Problem, problem};

/// A Neutron: the network API with the ML2 plugin, its database and its connection to OVN.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "neutron.openstack.c5c3.io",
    version = "v1alpha1",
    kind = "Neutron",
    plural = "neutrons",
    namespaced,
    status = "NeutronStatus",
    derive = "PartialEq",
    shortname = "neu",
    category = "c5c3",
    category = "openstack",
    printcolumn(name = "Ready", type_ = "string", json_path = ".status.conditions[?(@.type=='Ready')].status"),
    printcolumn(name = "Reason", type_ = "string", json_path = ".status.conditions[?(@.type=='Ready')].reason"),
    printcolumn(name = "Release", type_ = "string", json_path = ".status.installedRelease"),
    printcolumn(name = "Replicas", type_ = "integer", json_path = ".status.replicas"),
    printcolumn(name = "Endpoint", type_ = "string", json_path = ".status.endpoint"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(
        name = "Message",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Ready')].message",
        priority = 1
    )
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = keeps_schema!("neutron"),
    validation = Rule::new("!has(self.ovn) || self.ovn.enabled || !('ovn' in self.ml2.mechanismDrivers)")
        .message("switches OVN off, but ml2.mechanismDrivers has ovn; set ovn.enabled to true, or ml2.mechanismDrivers without ovn")
        .field_path(".ovn"),
    validation = Rule::new("!has(self.metadataAgent) || ((!has(self.ovn) || self.ovn.enabled) && 'ovn' in self.ml2.mechanismDrivers)")
        .message("is the agent of networks that OVN makes, and OVN is off; remove metadataAgent, or switch OVN on")
        .field_path(".metadataAgent")
)]
pub struct NeutronSpec {
    /// The API pods; 3 replicas when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api: Option<Workload>,
    /// The pods beside the API: the RPC server, the periodic workers and OVN's maintenance, one pod each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workers: Option<NeutronWorkers>,
    /// The image; when absent that of the version that is installed, or of the operator's OpenStack release for a new object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<Image>,
    /// Where networks are stored; schema `neutron` on the MariaDB object `mariadb`, with the account of the Secret
    /// `neutron-db-credentials`, when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub database: Option<Database>,
    /// The message queue; the RabbitmqCluster object `rabbitmq`, with the account of the Secret
    /// `neutron-rabbitmq-credentials`, when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub messaging: Option<Messaging>,
    /// How Neutron authenticates; with the Secret `neutron-keystone-credentials` at the object `keystone` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keystone: Option<KeystoneAuth>,
    /// The OVN that Neutron writes networks to; the OVNCluster `ovn` in the Neutron's namespace when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ovn: Option<NeutronOvn>,
    /// The agent on each hypervisor that leads instances to Nova's metadata; none when absent. It needs the Secret
    /// `nova-metadata-proxy`, which Nova's operator makes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata_agent: Option<NodeDaemon>,
    /// The ML2 plugin: which kinds of network there are, and what makes them.
    #[serde(default)]
    pub ml2: Ml2,
    /// Where tokens are cached; the Memcached object `memcached` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache: Option<Cache>,
    /// TLS on the API; off when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<Tls>,
    /// The URL that clients outside the cluster reach the API at, registered as the public endpoint; that of the gateway, or
    /// the one within the cluster, when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub public_endpoint: Option<HttpUrl>,
    /// How the API is reached and scaled.
    #[serde(flatten)]
    pub exposure: Exposure,
    /// Policies that replace Neutron's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy_overrides: Option<PolicyOverrides>,
    /// Filters around the WSGI application.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub middleware: Vec<Middleware>,
    /// Plugins with configuration sections of their own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["configSection"]))]
    pub plugins: Vec<Plugin>,
    /// Raw options of `neutron.conf` by section; sections of the ML2 plugin (`ml2`, `ml2_type_vlan`, `ovn` ...) go to
    /// `ml2_conf.ini`.
    #[serde(default, skip_serializing_if = "ExtraConfig::is_empty")]
    #[schemars(extend("maxProperties" = 128))]
    pub extra_config: ExtraConfig,
    /// How the service is run.
    #[serde(flatten)]
    pub operations: Operations,
    /// What must be ready before Neutron starts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub depends_on: Vec<DependsOn>,
    /// What becomes of the database when the Neutron is deleted. What OVN has of its networks stays in any case.
    #[serde(default)]
    pub deletion_policy: DeletionPolicy,
}

impl NeutronSpec {
    /// Whether OVN makes the networks.
    pub fn has_ovn(&self) -> bool {
        let enabled = self.ovn.as_ref().is_none_or(|ovn| ovn.enabled);
        enabled && self.ml2.mechanism_drivers.iter().any(|driver| driver == "ovn")
    }

    /// How many API pods run.
    pub fn api_replicas(&self) -> i32 {
        replicas(self.api.as_ref(), 3)
    }
}

/// The pods beside the API.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct NeutronWorkers {
    /// CPU and memory of each pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<Resources>,
    /// The nodes that the pods are scheduled to; those of the API when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduling: Option<Scheduling>,
}

/// The OVN that Neutron writes networks to. Addresses that are written here win over those of the OVNCluster; the
/// ControlPlane's operator fills them in for an OVN of another Kubernetes cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct NeutronOvn {
    /// Whether OVN is used.
    #[serde(default = "crate::blocks::yes")]
    pub enabled: bool,
    /// The OVNCluster object; `ovn` in the Neutron's namespace when neither this nor connections are set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_ref: Option<NamespacedRef>,
    /// Address of the northbound database, such as `tcp:ovn-nb.ovn-system:6641`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nb_connection: Option<OvsdbConnection>,
    /// Address of the southbound database, such as `tcp:ovn-sb.ovn-system:6642`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sb_connection: Option<OvsdbConnection>,
    /// Secret with `tls.crt`, `tls.key` and `ca.crt` for `ssl:` connections; that of the OVNCluster when absent, if it is in the
    /// same namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cert_secret_ref: Option<SecretRef>,
}

impl Default for NeutronOvn {
    fn default() -> Self {
        Self { enabled: true, cluster_ref: None, nb_connection: None, sb_connection: None, cert_secret_ref: None }
    }
}

/// The ML2 plugin: which kinds of network there are, and what makes them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("!('ovn' in self.mechanismDrivers) || 'geneve' in self.typeDrivers")
        .message("has the mechanism driver ovn without geneve, which OVN's tunnels are; add geneve to typeDrivers")
        .field_path(".typeDrivers"),
    validation = Rule::new("self.tenantNetworkTypes.all(t, t in self.typeDrivers)")
        .message("has a type without a driver; add the type to typeDrivers, or remove it from tenantNetworkTypes")
        .field_path(".tenantNetworkTypes"),
    validation = Rule::new("!has(self.vlanRanges) || self.vlanRanges.size() == 0 || 'vlan' in self.typeDrivers")
        .message("names VLANs without a driver for them; add vlan to typeDrivers, or remove vlanRanges")
        .field_path(".vlanRanges")
)]
pub struct Ml2 {
    /// The kinds of network that can be made.
    #[serde(default = "type_drivers")]
    #[schemars(length(min = 1, max = 8), extend("x-kubernetes-list-type" = "set"))]
    pub type_drivers: Vec<NetworkType>,
    /// The kinds that projects get, the first that has room.
    #[serde(default = "tenant_network_types")]
    #[schemars(length(max = 8), extend("x-kubernetes-list-type" = "set"))]
    pub tenant_network_types: Vec<NetworkType>,
    /// What makes networks, in order.
    #[serde(default = "mechanism_drivers")]
    #[schemars(length(min = 1, max = 16), inner(length(min = 1, max = 64), regex(pattern = r"^[A-Za-z0-9_.-]+$")))]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    pub mechanism_drivers: Vec<String>,
    /// Extensions of networks and ports.
    #[serde(default = "extension_drivers")]
    #[schemars(length(max = 16), inner(length(min = 1, max = 64), regex(pattern = r"^[A-Za-z0-9_.-]+$")))]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    pub extension_drivers: Vec<String>,
    /// The physical networks that VLANs can be made on: `provider`, which administrators choose VLANs of, or
    /// `provider:100:199`, which projects get VLANs of as well.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 64),
        inner(length(min = 1, max = 80), regex(pattern = r"^[^\s,:]+(:[0-9]{1,4}:[0-9]{1,4})?$"))
    )]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    pub vlan_ranges: Vec<String>,
}

impl Default for Ml2 {
    fn default() -> Self {
        Self {
            type_drivers: type_drivers(),
            tenant_network_types: tenant_network_types(),
            mechanism_drivers: mechanism_drivers(),
            extension_drivers: extension_drivers(),
            vlan_ranges: Vec::new(),
        }
    }
}

fn type_drivers() -> Vec<NetworkType> {
    vec![NetworkType::Geneve, NetworkType::Vlan, NetworkType::Flat]
}

fn tenant_network_types() -> Vec<NetworkType> {
    vec![NetworkType::Geneve]
}

fn mechanism_drivers() -> Vec<String> {
    vec!["ovn".into()]
}

fn extension_drivers() -> Vec<String> {
    vec!["port_security".into()]
}

/// The kinds of network that ML2 knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum NetworkType {
    /// Geneve tunnels, as OVN makes them.
    Geneve,
    /// A VLAN of a physical network.
    Vlan,
    /// VXLAN tunnels.
    Vxlan,
    /// A physical network without tags.
    Flat,
    /// A network within one host.
    Local,
    /// GRE tunnels.
    Gre,
}

impl NetworkType {
    /// Its name in Neutron, which is that of its driver.
    pub fn name(self) -> &'static str {
        match self {
            Self::Geneve => "geneve",
            Self::Vlan => "vlan",
            Self::Vxlan => "vxlan",
            Self::Flat => "flat",
            Self::Local => "local",
            Self::Gre => "gre",
        }
    }
}

/// What the operator observed. Its conditions are Ready, DependenciesReady, SecretsReady, DatabaseReady, MessagingReady,
/// ConfigReady, DeploymentReady, KeystoneAuthReady, APIReady, OVNConnected, MetadataAgentReady.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct NeutronStatus {
    /// What every service's status has.
    #[serde(flatten)]
    pub service: ServiceStatus,
}

service_object! {
    Neutron, "neutron", api: "spec.api", longest_name: LONGEST_NAME, |spec| {
        replicas: spec.api_replicas(),
        resources: spec.api.as_ref()?.resources.as_ref(),
        scheduling: spec.api.as_ref()?.scheduling.as_ref(),
        plugins: &spec.plugins,
        middleware: &spec.middleware,
        public_endpoint: spec.public_endpoint.as_ref(),
    }
}

impl Rules for Neutron {
    const ALIASES: &'static [Alias] = keystone_aliases![
        alias("replicas", "api.replicas"),
        alias("database.name", "database.database"),
        alias("ml2.ovn.ovnNbConnection", "ovn.nbConnection"),
        alias("ml2.ovn.ovnSbConnection", "ovn.sbConnection"),
    ];

    fn problems(&self) -> Vec<Problem> {
        let mut found = service_mistakes(self);
        // Not a CEL rule: each connection has a spelling in another block, and CEL sees the object before they are joined.
        let ovn = self.spec.ovn.as_ref();
        if let Some(ovn) =
            ovn.filter(|ovn| ovn.cluster_ref.is_none() && ovn.nb_connection.is_some() != ovn.sb_connection.is_some())
        {
            let (has, lacks) = if ovn.nb_connection.is_some() {
                ("nbConnection", "sbConnection")
            } else {
                ("sbConnection", "nbConnection")
            };
            let fix = format!("set {lacks} too, or clusterRef, from which what is left out is taken");
            found.push(problem("spec.ovn", format!("has {has} without {lacks}"), fix));
        }
        found
    }
}
