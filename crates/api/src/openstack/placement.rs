//! Placement: what resources exist, and who holds them.

use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use super::{keeps_schema, keystone_aliases, mistakes};
use crate::Problem;
use crate::alias::{Alias, alias};
use crate::blocks::{
    Cache, Condition, Database, DependencyKind, DependsOn, ExtraConfig, Image, KeystoneAuth, PolicyOverrides, Replicas,
    Resources, Scheduling, Tls, WaitStatus,
};
use crate::catalog::Rules;

/// A Placement: the inventory API and its database. It has no paste pipeline, so it takes no middleware.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "placement.openstack.c5c3.io",
    version = "v1alpha1",
    kind = "Placement",
    plural = "placements",
    namespaced,
    status = "PlacementStatus",
    derive = "PartialEq",
    shortname = "plc",
    category = "c5c3",
    category = "openstack",
    scale(
        spec_replicas_path = ".spec.replicas",
        status_replicas_path = ".status.replicas",
        label_selector_path = ".status.selector"
    ),
    printcolumn(name = "Ready", type_ = "string", json_path = ".status.conditions[?(@.type=='Ready')].status"),
    printcolumn(name = "Reason", type_ = "string", json_path = ".status.conditions[?(@.type=='Ready')].reason"),
    printcolumn(name = "Endpoint", type_ = "string", json_path = ".status.endpoint"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = keeps_schema!("placement"))]
pub struct PlacementSpec {
    /// How many API pods run.
    #[serde(default = "two")]
    pub replicas: Replicas,
    /// The image; the one of the operator's OpenStack release when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<Image>,
    /// Where inventories are stored; schema `placement` on the MariaDB object `mariadb`, with the account of the Secret
    /// `placement-db-credentials`, when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub database: Option<Database>,
    /// How Placement authenticates; with the Secret `placement-keystone-credentials` at the object `keystone` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keystone: Option<KeystoneAuth>,
    /// Where tokens are cached; the Memcached object `memcached` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache: Option<Cache>,
    /// TLS on the API; off when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<Tls>,
    /// CPU and memory of each pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<Resources>,
    /// Which nodes the pods go to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduling: Option<Scheduling>,
    /// Policies that replace Placement's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy_overrides: Option<PolicyOverrides>,
    /// Raw options of `placement.conf` by section.
    #[serde(default, skip_serializing_if = "ExtraConfig::is_empty")]
    #[schemars(extend("maxProperties" = 128))]
    pub extra_config: ExtraConfig,
    /// What must be ready before Placement starts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub depends_on: Vec<DependsOn>,
}

fn two() -> Replicas {
    Replicas::new(2).expect("2 is in range")
}

/// What the operator observed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlacementStatus {
    /// Ready, DependenciesReady, SecretsReady, DatabaseReady, ConfigReady, DeploymentReady.
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
    /// Where the API answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub endpoint: Option<String>,
    /// How many API pods there are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// Selector of the API pods, for autoscalers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub selector: Option<String>,
}

impl Rules for Placement {
    const ALIASES: &'static [Alias] = keystone_aliases![alias("database.name", "database.database")];

    fn problems(&self) -> Vec<Problem> {
        mistakes(DependencyKind::Placement, &self.metadata, &self.spec.depends_on, &self.spec.extra_config)
    }
}
