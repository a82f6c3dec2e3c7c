//! What must be ready before a service starts.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ObjectName;

/// The kinds that a service may depend on. A kind that is not in this list would be waited for forever.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[allow(missing_docs)] // Each is the kind of its name.
pub enum DependencyKind {
    Keystone,
    Glance,
    Placement,
    Nova,
    Neutron,
    Cinder,
    Cortex,
    Tempest,
    OVNCluster,
    MariaDB,
    RabbitmqCluster,
    Valkey,
    Memcached,
}

/// An object of which a condition must be true.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct DependsOn {
    /// Kind of the object.
    pub kind: DependencyKind,
    /// Name of the object.
    pub name: ObjectName,
    /// Its namespace; the one of the referring object when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<ObjectName>,
    /// The condition that must be true.
    #[serde(default = "ready")]
    #[schemars(length(min = 1, max = 316), regex(pattern = r"^[A-Za-z][A-Za-z0-9._/-]*$"))]
    pub condition: String,
}

fn ready() -> String {
    "Ready".into()
}
