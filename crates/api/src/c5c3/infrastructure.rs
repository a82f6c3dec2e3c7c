//! What the OpenStack services stand on: MariaDB, RabbitMQ, Valkey, Memcached, OVN.

use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use crate::blocks::{DatabaseTls, Host, HostPort, NamespacedRef, ObjectName, Port, Quorum, Replicas, Resources, Size};
use crate::ovn::BridgeMapping;

/// The infrastructure that is created for the services. What is left out is created with its defaults if an enabled
/// service needs it. What exists already is named by its object or its address, and then nothing is created.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Infrastructure {
    /// The Galera cluster that holds every service's database.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mariadb: Option<MariaDb>,
    /// The broker that Nova, Neutron and Cinder talk over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rabbitmq: Option<RabbitMq>,
    /// The key-value store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub valkey: Option<Valkey>,
    /// The cache for tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memcached: Option<Memcached>,
    /// The OVN that Neutron writes networks to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ovn: Option<Ovn>,
}

/// A Galera cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("!quantity(has(oldSelf.storageSize) ? oldSelf.storageSize : '100Gi').isGreaterThan(quantity(has(self.storageSize) ? self.storageSize : '100Gi'))")
        .message("makes storageSize smaller (100Gi when absent), which no volume can become; keep the old size or a larger one"),
    validation = Rule::new("!has(self.clusterRef) || !has(self.host)")
        .message("has both clusterRef and host; set clusterRef for a MariaDB object that exists already, or host for a server of yours"),
    validation = Rule::new("!has(self.port) || has(self.host)").message("sets port without host; set host, or remove port"),
    validation = Rule::new("!(has(self.clusterRef) || has(self.host)) || !(has(self.replicas) || has(self.storageSize) || has(self.storageClass) || has(self.resources))")
        .message("names a server that exists already, and also says how a new one is; remove clusterRef and host, or remove replicas, storageSize, storageClass and resources"),
    validation = Rule::new("!has(self.tls) || has(self.clusterRef) || has(self.host)")
        .message("sets tls of a new server; remove tls and set spec.global.tls, or set host or clusterRef"),
    validation = Rule::new("has(self.host) == has(oldSelf.host) && has(self.clusterRef) == has(oldSelf.clusterRef)")
        .message("moves to another server, and all data would stay on the old one; keep the server, or migrate the data into a new ControlPlane")
)]
pub struct MariaDb {
    /// How many members vote; odd. 3 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<Quorum>,
    /// Size of each member's volume, such as 100Gi. 100Gi when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage_size: Option<Size>,
    /// Storage class of the volumes; the cluster's default when absent. It cannot be changed once there are volumes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage_class: Option<ObjectName>,
    /// CPU and memory of each member; the MariaDB operator's own when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<Resources>,
    /// A MariaDB object that exists already, used instead of creating one. It cannot be changed once a service has its data
    /// there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_ref: Option<NamespacedRef>,
    /// A server that exists already, used instead of creating one. Each service signs in with the Secret
    /// `<service>-db-credentials` (keys `username`, `password`), and finds its database there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<Host>,
    /// Port of that server; 3306 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<Port>,
    /// Encryption of connections to a server that exists already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<DatabaseTls>,
}

/// A RabbitMQ cluster. It runs with `pause_minority`, so its size is a quorum like any other.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("!quantity(has(oldSelf.storageSize) ? oldSelf.storageSize : '20Gi').isGreaterThan(quantity(has(self.storageSize) ? self.storageSize : '20Gi'))")
        .message("makes storageSize smaller (20Gi when absent), which no volume can become; keep the old size or a larger one"),
    validation = Rule::new("!has(self.clusterRef) || !has(self.hosts)")
        .message("has both clusterRef and hosts; set clusterRef for a RabbitmqCluster object that exists already, or hosts for brokers of yours"),
    validation = Rule::new("!(has(self.clusterRef) || has(self.hosts)) || !(has(self.replicas) || has(self.storageSize) || has(self.storageClass) || has(self.resources))")
        .message("names a broker that exists already, and also says how a new one is; remove clusterRef and hosts, or remove replicas, storageSize, storageClass and resources")
)]
pub struct RabbitMq {
    /// How many members vote; odd. 3 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<Quorum>,
    /// Size of each member's volume, such as 20Gi. 20Gi when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage_size: Option<Size>,
    /// Storage class of the volumes; the cluster's default when absent. It cannot be changed once there are volumes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage_class: Option<ObjectName>,
    /// CPU and memory of each member; 1 CPU and 2Gi when absent. The memory asked for and allowed is always the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<Resources>,
    /// A RabbitmqCluster object that exists already, used instead of creating one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_ref: Option<NamespacedRef>,
    /// Brokers that exist already, each as `host:port`, used instead of creating some. Each service signs in with the
    /// Secret `<service>-rabbitmq-credentials` (keys `username`, `password`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 16))]
    pub hosts: Option<Vec<HostPort>>,
}

/// A Valkey, with Sentinel or without.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Valkey {
    /// How many members; each runs a sentinel that votes, so odd. 3 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<Quorum>,
    /// Failover by Sentinel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sentinel: Option<Sentinel>,
    /// CPU and memory of each member; the Valkey operator's own when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<Resources>,
}

/// Failover of a Valkey by Sentinel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Sentinel {
    /// Whether it is on. The operator that runs Valkey cannot change it later.
    #[serde(default = "crate::blocks::yes")]
    #[x_kube(validation = Rule::new("self == oldSelf").message("cannot be changed; keep it, or create a new ControlPlane"))]
    pub enabled: bool,
}

/// A Memcached.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("!has(self.servers) || !(has(self.replicas) || has(self.memory) || has(self.resources))")
    .message("names servers that exist already, and also says how new ones are; remove servers, or remove replicas, memory and resources"))]
pub struct Memcached {
    /// How many servers; keys are spread over them. 3 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<Replicas>,
    /// Memory for the cache of each server, such as 1Gi. 1Gi when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Size>,
    /// CPU and memory of each pod; by the size of the cache when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<Resources>,
    /// Servers that exist already, each as `host:port`, used instead of creating some.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64))]
    pub servers: Option<Vec<HostPort>>,
}

/// The databases of OVN, northbound and southbound, and the daemons on hypervisors.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("!quantity(has(oldSelf.storageSize) ? oldSelf.storageSize : '10Gi').isGreaterThan(quantity(has(self.storageSize) ? self.storageSize : '10Gi'))")
        .message("makes storageSize smaller (10Gi when absent), which no volume can become; keep the old size or a larger one"),
    validation = Rule::new("!has(self.clusterRef) || !(has(self.replicas) || has(self.storageSize) || has(self.storageClass) || has(self.resources) || has(self.bridgeMappings))")
        .message("names an OVNCluster that exists already, and also says how a new one is; remove clusterRef, or remove replicas, storageSize, storageClass, resources and bridgeMappings")
)]
pub struct Ovn {
    /// How many members of each database vote; odd. 3 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<Quorum>,
    /// Size of each member's volume, such as 10Gi. 10Gi when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage_size: Option<Size>,
    /// Storage class of the volumes; the cluster's default when absent. It cannot be changed once there are volumes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage_class: Option<ObjectName>,
    /// CPU and memory of each member; the OVN operator's own when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<Resources>,
    /// Which bridge leads to which provider network, on hypervisors whose OVNChassis has no mappings of its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["physicalNetwork"]))]
    pub bridge_mappings: Vec<BridgeMapping>,
    /// An OVNCluster object that exists already, used instead of creating one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_ref: Option<NamespacedRef>,
}
