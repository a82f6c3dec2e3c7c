//! Glance: images, and where their bytes are.

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{LONGEST_NAME, keeps_schema, keystone_aliases, service_mistakes, service_object};
use crate::Problem;
use crate::alias::{Alias, alias};
use crate::blocks::{
    Cache, CephRbd, Database, DeletionPolicy, DependsOn, Exposure, ExtraConfig, HttpUrl, Image, KeystoneAuth,
    Middleware, ObjectName, Operations, Plugin, PolicyOverrides, Replicas, Resources, Scheduling, ServiceStatus, Size,
    Tls,
};
use crate::catalog::Rules;

/// A Glance: the image API, its database and the store that holds the images.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "glance.openstack.c5c3.io",
    version = "v1alpha1",
    kind = "Glance",
    plural = "glances",
    namespaced,
    status = "GlanceStatus",
    derive = "PartialEq",
    shortname = "gla",
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
#[x_kube(
    validation = keeps_schema!("glance"),
    validation = Rule::new("self.replicas <= 1 || !has(self.storage) || self.storage.backend != 'file' || (has(self.storage.file) && self.storage.file.accessMode == 'ReadWriteMany')")
        .message("has several replicas on a volume that one node at a time can mount; set replicas to 1, or storage.file.accessMode to ReadWriteMany")
        .field_path(".replicas"),
    validation = Rule::new("!has(self.autoscaling) || self.autoscaling.maxReplicas <= 1 || !has(self.storage) || self.storage.backend != 'file' || (has(self.storage.file) && self.storage.file.accessMode == 'ReadWriteMany')")
        .message("adds replicas on a volume that one node at a time can mount; remove autoscaling, or set storage.file.accessMode to ReadWriteMany")
        .field_path(".autoscaling")
)]
pub struct GlanceSpec {
    /// How many API pods run.
    #[serde(default = "two")]
    pub replicas: Replicas,
    /// The image; when absent that of the version that is installed, or of the operator's OpenStack release for a new object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<Image>,
    /// Where image records are stored; schema `glance` on the MariaDB object `mariadb`, with the account of the Secret
    /// `glance-db-credentials`, when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub database: Option<Database>,
    /// How Glance authenticates; with the Secret `glance-keystone-credentials` at the object `keystone` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keystone: Option<KeystoneAuth>,
    /// Where the images are; the Ceph pool `images`, with the keys of the Secret `glance-ceph-credentials`, when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage: Option<GlanceStorage>,
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
    /// Policies that replace Glance's own.
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
    /// Raw options of `glance-api.conf` by section.
    #[serde(default, skip_serializing_if = "ExtraConfig::is_empty")]
    #[schemars(extend("maxProperties" = 128))]
    pub extra_config: ExtraConfig,
    /// How the service is run.
    #[serde(flatten)]
    pub operations: Operations,
    /// What must be ready before Glance starts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub depends_on: Vec<DependsOn>,
    /// What becomes of the database and of the volume with images when the Glance is deleted. Images in a Ceph pool stay in
    /// any case.
    #[serde(default)]
    pub deletion_policy: DeletionPolicy,
}

fn two() -> Replicas {
    Replicas::new(2).expect("2 is in range")
}

/// The store that holds the images.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("self.backend != 'rbd' || has(self.rbd)")
        .message("has backend rbd without a pool; set rbd with pool and cephSecretRef, or set backend to file"),
    validation = Rule::new("self.backend == 'rbd' || !has(self.rbd)")
        .message("sets rbd, but backend is file; remove rbd, or set backend to rbd"),
    validation = Rule::new("self.backend == 'file' || !has(self.file)")
        .message("sets file, but backend is rbd; remove file, or set backend to file")
)]
pub struct GlanceStorage {
    /// The kind of store: `rbd` for a Ceph pool, `file` for a volume, as on one machine without Ceph. Images do not
    /// move when it changes.
    #[serde(default)]
    pub backend: GlanceBackend,
    /// The Ceph pool; for backend `rbd`, which needs it. The pool is `images` when it is not named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rbd: Option<CephRbd>,
    /// The volume; for backend `file`. 20Gi of the default storage class when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<GlanceVolume>,
}

/// The kinds of image store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum GlanceBackend {
    /// A pool of a Ceph cluster.
    #[default]
    Rbd,
    /// Files on a persistent volume.
    File,
}

/// A persistent volume for images.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("quantity(self.size).compareTo(quantity(oldSelf.size)) >= 0")
        .message("shrinks the volume, which Kubernetes cannot; keep the old size or a larger one")
        .field_path(".size"),
    validation = Rule::new("has(self.storageClass) == has(oldSelf.storageClass) && (!has(self.storageClass) || self.storageClass == oldSelf.storageClass)")
        .message("changes the storage class of a volume that exists; keep the old one")
        .field_path(".storageClass")
)]
pub struct GlanceVolume {
    /// Size of the volume.
    #[serde(default = "twenty_gib")]
    pub size: Size,
    /// Its storage class; the cluster's default class when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage_class: Option<ObjectName>,
    /// Access mode: whether one node or all nodes can mount it at a time. Several replicas need `ReadWriteMany`.
    #[serde(default)]
    #[x_kube(validation = Rule::new("self == oldSelf").message("cannot be changed on a volume that exists; keep the old one"))]
    pub access_mode: VolumeAccess,
}

impl Default for GlanceVolume {
    fn default() -> Self {
        Self { size: twenty_gib(), storage_class: None, access_mode: VolumeAccess::default() }
    }
}

fn twenty_gib() -> Size {
    Size::new("20Gi").expect("20Gi is a size")
}

/// Access mode of a volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum VolumeAccess {
    /// The pods of one node.
    #[default]
    ReadWriteOnce,
    /// All pods.
    ReadWriteMany,
}

/// What the operator observed. Its conditions are Ready, DependenciesReady, SecretsReady, DatabaseReady, CephConnected,
/// ConfigReady, DeploymentReady.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct GlanceStatus {
    /// What every service's status has.
    #[serde(flatten)]
    pub service: ServiceStatus,
}

service_object! {
    Glance, "glance", api: "spec", longest_name: LONGEST_NAME, |spec| {
        replicas: spec.replicas.get(),
        resources: spec.resources.as_ref(),
        scheduling: spec.scheduling.as_ref(),
        plugins: &spec.plugins,
        middleware: &spec.middleware,
        public_endpoint: spec.public_endpoint.as_ref(),
    }
}

impl Rules for Glance {
    const ALIASES: &'static [Alias] = keystone_aliases![alias("database.name", "database.database")];

    fn problems(&self) -> Vec<Problem> {
        service_mistakes(self)
    }
}
