//! The services of a ControlPlane: which run, how many of each, and the few settings that are worth having in one place.
//!
//! These are not the services' own specs: further fields are set in the service's template.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Template;
use crate::blocks::{Duration, FernetKeys, HttpUrl, PolicyOverrides, Replicas, SecretRef};

/// The OpenStack services. One that is left out is not run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Services {
    /// Identity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keystone: Option<KeystoneService>,
    /// Images.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub glance: Option<GlanceService>,
    /// Resource inventory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement: Option<PlacementService>,
    /// Compute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nova: Option<NovaService>,
    /// Networking.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub neutron: Option<NeutronService>,
    /// Block storage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cinder: Option<CinderService>,
}

/// How many pods a component has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Component {
    /// How many pods; each component has its own default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<Replicas>,
}

/// Keystone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct KeystoneService {
    /// Whether Keystone runs. When it is set to false, its data is retained until it is set to true again; that needs a
    /// spec.deletionPolicy other than `Delete`.
    #[serde(default = "crate::blocks::yes")]
    pub enabled: bool,
    /// How many API pods. 3 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<Replicas>,
    /// The URL that clients outside the cluster reach the API at. By `spec.global.publicDomain` when absent, or else the one
    /// within the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub public_endpoint: Option<HttpUrl>,
    /// The keys that tokens are made with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fernet: Option<FernetRotation>,
    /// Policies that replace Keystone's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy_overrides: Option<PolicyOverrides>,
    /// Fields of the Keystone object that a ControlPlane has none for, as its spec has them.
    #[serde(default, skip_serializing_if = "Template::is_empty")]
    pub template: Template,
}

/// How often token keys are rotated, and how many are kept.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct FernetRotation {
    /// How many keys are kept. 3 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_active_keys: Option<FernetKeys>,
    /// Time between two rotations: whole hours below a day, or whole days, such as 24h or 168h. 168h when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rotation_interval: Option<Duration>,
}

/// Glance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct GlanceService {
    /// Whether it runs.
    #[serde(default = "crate::blocks::yes")]
    pub enabled: bool,
    /// How many API pods. 2 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<Replicas>,
    /// Where images are stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backend: Option<ImageBackend>,
    /// The URL that clients outside the cluster reach the API at, without its version. By `spec.global.publicDomain` when
    /// absent, or else the one within the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub public_endpoint: Option<HttpUrl>,
    /// Policies that replace Glance's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy_overrides: Option<PolicyOverrides>,
    /// Fields of the Glance object that a ControlPlane has none for, as its spec has them.
    #[serde(default, skip_serializing_if = "Template::is_empty")]
    pub template: Template,
}

/// Where Glance stores images.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("self.type == 'rbd' || !has(self.pool)").message("sets pool without type rbd; remove pool, or set type to rbd"))]
pub struct ImageBackend {
    /// What kind of store.
    pub r#type: ImageStore,
    /// The Ceph pool; `images` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128), regex(pattern = r"^[A-Za-z0-9._-]+$"))]
    pub pool: Option<String>,
}

/// The kinds of image store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ImageStore {
    /// A Ceph pool.
    Rbd,
    /// A volume of the API pod.
    File,
}

/// Placement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlacementService {
    /// Whether it runs.
    #[serde(default = "crate::blocks::yes")]
    pub enabled: bool,
    /// How many API pods. 2 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<Replicas>,
    /// The URL that clients outside the cluster reach the API at, without its version. By `spec.global.publicDomain` when
    /// absent, or else the one within the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub public_endpoint: Option<HttpUrl>,
    /// Policies that replace Placement's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy_overrides: Option<PolicyOverrides>,
    /// Fields of the Placement object that a ControlPlane has none for, as its spec has them.
    #[serde(default, skip_serializing_if = "Template::is_empty")]
    pub template: Template,
}

/// Nova.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct NovaService {
    /// Whether it runs.
    #[serde(default = "crate::blocks::yes")]
    pub enabled: bool,
    /// The API. 3 replicas when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api: Option<Component>,
    /// The scheduler. 2 replicas when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduler: Option<Component>,
    /// The conductor. 2 replicas when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conductor: Option<Component>,
    /// Graphical consoles of servers; none when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub console: Option<ConsoleProxy>,
    /// The URL that clients outside the cluster reach the API at, without its version. By `spec.global.publicDomain` when
    /// absent, or else the one within the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub public_endpoint: Option<HttpUrl>,
    /// Policies that replace Nova's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy_overrides: Option<PolicyOverrides>,
    /// Fields of the Nova object that a ControlPlane has none for, as its spec has them.
    #[serde(default, skip_serializing_if = "Template::is_empty")]
    pub template: Template,
}

/// The proxy that shows the screens of servers in a browser.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConsoleProxy {
    /// How many pods. 1 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<Replicas>,
    /// The URL that browsers reach it at. `https://console.` and `spec.global.publicDomain` when absent, or else the one within
    /// the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub public_endpoint: Option<HttpUrl>,
}

/// Neutron.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct NeutronService {
    /// Whether it runs.
    #[serde(default = "crate::blocks::yes")]
    pub enabled: bool,
    /// The API. 3 replicas when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api: Option<Component>,
    /// The URL that clients outside the cluster reach the API at, without its version. By `spec.global.publicDomain` when
    /// absent, or else the one within the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub public_endpoint: Option<HttpUrl>,
    /// Policies that replace Neutron's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy_overrides: Option<PolicyOverrides>,
    /// Fields of the Neutron object that a ControlPlane has none for, as its spec has them.
    #[serde(default, skip_serializing_if = "Template::is_empty")]
    pub template: Template,
}

/// Cinder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct CinderService {
    /// Whether it runs.
    #[serde(default = "crate::blocks::yes")]
    pub enabled: bool,
    /// The API. 2 replicas when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api: Option<Component>,
    /// The scheduler. 2 replicas when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduler: Option<Component>,
    /// The volume service, per backend. 1 replica when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume: Option<Component>,
    /// Where volumes are stored; one backend on the `volumes` pool when absent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub backends: Vec<VolumeBackend>,
    /// The URL that clients outside the cluster reach the API at, without its version. By `spec.global.publicDomain` when
    /// absent, or else the one within the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub public_endpoint: Option<HttpUrl>,
    /// Policies that replace Cinder's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy_overrides: Option<PolicyOverrides>,
    /// Fields of the Cinder object that a ControlPlane has none for, as its spec has them.
    #[serde(default, skip_serializing_if = "Template::is_empty")]
    pub template: Template,
}

/// One place where volumes are stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct VolumeBackend {
    /// Name of the backend, and of its volume type.
    #[schemars(length(min = 1, max = 63), regex(pattern = r"^[A-Za-z0-9._-]+$"))]
    pub name: String,
    /// What kind of store.
    pub r#type: VolumeStore,
    /// The Ceph pool; `volumes` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128), regex(pattern = r"^[A-Za-z0-9._-]+$"))]
    pub pool: Option<String>,
    /// Secret with the Ceph key; the one of `storage.ceph` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<SecretRef>,
}

/// The kinds of volume store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum VolumeStore {
    /// A Ceph pool.
    Rbd,
}
