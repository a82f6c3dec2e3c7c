//! ControlPlane: one object that becomes an OpenStack.

use std::collections::BTreeMap;

use c5c3_schema::Problem;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{GlanceService, Identity, IdentityStatus, ImageStore, Infrastructure, Services};
use crate::alias::{Alias, alias};
pub use crate::blocks::DeletionPolicy;
use crate::blocks::{
    Condition, CronSchedule, Duration, HostPort, IssuerRef, ObjectName, PolicyOverrides, Region, Replicas, SecretRef,
    WaitStatus,
};
use crate::catalog::{Rules, problem};

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
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.updatePhase"),
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
    printcolumn(name = "Release", type_ = "string", json_path = ".spec.openStackRelease", priority = 1),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new(concat!(region!("self"), " == ", region!("oldSelf")))
    .message("cannot be changed; every endpoint of the catalog is registered in it")
    .field_path(".global.region"))]
pub struct ControlPlaneSpec {
    /// The OpenStack release, such as 2025.2; it decides the images. An upgrade can be taken back until a database has lost
    /// what only the older release uses.
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
    /// What the services stand on.
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
    /// The catalog and the identities, as Kubernetes objects.
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
    /// Whether they are kept this way.
    #[serde(default = "crate::blocks::yes")]
    pub enabled: bool,
    /// What Keystone's bootstrap makes and is imported.
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
    /// The admin project.
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

/// Settings of every service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Global {
    /// Region of every endpoint. `RegionOne` when absent. It cannot be changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<Region>,
    /// TLS on every API, and of MariaDB, RabbitMQ and Valkey with everybody. Memcached has none, and answers its own namespace
    /// alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<GlobalTls>,
    /// Metrics.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub monitoring: Option<Monitoring>,
    /// Policies that hold for every service; a service's own win.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy_overrides: Option<PolicyOverrides>,
}

/// TLS on every API and of the servers that can, with certificates from one issuer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct GlobalTls {
    /// Whether it is used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// The cert-manager issuer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issuer_ref: Option<IssuerRef>,
}

/// Metrics.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Monitoring {
    /// Whether ServiceMonitors are made.
    #[serde(default)]
    pub enabled: bool,
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

/// Where a rollout is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[allow(missing_docs)] // Each is the phase of its name.
pub enum UpdatePhase {
    Idle,
    Validating,
    UpdatingInfra,
    UpdatingKeystone,
    UpdatingServices,
    Verifying,
    Complete,
    RollingBack,
}

/// What the operator observed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ControlPlaneStatus {
    /// Ready, InfrastructureReady, KeystoneReady, KORCReady, CredentialsReady, ServicesReady, CrossClusterSyncReady.
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
    /// `Ready` when done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub phase: Option<String>,
    /// Where a rollout is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update_phase: Option<UpdatePhase>,
    /// Service by service.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 64))]
    pub services: BTreeMap<String, ServiceStatus>,
    /// How far the identities are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<IdentityStatus>,
    /// How far Ceph's pools are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ceph: Option<CephStatus>,
}

/// How one service is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServiceStatus {
    /// Whether it is ready.
    #[serde(default)]
    pub ready: bool,
    /// Which version runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub version: Option<String>,
    /// What it says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 4096))]
    pub message: Option<String>,
}

/// How far Ceph's pools are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct CephStatus {
    /// Cinder's pool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub volume_pool: Option<String>,
    /// Glance's pool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub image_pool: Option<String>,
}

impl Rules for ControlPlane {
    const ALIASES: &'static [Alias] = &[
        alias("openstack", "services"),
        alias("region", "global.region"),
        alias("tls.enabled", "global.tls.enabled"),
        alias("tls.issuerRef", "global.tls.issuerRef.name"),
        alias("infrastructure.database", "infrastructure.mariadb"),
        alias("infrastructure.messaging", "infrastructure.rabbitmq"),
        alias("infrastructure.cache", "infrastructure.memcached"),
        alias("identity.keystone.replicas", "services.keystone.replicas"),
        alias("services.nova.replicas.api", "services.nova.api.replicas"),
        alias("services.nova.replicas.scheduler", "services.nova.scheduler.replicas"),
        alias("services.nova.replicas.conductor", "services.nova.conductor.replicas"),
        alias("services.neutron.replicas", "services.neutron.api.replicas"),
        alias("services.cinder.replicas.api", "services.cinder.api.replicas"),
        alias("services.cinder.replicas.scheduler", "services.cinder.scheduler.replicas"),
        alias("services.cinder.replicas.volume", "services.cinder.volume.replicas"),
    ];

    fn problems(&self) -> Vec<Problem> {
        let mut problems = missing_services(&self.spec);
        let tls = self.spec.global.as_ref().and_then(|global| global.tls.as_ref());
        if tls.is_some_and(|tls| tls.enabled == Some(true) && tls.issuer_ref.is_none()) {
            problems.push(problem(
                "spec.global.tls.issuerRef",
                "is missing, and TLS is enabled",
                "name a cert-manager issuer, or set spec.global.tls.enabled to false",
            ));
        }
        let keystone = self.spec.services.as_ref().and_then(|services| services.keystone.as_ref());
        if let Some(interval) = keystone.and_then(|k| k.fernet.as_ref()).and_then(|f| f.rotation_interval.as_ref())
            && rotation_schedule(interval).is_none()
        {
            problems.push(problem(
                "spec.services.keystone.fernet.rotationInterval",
                format!("\"{interval}\" cannot be kept as a schedule"),
                "use 1h to 23h in whole hours, or whole days up to 28, such as 24h or 168h",
            ));
        }
        let glance = self.spec.services.as_ref().and_then(|services| services.glance.as_ref());
        let on_a_volume =
            |glance: &&GlanceService| glance.backend.as_ref().is_some_and(|backend| backend.r#type == ImageStore::File);
        if glance.filter(on_a_volume).and_then(|glance| glance.replicas).is_some_and(|replicas| replicas.get() > 1) {
            problems.push(problem(
                "spec.services.glance.replicas",
                "has several replicas on a volume that one node at a time can mount",
                "set it to 1, or spec.services.glance.backend.type to rbd",
            ));
        }
        problems
    }
}

/// The cron expression that fires every `interval`, if there is one.
pub fn rotation_schedule(interval: &Duration) -> Option<CronSchedule> {
    let seconds = interval.get().as_secs();
    let hours = seconds / 3600;
    let text = match hours {
        _ if hours == 0 || !seconds.is_multiple_of(3600) => return None,
        24 => "0 0 * * *".to_owned(),
        168 => "0 0 * * 0".to_owned(),
        1..24 => format!("0 */{hours} * * *"),
        _ if hours.is_multiple_of(24) && hours / 24 <= 28 => format!("0 0 */{} * *", hours / 24),
        _ => return None,
    };
    CronSchedule::new(text).ok()
}

/// Services that are enabled without what they cannot start without.
fn missing_services(spec: &ControlPlaneSpec) -> Vec<Problem> {
    let services = spec.services.clone().unwrap_or_default();
    let enabled = [
        ("keystone", services.keystone.is_some_and(|s| s.enabled)),
        ("glance", services.glance.is_some_and(|s| s.enabled)),
        ("placement", services.placement.is_some_and(|s| s.enabled)),
        ("nova", services.nova.is_some_and(|s| s.enabled)),
        ("neutron", services.neutron.is_some_and(|s| s.enabled)),
        ("cinder", services.cinder.is_some_and(|s| s.enabled)),
    ];
    let is_on = |name: &str| enabled.iter().any(|(service, on)| *service == name && *on);
    let needs: &[(&str, bool, &[&str])] = &[
        ("spec.services.glance", is_on("glance"), &["keystone"]),
        ("spec.services.placement", is_on("placement"), &["keystone"]),
        ("spec.services.nova", is_on("nova"), &["keystone", "placement", "glance"]),
        ("spec.services.neutron", is_on("neutron"), &["keystone"]),
        ("spec.services.cinder", is_on("cinder"), &["keystone"]),
        ("spec.cortex", spec.cortex.as_ref().is_some_and(|c| c.enabled), &["nova"]),
        ("spec.tempest", spec.tempest.as_ref().is_some_and(|t| t.enabled), &["keystone"]),
    ];
    let mut problems = Vec::new();
    for (path, on, needed) in needs {
        let missing: Vec<&str> = needed.iter().copied().filter(|name| *on && !is_on(name)).collect();
        if !missing.is_empty() {
            problems.push(problem(
                *path,
                format!("is enabled without {}, which it cannot start without", missing.join(" and ")),
                format!("enable {}, or set {path}.enabled to false", missing.join(" and ")),
            ));
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_becomes_a_schedule_or_is_refused() {
        let schedule = |text: &str| rotation_schedule(&Duration::new(text).unwrap()).map(|s| s.to_string());
        assert_eq!(schedule("24h").as_deref(), Some("0 0 * * *"));
        assert_eq!(schedule("168h").as_deref(), Some("0 0 * * 0"));
        assert_eq!(schedule("48h").as_deref(), Some("0 0 */2 * *"));
        assert_eq!(schedule("6h").as_deref(), Some("0 */6 * * *"));
        for refused in ["90m", "30s", "25h", "960h"] {
            assert_eq!(schedule(refused), None, "{refused}");
        }
    }
}
