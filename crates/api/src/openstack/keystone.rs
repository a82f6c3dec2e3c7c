//! Keystone: who is who, and who may do what.

use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use super::{LONGEST_NAME, keeps_schema, service_mistakes, service_object};
use crate::alias::{Alias, alias};
use crate::blocks::{
    Cache, CronSchedule, Database, DeletionPolicy, DependsOn, Exposure, ExtraConfig, FernetKeys, HttpUrl, Image,
    Middleware, Operations, Plugin, PolicyOverrides, Region, Replicas, Resources, Scheduling, SecretKeyRef,
    SecretStoreRef, ServiceStatus, Tls,
};
use crate::catalog::Rules;
use crate::{Problem, problem};

/// A Keystone: the identity API, its database, its token keys and its first administrator.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "keystone.openstack.c5c3.io",
    version = "v1alpha1",
    kind = "Keystone",
    plural = "keystones",
    namespaced,
    status = "KeystoneStatus",
    derive = "PartialEq",
    shortname = "ks",
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
#[x_kube(validation = keeps_schema!("keystone"))]
pub struct KeystoneSpec {
    /// How many API pods run.
    #[serde(default = "three")]
    pub replicas: Replicas,
    /// The image; when absent that of the version that is installed, or of the operator's OpenStack release for a new object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<Image>,
    /// Where identities are stored; schema `keystone` on the MariaDB object `mariadb`, with the account of the Secret
    /// `keystone-db-credentials`, when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub database: Option<Database>,
    /// Where tokens are cached; the Memcached object `memcached` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache: Option<Cache>,
    /// The keys that tokens are made with.
    #[serde(default)]
    pub fernet: Fernet,
    /// The keys that stored credentials are encrypted with; rotated every three months when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credential_keys: Option<CredentialKeys>,
    /// Where both sets of keys are backed up to; the ClusterSecretStore `openbao-cluster-store`, if it is there, when
    /// absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_store_ref: Option<SecretStoreRef>,
    /// Signing in through other identity providers; off when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub federation: Option<Federation>,
    /// The first administrator; `admin` in region `RegionOne`, with the password of the Secret
    /// `keystone-admin-credentials`, when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bootstrap: Option<Bootstrap>,
    /// TLS on the API; off when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<Tls>,
    /// How the API is reached and scaled.
    #[serde(flatten)]
    pub exposure: Exposure,
    /// CPU and memory of each pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<Resources>,
    /// The nodes that the pods are scheduled to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduling: Option<Scheduling>,
    /// Policies that replace Keystone's own.
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
    /// Raw options of `keystone.conf` by section.
    #[serde(default, skip_serializing_if = "ExtraConfig::is_empty")]
    #[schemars(extend("maxProperties" = 128))]
    pub extra_config: ExtraConfig,
    /// How the service is run.
    #[serde(flatten)]
    pub operations: Operations,
    /// What must be ready before Keystone starts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub depends_on: Vec<DependsOn>,
    /// What becomes of both sets of keys when the Keystone is deleted. The database stays in any case: without the keys
    /// the credentials in it cannot be decrypted.
    #[serde(default)]
    pub deletion_policy: DeletionPolicy,
}

fn three() -> Replicas {
    Replicas::new(3).expect("3 is in range")
}

/// The keys that tokens are encrypted with, and their rotation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Fernet {
    /// When a new key is made.
    #[serde(default = "weekly")]
    pub rotation_schedule: CronSchedule,
    /// How many keys are kept. A token outlives as many rotations as there are keys, less two; a key that valid tokens
    /// may have been made with is kept beyond this number.
    #[serde(default = "three_keys")]
    pub max_active_keys: FernetKeys,
}

impl Default for Fernet {
    fn default() -> Self {
        Self { rotation_schedule: weekly(), max_active_keys: three_keys() }
    }
}

fn weekly() -> CronSchedule {
    CronSchedule::new("0 0 * * 0").expect("a weekly schedule parses")
}

fn three_keys() -> FernetKeys {
    FernetKeys::new(3).expect("3 is in range")
}

/// The keys that stored credentials (EC2, TOTP) are encrypted with, and their rotation. There are always three at most:
/// everything is re-encrypted after each rotation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct CredentialKeys {
    /// When a new key is made.
    #[serde(default = "quarterly")]
    pub rotation_schedule: CronSchedule,
}

impl Default for CredentialKeys {
    fn default() -> Self {
        Self { rotation_schedule: quarterly() }
    }
}

fn quarterly() -> CronSchedule {
    CronSchedule::new("0 0 1 1,4,7,10 *").expect("a quarterly schedule parses")
}

/// Signing in through other identity providers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Federation {
    /// Whether it is on.
    #[serde(default)]
    pub enabled: bool,
    /// Dashboards that may receive a token after a web sign-on, as URLs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    pub trusted_dashboards: Vec<HttpUrl>,
}

/// The first administrator, and the region the identity endpoints are registered in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Bootstrap {
    /// Name of the administrator. Renaming would leave the old one behind with its password.
    #[serde(default = "admin")]
    #[schemars(length(min = 1, max = 255))]
    #[x_kube(validation = Rule::new("self == oldSelf").message("cannot be changed; keep the old name and create another administrator in Keystone"))]
    pub admin_user: String,
    /// The administrator's password; `keystone-admin-credentials`, key `password`, when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub admin_password_secret_ref: Option<SecretKeyRef>,
    /// Region of the identity endpoints.
    #[serde(default)]
    #[x_kube(validation = Rule::new("self == oldSelf").message("cannot be changed; every endpoint of the catalog is registered in it"))]
    pub region: Region,
    /// The URL that clients outside the cluster reach the API at, registered as the public endpoint; that of the gateway, or
    /// the one within the cluster, when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub public_endpoint: Option<HttpUrl>,
}

impl Default for Bootstrap {
    fn default() -> Self {
        Self { admin_user: admin(), admin_password_secret_ref: None, region: Region::default(), public_endpoint: None }
    }
}

fn admin() -> String {
    "admin".into()
}

/// What the operator observed. Its conditions are Ready, Progressing, Degraded, SecretsReady, DependenciesReady,
/// FernetKeysReady, DatabaseReady, ConfigReady, DeploymentReady, BootstrapReady, KeystoneAPIReady.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct KeystoneStatus {
    /// What every service's status has.
    #[serde(flatten)]
    pub service: ServiceStatus,
}

// The longest of its names is that of the CronJob `<name>-credential-rotate`.
service_object! {
    Keystone, "keystone", api: "spec", longest_name: LONGEST_NAME - "-credential-rotate".len(), |spec| {
        replicas: spec.replicas.get(),
        resources: spec.resources.as_ref(),
        scheduling: spec.scheduling.as_ref(),
        plugins: &spec.plugins,
        middleware: &spec.middleware,
        public_endpoint: spec.bootstrap.as_ref()?.public_endpoint.as_ref(),
    }
}

impl Rules for Keystone {
    const ALIASES: &'static [Alias] = &[alias("database.name", "database.database")];

    fn problems(&self) -> Vec<Problem> {
        let mut found = service_mistakes(self);
        let federation = self.spec.federation.as_ref();
        if federation.is_some_and(|federation| federation.enabled) {
            found.push(problem(
                "spec.federation.enabled",
                "is not supported: there is no front end for OpenID Connect or SAML yet, so federated sign-in would fail",
                "set it to false",
            ));
        } else if federation.is_some_and(|federation| !federation.trusted_dashboards.is_empty()) {
            found.push(problem(
                "spec.federation.trustedDashboards",
                "has no effect while federation is off",
                "remove the list",
            ));
        }
        found
    }
}
