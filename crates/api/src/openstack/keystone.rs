//! Keystone: who is who, and who may do what.

use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use super::{keeps_schema, mistakes, unmeasured};
use crate::alias::{Alias, alias};
use crate::blocks::{
    Autoscaling, Cache, Condition, CronSchedule, Database, DeletionPolicy, DependencyKind, DependsOn, ExtraConfig,
    FernetKeys, GatewayRoute, HttpUrl, Image, Middleware, NetworkAccess, Plugin, PolicyOverrides, Region, Replicas,
    Resources, Scheduling, SecretKeyRef, SecretStoreRef, Tls, WaitStatus,
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
    printcolumn(name = "Endpoint", type_ = "string", json_path = ".status.endpoint"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = keeps_schema!("keystone"))]
pub struct KeystoneSpec {
    /// How many API pods run.
    #[serde(default = "three")]
    pub replicas: Replicas,
    /// The image; the one of the operator's OpenStack release when absent.
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
    /// A route of the Gateway API to it; none when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<GatewayRoute>,
    /// Who may reach the pods, and what they may reach; everybody reaches the API, and the pods what they need, when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network_policy: Option<NetworkAccess>,
    /// Pods that come and go with the load, in the place of a fixed number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub autoscaling: Option<Autoscaling>,
    /// CPU and memory of each pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<Resources>,
    /// Which nodes the pods go to.
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
    /// What must be ready before Keystone starts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub depends_on: Vec<DependsOn>,
    /// What becomes of both sets of keys when the Keystone is deleted. The database stays in any case: without the keys
    /// nobody can read the credentials in it.
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
/// everything is encrypted anew after each rotation.
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

/// What the operator observed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct KeystoneStatus {
    /// Ready, SecretsReady, FernetKeysReady, DatabaseReady, ConfigReady, DeploymentReady, BootstrapReady, KeystoneAPIReady.
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
    /// The version that runs, and that the database has the schema of; the last that was known while an image by digest,
    /// branch or commit runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub installed_release: Option<String>,
    /// The version that is being upgraded to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub target_release: Option<String>,
    /// How far an upgrade is: `Expanding` adds to the schema and replaces pods, `Contracting` removes what only the old
    /// version used, after which there is no way back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub upgrade_phase: Option<String>,
    /// How many API pods there are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// Selector of the API pods, for autoscalers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub selector: Option<String>,
}

impl Rules for Keystone {
    const ALIASES: &'static [Alias] = &[alias("database.name", "database.database")];

    fn problems(&self) -> Vec<Problem> {
        let mut found =
            mistakes(DependencyKind::Keystone, &self.metadata, &self.spec.depends_on, &self.spec.extra_config);
        found.extend(unmeasured(self.spec.autoscaling.as_ref(), self.spec.resources.as_ref()));
        let federation = self.spec.federation.as_ref();
        if federation.is_some_and(|federation| !federation.enabled && !federation.trusted_dashboards.is_empty()) {
            found.push(problem(
                "spec.federation.trustedDashboards",
                "is set while federation is off, so that nobody is sent there",
                "set spec.federation.enabled to true, or remove the list",
            ));
        }
        if self.spec.gateway.is_some() && self.spec.tls.as_ref().is_some_and(|tls| tls.enabled) {
            found.push(problem(
                "spec.gateway",
                "leads to pods that speak TLS, and a Gateway speaks plain HTTP to them",
                "set spec.tls.enabled to false and let the Gateway end TLS, or remove it and write a route with a \
                 BackendTLSPolicy of your own",
            ));
        }
        found
    }
}
