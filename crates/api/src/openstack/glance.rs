//! Glance: images, and where their bytes are.

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{LONGEST_NAME, keeps_schema, keystone_aliases, service_mistakes, service_object};

use crate::alias::{Alias, alias};
use crate::blocks::{
    Cache, CephRbd, Database, DeletionPolicy, DependsOn, Exposure, ExtraConfig, HttpUrl, Image, KeystoneAuth,
    Middleware, ObjectName, Operations, Plugin, PolicyOverrides, Replicas, Resources, Scheduling, ServiceStatus, Size,
    Tls,
};
use crate::catalog::Rules;
use crate::{Problem, problem};

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
    /// Where the images are stored; the Ceph pool `images`, with the keys of the Secret `glance-ceph-credentials`, when absent.
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

/// The stores that hold the images.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("self.backend != 'rbd' || has(self.rbd)")
        .message("has backend rbd without a pool; set rbd with pool and cephSecretRef, or set backend to file or s3"),
    validation = Rule::new("self.backend != 's3' || has(self.s3)")
        .message("has backend s3 without a bucket; set s3 with endpoint, bucket and secretRef, or set backend to rbd or file"),
    validation = Rule::new("self.backend == 'rbd' || !has(self.rbd)")
        .message("sets rbd, but backend is another; remove rbd, set backend to rbd, or put the pool among stores"),
    validation = Rule::new("self.backend == 'file' || !has(self.file)")
        .message("sets file, but backend is another; remove file, set backend to file, or put the volume among stores"),
    validation = Rule::new("self.backend == 's3' || !has(self.s3)")
        .message("sets s3, but backend is another; remove s3, set backend to s3, or put the bucket among stores")
)]
pub struct GlanceStorage {
    /// The kind of store that images go to unless a client names another: `rbd` for a Ceph pool, `file` for a volume, as on
    /// one machine without Ceph, `s3` for a bucket. It is the name of that store, too. Images do not move when it changes.
    #[serde(default)]
    pub backend: GlanceBackend,
    /// The Ceph pool; for backend `rbd`, which needs it. The pool is `images` when it is not named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rbd: Option<CephRbd>,
    /// The volume; for backend `file`. 20Gi of the default storage class when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<GlanceVolume>,
    /// The bucket; for backend `s3`, which needs it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub s3: Option<S3Bucket>,
    /// Further stores, which clients name: `openstack image create --store`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub stores: Vec<GlanceStore>,
    /// Copies of images in each pod, so that an image is read from its store once; none when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache: Option<ImageCache>,
    /// Space in each pod for images that are imported or converted; 20Gi when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub staging_size: Option<Size>,
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
    /// A bucket of an object store.
    S3,
}

impl GlanceBackend {
    /// The word of the spec, which is also the name of the store.
    pub fn name(self) -> &'static str {
        match self {
            Self::Rbd => "rbd",
            Self::File => "file",
            Self::S3 => "s3",
        }
    }
}

/// One more store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("(has(self.rbd) ? 1 : 0) + (has(self.file) ? 1 : 0) + (has(self.s3) ? 1 : 0) == 1")
        .message("is not exactly one kind of store; set one of rbd, file and s3")
)]
pub struct GlanceStore {
    /// Name of the store, by which images remember it: images of a store that is renamed are lost to Glance.
    #[schemars(length(min = 1, max = 40), regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))]
    #[x_kube(validation = Rule::new("!(self in ['rbd', 'file', 's3', 'barbican', 'cors', 'database', 'healthcheck', 'key-manager', 'profiler', 'task', 'vault', 'wsgi'])")
        .message("has another meaning already; name the store after its storage, such as archive"))]
    pub name: String,
    /// A Ceph pool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rbd: Option<CephRbd>,
    /// A volume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<GlanceVolume>,
    /// A bucket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub s3: Option<S3Bucket>,
}

/// A bucket of an object store that speaks S3, such as Ceph's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct S3Bucket {
    /// Where the object store answers.
    pub endpoint: HttpUrl,
    /// The bucket. It is made if it is not there.
    #[schemars(length(min = 3, max = 63), regex(pattern = r"^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$"))]
    pub bucket: String,
    /// The Secret with `AccessKey` and `SecretKey`, as Rook makes for a CephObjectStoreUser.
    pub secret_ref: S3SecretRef,
    /// The region that the bucket is made in; none when absent, for object stores without regions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63), regex(pattern = r"^[A-Za-z0-9-]+$"))]
    pub region: Option<String>,
}

/// The Secret of an object store's user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct S3SecretRef {
    /// Name of the Secret.
    pub name: ObjectName,
}

/// Copies of images in each pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImageCache {
    /// How much space they take after each pruning; those that were not read for the longest time go first. A node must have room
    /// for twice as much, because they grow in between. No image should be larger.
    pub size: Size,
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
/// ConfigReady, DeploymentReady, KeystoneAuthReady, APIReady.
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
        let mut problems = service_mistakes(self);
        problems.extend(self.spec.lonely_volumes());
        problems
    }
}

impl GlanceSpec {
    /// Further stores on volumes that one node at a time can mount, with several replicas.
    fn lonely_volumes(&self) -> Vec<Problem> {
        let scaled = self.exposure.autoscaling.as_ref().map_or(0, |autoscaling| autoscaling.max_replicas.get());
        if self.replicas.get().max(scaled) <= 1 {
            return Vec::new();
        }
        let stores = self.storage.iter().flat_map(|storage| &storage.stores);
        let lonely = |store: &&GlanceStore| {
            store.file.as_ref().is_some_and(|volume| volume.access_mode == VolumeAccess::ReadWriteOnce)
        };
        stores
            .filter(lonely)
            .map(|store| {
                problem(
                    format!("spec.storage.stores[{}].file", store.name),
                    "is a volume that one node at a time can mount, and there are several replicas",
                    "set accessMode to ReadWriteMany, or replicas to 1",
                )
            })
            .collect()
    }
}
