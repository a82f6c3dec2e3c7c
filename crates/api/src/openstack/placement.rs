//! Placement: what resources exist, and who holds them.

use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use super::{LONGEST_NAME, keeps_schema, keystone_aliases, service_mistakes, service_object};
use crate::Problem;
use crate::alias::{Alias, alias};
use crate::blocks::{
    Cache, Database, DeletionPolicy, DependsOn, Exposure, ExtraConfig, HttpUrl, Image, KeystoneAuth, Operations,
    PolicyOverrides, Replicas, Resources, Scheduling, ServiceStatus, Tls,
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
#[x_kube(validation = keeps_schema!("placement"))]
pub struct PlacementSpec {
    /// How many API pods run.
    #[serde(default = "two")]
    pub replicas: Replicas,
    /// The image; when absent that of the version that is installed, or of the operator's OpenStack release for a new object.
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
    /// The URL that clients outside the cluster reach the API at, registered as the public endpoint; that of the gateway, or
    /// the one within the cluster, when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub public_endpoint: Option<HttpUrl>,
    /// How the API is reached and scaled.
    #[serde(flatten)]
    pub exposure: Exposure,
    /// CPU and memory of each pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<Resources>,
    /// The nodes that the pods are scheduled to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduling: Option<Scheduling>,
    /// Policies that replace Placement's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy_overrides: Option<PolicyOverrides>,
    /// Raw options of `placement.conf` by section.
    #[serde(default, skip_serializing_if = "ExtraConfig::is_empty")]
    #[schemars(extend("maxProperties" = 128))]
    pub extra_config: ExtraConfig,
    /// How the service is run.
    #[serde(flatten)]
    pub operations: Operations,
    /// What must be ready before Placement starts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub depends_on: Vec<DependsOn>,
    /// What becomes of the database when the Placement is deleted.
    #[serde(default)]
    pub deletion_policy: DeletionPolicy,
}

fn two() -> Replicas {
    Replicas::new(2).expect("2 is in range")
}

/// What the operator observed. Its conditions are Ready, Progressing, Degraded, DependenciesReady, SecretsReady,
/// DatabaseReady, ConfigReady, DeploymentReady, KeystoneAuthReady, APIReady.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlacementStatus {
    /// What every service's status has.
    #[serde(flatten)]
    pub service: ServiceStatus,
}

service_object! {
    Placement, "placement", api: "spec", longest_name: LONGEST_NAME, |spec| {
        replicas: spec.replicas.get(),
        resources: spec.resources.as_ref(),
        scheduling: spec.scheduling.as_ref(),
        plugins: &[],
        middleware: &[],
        public_endpoint: spec.public_endpoint.as_ref(),
    }
}

impl Rules for Placement {
    const ALIASES: &'static [Alias] = keystone_aliases![alias("database.name", "database.database")];

    fn problems(&self) -> Vec<Problem> {
        service_mistakes(self)
    }
}
