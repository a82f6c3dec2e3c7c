//! Cortex: the scheduler service itself.

use c5c3_cortex as engine;
use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use crate::alias::{Alias, alias};
use crate::blocks::{
    Condition, DatabaseName, DatabaseTls, DependencyKind, DependsOn, Host, HttpUrl, Image, KeystoneAuth, LocalRef,
    NamespacedRef, Port, Replicas, Resources, Scheduling, SecretRef, ServerTls, WaitStatus,
};
use crate::catalog::{Rules, problem};
use crate::openstack::{keeps_schema, keystone_aliases, mistakes};
use crate::{Problem, blocks};

/// A Cortex: the scheduler service, its database, the pipelines it runs and the data they are fed with.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "cortex.c5c3.io",
    version = "v1alpha1",
    kind = "Cortex",
    plural = "cortexes",
    namespaced,
    status = "CortexStatus",
    derive = "PartialEq",
    shortname = "ctx",
    category = "c5c3",
    scale(
        spec_replicas_path = ".spec.replicas",
        status_replicas_path = ".status.replicas",
        label_selector_path = ".status.selector"
    ),
    printcolumn(name = "Ready", type_ = "string", json_path = ".status.conditions[?(@.type=='Ready')].status"),
    printcolumn(name = "Reason", type_ = "string", json_path = ".status.conditions[?(@.type=='Ready')].reason"),
    printcolumn(name = "Pipelines", type_ = "string", json_path = ".status.activePipelines"),
    printcolumn(name = "Endpoint", type_ = "string", json_path = ".status.endpoint"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = keeps_schema!("cortex"))]
pub struct CortexSpec {
    /// How many pods run.
    #[serde(default = "two")]
    pub replicas: Replicas,
    /// The image, which has the program `c5c3`; the one of the operator when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<Image>,
    /// Secrets with credentials for the registries that images are pulled from, of type `kubernetes.io/dockerconfigjson`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub image_pull_secrets: Vec<LocalRef>,
    /// The PostgreSQL database for what datasources deliver; none when absent: decisions are kept as Decision objects. This
    /// version reads no datasources, and refuses a database with `DatabaseReady`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub database: Option<CortexDatabase>,
    /// How datasources authenticate; with the Secret `cortex-app-credential-secret` at the object `keystone` when absent. The
    /// scheduler itself calls no service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keystone: Option<KeystoneAuth>,
    /// What Cortex decides on; nothing when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pipelines: Option<CortexPipelines>,
    /// What Cortex knows beside what comes with each request and what Hypervisor objects tell. This version reads none, and
    /// refuses one that is enabled with `ConfigReady`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub datasources: Option<CortexDatasources>,
    /// TLS on the API; off when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<ServerTls>,
    /// CPU and memory of each pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<Resources>,
    /// The nodes that the pods are scheduled to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduling: Option<Scheduling>,
    /// What must be ready before Cortex starts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub depends_on: Vec<DependsOn>,
}

fn two() -> Replicas {
    Replicas::new(2).expect("2 is in range")
}

/// A database on a PostgreSQL server, and the Secret with the account for it (keys `username`, `password`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("!has(self.clusterRef) || !has(self.host)")
        .message("has both clusterRef and host; set clusterRef for a CloudNativePG cluster, or host for a server of yours"),
    validation = Rule::new("!has(self.port) || has(self.host)").message("sets port without host; set host, or remove port")
)]
pub struct CortexDatabase {
    /// The CloudNativePG Cluster object that holds the database.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_ref: Option<NamespacedRef>,
    /// A server that exists already; `postgresql` when neither this nor `clusterRef` is set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<Host>,
    /// Port of that server; 5432 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<Port>,
    /// Name of the database; `cortex` when absent. It cannot be changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub database: Option<DatabaseName>,
    /// Secret with `username` and `password`; `cortex-db-credentials` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<SecretRef>,
    /// Encryption of the connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<DatabaseTls>,
}

/// What Cortex decides on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct CortexPipelines {
    /// Scheduling of servers to hosts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nova: Option<CortexPipeline>,
    /// Scheduling of volumes to backends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cinder: Option<CortexPipeline>,
}

/// The steps of a decision: filters leave candidates out, weighers put the rest in order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct CortexPipeline {
    /// Whether Cortex decides.
    #[serde(default = "blocks::yes")]
    pub enabled: bool,
    /// The filters, in order; Cortex's own when absent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub filters: Vec<CortexFilter>,
    /// The weighers; Cortex's own when absent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub weighers: Vec<CortexWeigher>,
}

impl Default for CortexPipeline {
    fn default() -> Self {
        Self { enabled: true, filters: Vec::new(), weighers: Vec::new() }
    }
}

/// A filter of a pipeline.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct CortexFilter {
    /// Name of the filter, in Nova's spelling (`AvailabilityZoneFilter`) or Cortex's (`filter_correct_az`).
    #[schemars(length(min = 1, max = 128), regex(pattern = r"^[A-Za-z][A-Za-z0-9_]*$"))]
    pub name: String,
}

/// A weigher of a pipeline.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct CortexWeigher {
    /// Name of the weigher, in Nova's spelling (`RAMWeigher`) or Cortex's (`weigher_general_purpose_balancing`).
    #[schemars(length(min = 1, max = 128), regex(pattern = r"^[A-Za-z][A-Za-z0-9_]*$"))]
    pub name: String,
    /// How much it counts beside the others; a negative weight turns its order around.
    #[serde(default = "one")]
    #[schemars(range(min = -1_000_000.0, max = 1_000_000.0))]
    pub weight: f64,
}

fn one() -> f64 {
    1.0
}

/// What Cortex knows, and from where.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct CortexDatasources {
    /// Measurements of hosts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prometheus: Option<CortexDatasource>,
    /// Servers, flavors and hypervisors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nova: Option<CortexDatasource>,
    /// Volumes and pools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cinder: Option<CortexDatasource>,
}

/// A source of data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("!self.enabled || has(self.endpoint)")
    .message("is enabled without an endpoint; set endpoint to its address, or enabled to false"))]
pub struct CortexDatasource {
    /// Whether it is read.
    #[serde(default = "blocks::yes")]
    pub enabled: bool,
    /// Its address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<HttpUrl>,
}

/// What the operator observed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct CortexStatus {
    /// Ready, DependenciesReady, SecretsReady, DatabaseReady, ConfigReady, DeploymentReady, PipelinesReady.
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
    /// The pipelines that decide now.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), inner(length(max = 128)), extend("x-kubernetes-list-type" = "set"))]
    pub active_pipelines: Vec<String>,
    /// How many pods there are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// Selector of the pods, for autoscalers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub selector: Option<String>,
}

impl Rules for Cortex {
    const ALIASES: &'static [Alias] = keystone_aliases![alias("database.name", "database.database")];

    fn problems(&self) -> Vec<Problem> {
        let mut problems =
            mistakes(DependencyKind::Cortex, &self.metadata, &self.spec.depends_on, &blocks::ExtraConfig::default());
        problems.extend(self.spec.pipelines.iter().flat_map(CortexPipelines::problems));
        problems
    }
}

impl CortexPipelines {
    /// Steps that no scheduler knows, each with the nearest that one does.
    pub fn problems(&self) -> Vec<Problem> {
        let each = [(engine::Domain::Nova, &self.nova), (engine::Domain::Cinder, &self.cinder)];
        each.into_iter().filter_map(|(domain, one)| Some(one.as_ref()?.problems(domain))).flatten().collect()
    }
}

impl CortexPipeline {
    /// Steps that no scheduler knows, each with the nearest that one does.
    fn problems(&self, domain: engine::Domain) -> Vec<Problem> {
        let filters = self.filters.iter().map(|filter| engine::StepSpec::new(&filter.name));
        let weighers = self.weighers.iter().map(|one| engine::StepSpec::new(&one.name).multiplier(one.weight));
        let spec = engine::PipelineSpec {
            filters: filters.collect(),
            weighers: weighers.collect(),
            ..engine::PipelineSpec::new(domain.as_str(), domain)
        };
        let wrong = engine::Pipeline::compile(&spec).err().into_iter().flatten();
        wrong.map(|wrong| problem(format!("spec.pipelines.{domain}.{}", wrong.path), wrong.what, wrong.fix)).collect()
    }
}
