//! ControlPlane: one object that becomes an OpenStack.

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ControlPlaneStatus, Global, Identity, Infrastructure, Services};
pub use crate::blocks::DeletionPolicy;
use crate::blocks::{CronSchedule, HostPort, ObjectName, Replicas, SecretRef};

/// The region that a spec means, in CEL: whichever way it is spelled, and the default when it is not.
macro_rules! region {
    ($spec:literal) => {
        concat!(
            "(has(",
            $spec,
            ".global) && has(",
            $spec,
            ".global.region) ? ",
            $spec,
            ".global.region : has(",
            $spec,
            ".region) ? ",
            $spec,
            ".region : 'RegionOne')"
        )
    };
}

/// An OpenStack: its infrastructure, its services, its identities and how they are kept.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "c5c3.io",
    version = "v1alpha1",
    kind = "ControlPlane",
    plural = "controlplanes",
    namespaced,
    status = "ControlPlaneStatus",
    derive = "PartialEq",
    shortname = "cp",
    category = "c5c3",
    printcolumn(name = "Ready", type_ = "string", json_path = ".status.conditions[?(@.type=='Ready')].status"),
    printcolumn(name = "Reason", type_ = "string", json_path = ".status.conditions[?(@.type=='Ready')].reason"),
    printcolumn(name = "Release", type_ = "string", json_path = ".spec.openStackRelease"),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(
        name = "Infrastructure",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='InfrastructureReady')].reason",
        priority = 1
    ),
    printcolumn(
        name = "Keystone",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='KeystoneReady')].reason",
        priority = 1
    ),
    printcolumn(
        name = "Services",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='ServicesReady')].reason",
        priority = 1
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new(concat!(region!("self"), " == ", region!("oldSelf")))
    .message("cannot be changed, because every endpoint of the catalog is registered in this region; keep it, or create a new ControlPlane")
    .field_path(".global.region"))]
pub struct ControlPlaneSpec {
    /// The OpenStack release, such as 2025.2; it decides the images. An upgrade can be reverted until the contract
    /// migrations of a database start.
    #[serde(default = "release", rename = "openStackRelease")]
    #[schemars(length(max = 6))]
    #[x_kube(
        validation = Rule::new("self.matches('^20[0-9]{2}[.][12]$')")
            .message("is not an OpenStack release; write year and half, such as 2025.2")
    )]
    pub openstack_release: String,
    /// What becomes of data when the ControlPlane is deleted. Messages and caches are never kept. While it is `Delete`, no part
    /// that holds data can be taken out of a ControlPlane that stays; with `Retain`, data outlives that, too.
    #[serde(default)]
    pub deletion_policy: DeletionPolicy,
    /// The infrastructure that services depend on: database, message broker, caches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub infrastructure: Option<Infrastructure>,
    /// Which services run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub services: Option<Services>,
    /// The scheduler that plans placements.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cortex: Option<CortexSwitch>,
    /// The tests that run against the finished cloud.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tempest: Option<TempestSwitch>,
    /// The catalog and the identities, as Kubernetes objects. When absent, they are kept this way as soon as a service beside
    /// Keystone is enabled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub korc: Option<Korc>,
    /// Settings of every service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub global: Option<Global>,
    /// Users that exist from the start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<Identity>,
    /// The hypervisors that belong to this cloud.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compute: Option<Compute>,
    /// The storage that belongs to this cloud.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage: Option<Storage>,
}

fn release() -> String {
    "2025.2".into()
}

impl ControlPlaneSpec {
    /// Whether the catalog and the identities are kept as Kubernetes objects.
    pub fn has_korc(&self) -> bool {
        self.korc.as_ref().map_or_else(|| self.has_second_service(), |korc| korc.enabled)
    }

    /// Whether Keystone runs, and a service that signs in to it.
    fn has_second_service(&self) -> bool {
        let Some(services) = &self.services else { return false };
        let others = [
            services.glance.as_ref().map(|service| service.enabled),
            services.placement.as_ref().map(|service| service.enabled),
            services.nova.as_ref().map(|service| service.enabled),
            services.neutron.as_ref().map(|service| service.enabled),
            services.cinder.as_ref().map(|service| service.enabled),
        ];
        let tests = self.tempest.as_ref().map(|tempest| tempest.enabled);
        let signs_in = others.contains(&Some(true)) || tests == Some(true);
        services.keystone.as_ref().is_some_and(|keystone| keystone.enabled) && signs_in
    }

    /// The pipelines of Cortex: those that the spec lists, or Nova's, and Cinder's if Cinder runs.
    pub fn cortex_pipelines(&self) -> Vec<CortexDomain> {
        let listed = self.cortex.as_ref().map(|cortex| cortex.pipelines.clone()).unwrap_or_default();
        if !listed.is_empty() {
            return listed;
        }
        let cinder = self.services.as_ref().and_then(|services| services.cinder.as_ref());
        let cinder = cinder.is_some_and(|cinder| cinder.enabled).then_some(CortexDomain::Cinder);
        [CortexDomain::Nova].into_iter().chain(cinder).collect()
    }
}

/// The scheduler that plans placements.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct CortexSwitch {
    /// Whether it runs.
    #[serde(default)]
    pub enabled: bool,
    /// How many pods. 2 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<Replicas>,
    /// What it decides on. Servers, and volumes if Cinder runs, when absent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 2), extend("x-kubernetes-list-type" = "set"))]
    pub pipelines: Vec<CortexDomain>,
}

/// What Cortex decides on, by the service that asks it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CortexDomain {
    /// Scheduling of servers to hosts.
    Nova,
    /// Scheduling of volumes to backends.
    Cinder,
}

/// The tests that run against the finished cloud.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct TempestSwitch {
    /// Whether they run.
    #[serde(default)]
    pub enabled: bool,
    /// When they run, as a cron expression. `0 2 * * *` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<CronSchedule>,
}

/// The catalog and the identities, as Kubernetes objects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Korc {
    /// Whether they are kept this way. Without it, each service waits for a Secret `<service>-keystone-credentials` that is
    /// provided, and the catalog is left alone.
    #[serde(default = "crate::blocks::yes")]
    pub enabled: bool,
    /// What is imported of what Keystone's bootstrap makes: all of it when absent. Roles are always imported.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8), extend("x-kubernetes-list-type" = "set"))]
    pub bootstrap_resources: Vec<BootstrapResource>,
    /// The credentials that K-ORC signs in with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cloud_credentials_ref: Option<CloudCredentials>,
}

/// What Keystone's bootstrap makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum BootstrapResource {
    /// The default domain.
    Domains,
    /// The admin project. The service project is created if it does not exist, whether it is listed here or not.
    Projects,
    /// The roles admin, member, reader and service.
    Roles,
}

/// A `clouds.yaml` in a Secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct CloudCredentials {
    /// The cloud in it; `openstack` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 256))]
    pub cloud_name: Option<String>,
    /// The Secret; `k-orc-clouds-yaml` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_name: Option<ObjectName>,
}

/// The hypervisors that belong to this cloud.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Compute {
    /// Hypervisor clusters by name; each becomes a cell.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "set"))]
    pub hypervisor_clusters: Vec<ObjectName>,
}

/// The storage that belongs to this cloud.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Storage {
    /// Storage clusters by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "set"))]
    pub storage_clusters: Vec<ObjectName>,
    /// How Ceph is reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ceph: Option<Ceph>,
}

/// How Ceph is reached, and its pools.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Ceph {
    /// Secret with the key; key `userKey` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<SecretRef>,
    /// Monitors, each as `host:port`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub monitors: Vec<HostPort>,
    /// Pool of each use: `volumes`, `images`, `ephemeral`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pools: Option<CephPools>,
    /// The file system, for shares.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filesystem: Option<CephFilesystem>,
}

/// Pool of each use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct CephPools {
    /// Cinder's; `volumes` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128))]
    pub volumes: Option<String>,
    /// Glance's; `images` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128))]
    pub images: Option<String>,
    /// Nova's; `vms` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128))]
    pub ephemeral: Option<String>,
}

/// A Ceph file system.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct CephFilesystem {
    /// Its name.
    #[schemars(length(min = 1, max = 128))]
    pub name: String,
}

#[cfg(test)]
mod tests {
    use kube::CustomResourceExt;

    use super::*;

    #[test]
    fn kubectl_get_shows_readiness_release_and_phase() {
        let columns = ControlPlane::crd().spec.versions[0].additional_printer_columns.clone().unwrap();
        let shown = columns.iter().filter(|column| column.priority.unwrap_or_default() == 0);
        let shown: Vec<&str> = shown.map(|column| column.name.as_str()).collect();
        assert_eq!(shown, ["Ready", "Reason", "Release", "Phase", "Age"]);
    }
}
