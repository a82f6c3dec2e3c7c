//! Cinder: volumes, and the backends that hold them.

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::shared::replicas;
use super::{LONGEST_NAME, keeps_schema, keystone_aliases, service_mistakes, service_object};
use crate::Problem;
use crate::alias::{Alias, alias};
use crate::blocks::{
    Cache, CephRbd, Condition, Database, DeletionPolicy, DependsOn, Exposure, ExtraConfig, HttpUrl, Image,
    KeystoneAuth, LocalRef, Messaging, Middleware, Operations, Plugin, PolicyOverrides, Quantity, Replicas, Resources,
    Scheduling, SecretRef, ServiceStatus, Tls, Workload,
};
use crate::catalog::Rules;

/// A Cinder: the volume API, its schedulers, its database, and a volume service for each backend.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "cinder.openstack.c5c3.io",
    version = "v1alpha1",
    kind = "Cinder",
    plural = "cinders",
    namespaced,
    status = "CinderStatus",
    derive = "PartialEq",
    shortname = "cin",
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
    validation = keeps_schema!("cinder"),
    validation = Rule::new("!has(self.defaultVolumeType) || (has(self.backends) && self.backends.exists(b, b.name == self.defaultVolumeType))")
        .message("is not the name of a backend; name one of spec.backends, each of which has a volume type of its name")
        .field_path(".defaultVolumeType"),
    validation = Rule::new("!has(oldSelf.coordination) || has(self.coordination)")
        .message("cannot be removed: volumes belong to the cluster of volume services that it makes, and no other pod would serve them")
        .field_path(".coordination"),
    validation = Rule::new("!has(self.volume) || !has(self.volume.replicas) || self.volume.replicas <= 1 || has(self.coordination)")
        .message("is more than 1 without coordination: pods of one backend would change the same volume at the same time; set coordination.secretRef to the binding of a Valkey, or 1 replica")
        .field_path(".volume.replicas")
)]
pub struct CinderSpec {
    /// The API pods; 2 replicas when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api: Option<Workload>,
    /// The scheduler pods; 2 replicas when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduler: Option<Workload>,
    /// The volume service pods of each backend; 1 replica when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume: Option<Workload>,
    /// The backup service; off when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backup: Option<CinderBackup>,
    /// Where pods agree on who changes a volume; files of each pod when absent, which one volume pod for each backend is safe
    /// with. Once set it stays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coordination: Option<CinderCoordination>,
    /// Room for images that are converted while a volume is made of them, in each volume pod and backup pod: as large as the
    /// largest image; 20Gi when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scratch_size: Option<Quantity>,
    /// The image; when absent that of the version that is installed, or of the operator's OpenStack release for a new object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<Image>,
    /// Where volume records are stored; schema `cinder` on the MariaDB object `mariadb`, with the account of the Secret
    /// `cinder-db-credentials`, when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub database: Option<Database>,
    /// The message queue; the RabbitmqCluster object `rabbitmq`, with the account of the Secret
    /// `cinder-rabbitmq-credentials`, when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub messaging: Option<Messaging>,
    /// How Cinder authenticates; with the Secret `cinder-keystone-credentials` at the object `keystone` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keystone: Option<KeystoneAuth>,
    /// What holds the volumes. Each backend has a volume service and a volume type of its name; without any, only the
    /// API and the scheduler run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub backends: Vec<CinderBackend>,
    /// The type of volumes that name none: the name of a backend; the first one's when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 40))]
    pub default_volume_type: Option<String>,
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
    /// Policies that replace Cinder's own.
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
    /// Raw options of `cinder.conf` by section. A backend's section has the backend's name.
    #[serde(default, skip_serializing_if = "ExtraConfig::is_empty")]
    #[schemars(extend("maxProperties" = 128))]
    pub extra_config: ExtraConfig,
    /// How the service is run.
    #[serde(flatten)]
    pub operations: Operations,
    /// What must be ready before Cinder starts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub depends_on: Vec<DependsOn>,
    /// What becomes of the database when the Cinder is deleted. Volumes stay on their backends in any case.
    #[serde(default)]
    pub deletion_policy: DeletionPolicy,
}

impl CinderSpec {
    /// How many API pods run.
    pub fn api_replicas(&self) -> i32 {
        replicas(self.api.as_ref(), 2)
    }

    /// How many scheduler pods run.
    pub fn scheduler_replicas(&self) -> i32 {
        replicas(self.scheduler.as_ref(), 2)
    }

    /// How many volume service pods each backend has.
    pub fn volume_replicas(&self) -> i32 {
        replicas(self.volume.as_ref(), 1)
    }

    /// Room for images that are converted.
    pub fn scratch_size(&self) -> &str {
        self.scratch_size.as_ref().map_or("20Gi", Quantity::as_str)
    }

    /// The type of volumes that name none.
    pub fn default_volume_type(&self) -> Option<&str> {
        self.default_volume_type.as_deref().or_else(|| self.backends.first().map(|backend| backend.name.as_str()))
    }
}

/// The backup service, which copies volumes to a Ceph pool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct CinderBackup {
    /// How many pods; 1 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<Replicas>,
    /// CPU and memory of each pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<Resources>,
    /// The nodes that they are scheduled to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduling: Option<Scheduling>,
    /// The pool for backups; `backups` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128), regex(pattern = r"^[A-Za-z0-9._-]+$"))]
    pub pool: Option<String>,
    /// Ceph user, without `client.`; the one of the Secret, or `cinder`, when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128), regex(pattern = r"^[A-Za-z0-9._-]+$"))]
    pub user: Option<String>,
    /// Secret with `key` and `monitors`.
    pub ceph_secret_ref: SecretRef,
}

impl CinderBackup {
    /// How many pods run.
    pub fn replicas(&self) -> i32 {
        self.replicas.map_or(1, Replicas::get)
    }

    /// The pool, and the keys for it.
    pub fn rbd(&self) -> CephRbd {
        let (pool, user, ceph_secret_ref) = (self.pool.clone(), self.user.clone(), self.ceph_secret_ref.clone());
        CephRbd { pool, user, ceph_secret_ref, ceph_client_ref: None }
    }
}

/// Where pods agree on who changes a volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct CinderCoordination {
    /// The Secret with the binding of a Valkey: `password`, `tlsEnabled`, `caData`, and `sentinelHost`, `sentinelPort`,
    /// `primaryName` or `primaryHost`, `primaryPort`.
    pub secret_ref: LocalRef,
}

/// The driver for Ceph pools.
pub const RBD_DRIVER: &str = "cinder.volume.drivers.rbd.RBDDriver";

/// Something that holds volumes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("(has(self.driver) && self.driver != 'cinder.volume.drivers.rbd.RBDDriver') || (has(self.rbd) && has(self.rbd.cephSecretRef)) || has(self.cephSecretRef)")
        .message("has the RBD driver without keys for Ceph; set rbd with pool and cephSecretRef, or set driver to another driver"),
    validation = Rule::new("!has(self.driver) || self.driver == 'cinder.volume.drivers.rbd.RBDDriver' || !(has(self.backend) || has(self.rbd) || has(self.rbdPool) || has(self.rbdUser) || has(self.cephSecretRef))")
        .message("is set up for Ceph, but driver is not the RBD driver; remove driver, or remove backend and rbd and set the driver's options in extraConfig, section of the backend's name")
)]
pub struct CinderBackend {
    /// Name of the backend, of its section in `cinder.conf` and of its volume type.
    #[schemars(length(min = 1, max = 40), regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))]
    #[x_kube(validation = Rule::new("!(self in ['backend', 'barbican', 'coordination', 'cors', 'database', 'fc-zone-manager', 'healthcheck', 'nova', 'privsep', 'profiler', 'ssl', 'vault'])")
        .message("is a section of cinder.conf with another meaning; name the backend after its storage, such as ceph-rbd"))]
    pub name: String,
    /// Python class of the driver; `cinder.volume.drivers.rbd.RBDDriver` when absent. Options of other drivers go to
    /// `extraConfig`, in the section of the backend's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253), regex(pattern = r"^[A-Za-z_][A-Za-z0-9_]*([.][A-Za-z_][A-Za-z0-9_]*)+$"))]
    pub driver: Option<String>,
    /// The driver by a short name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backend: Option<CinderDriver>,
    /// The Ceph pool; for the RBD driver, which needs it. The pool is `volumes` when it is not named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rbd: Option<CephRbd>,
}

impl CinderBackend {
    /// Python class of the driver.
    pub fn driver(&self) -> &str {
        self.driver.as_deref().unwrap_or(RBD_DRIVER)
    }
}

/// Drivers that have a short name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CinderDriver {
    /// `cinder.volume.drivers.rbd.RBDDriver`.
    Rbd,
}

/// What the operator observed. Its conditions are Ready, DependenciesReady, SecretsReady, DatabaseReady,
/// MessagingReady, KeystoneAuthReady, CephConnected, ConfigReady, DeploymentReady, APIReady, SchedulerReady, VolumeReady.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct CinderStatus {
    /// What every service's status has.
    #[serde(flatten)]
    pub service: ServiceStatus,
    /// The backends, and how they are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub backends: Vec<CinderBackendStatus>,
}

/// How a backend is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct CinderBackendStatus {
    /// Name of the backend.
    #[schemars(length(min = 1, max = 40))]
    pub name: String,
    /// `Ready`, or what keeps it from being so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 316))]
    pub status: Option<String>,
    /// Free space in GiB, as the scheduler sees it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub available_capacity_gb: Option<i64>,
    /// `CephConnected` of a backend with a Ceph pool: whether the pool can be used, and why not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

service_object! {
    Cinder, "cinder", api: "spec.api", longest_name: LONGEST_NAME, |spec| {
        replicas: spec.api_replicas(),
        resources: spec.api.as_ref()?.resources.as_ref(),
        scheduling: spec.api.as_ref()?.scheduling.as_ref(),
        plugins: &spec.plugins,
        middleware: &spec.middleware,
        public_endpoint: spec.public_endpoint.as_ref(),
    }
}

impl Rules for Cinder {
    const ALIASES: &'static [Alias] = keystone_aliases![
        alias("replicas.api", "api.replicas"),
        alias("replicas.scheduler", "scheduler.replicas"),
        alias("replicas.volume", "volume.replicas"),
        alias("database.name", "database.database"),
        alias("backends[].rbdPool", "backends[].rbd.pool"),
        alias("backends[].rbdUser", "backends[].rbd.user"),
        alias("backends[].cephSecretRef", "backends[].rbd.cephSecretRef"),
    ];

    fn problems(&self) -> Vec<Problem> {
        service_mistakes(self)
    }
}
