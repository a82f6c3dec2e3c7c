//! What the OpenStack services stand on: MariaDB, RabbitMQ, Valkey, Memcached.

use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use crate::blocks::{ObjectName, Quorum, Replicas, Size};

/// The infrastructure that is created for the services. What is left out is created with its defaults if an enabled
/// service needs it.
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
}

/// A Galera cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("!has(oldSelf.storageClass) || (has(self.storageClass) && self.storageClass == oldSelf.storageClass)")
    .message("changes storageClass, which a volume keeps for life; keep the old one, or restore a backup into a new ControlPlane"))]
pub struct MariaDb {
    /// How many members vote; odd. 3 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<Quorum>,
    /// Size of each member's volume, such as 100Gi. 100Gi when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage_size: Option<Size>,
    /// Storage class of the volumes; the cluster's default when absent. It cannot be changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage_class: Option<ObjectName>,
}

/// A RabbitMQ cluster. It runs with `pause_minority`, so its size is a quorum like any other.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct RabbitMq {
    /// How many members vote; odd. 3 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<Quorum>,
    /// Size of each member's volume, such as 20Gi. 20Gi when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage_size: Option<Size>,
    /// Storage class of the volumes; the cluster's default when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage_class: Option<ObjectName>,
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
pub struct Memcached {
    /// How many servers; keys are spread over them. 3 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<Replicas>,
    /// Memory for the cache of each server, such as 1Gi. 1Gi when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Size>,
}
