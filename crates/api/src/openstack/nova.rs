//! Nova: servers, the cells they live in, and the scheduler that finds them a host.

use std::collections::BTreeMap;

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::shared::replicas;
use super::{
    LONGEST_NAME, NovaCompute, NovaConsole, NovaStorage, keeps_schema, keystone_aliases, service_mistakes,
    service_object,
};
use crate::alias::{Alias, alias};
use crate::blocks::{
    Cache, Database, DatabaseName, DeletionPolicy, DependsOn, Duration, Exposure, ExtraConfig, HttpUrl, Image,
    KeystoneAuth, LocalRef, Messaging, Middleware, NamespacedRef, ObjectName, Operations, Plugin, PolicyOverrides,
    Port, SecretRef, ServiceStatus, Tls, Workload,
};
use crate::catalog::Rules;
use crate::{Problem, problem};

/// A Nova: the compute API, its schedulers and conductors, its databases and cells.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "nova.openstack.c5c3.io",
    version = "v1alpha1",
    kind = "Nova",
    plural = "novas",
    namespaced,
    status = "NovaStatus",
    derive = "PartialEq",
    shortname = "nov",
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
    validation = keeps_schema!("nova"),
    validation = keeps_api_schema!(),
    validation = Rule::new("!has(self.apiDatabase) || !has(self.database) || !has(self.database.apiDatabase)")
        .message("sets both apiDatabase and database.apiDatabase; set apiDatabase for a server or account of its own, or database.apiDatabase for a schema beside the others")
        .field_path(".apiDatabase")
)]
pub struct NovaSpec {
    /// The API pods; 3 replicas when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api: Option<Workload>,
    /// The scheduler pods; 2 replicas when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduler: Option<NovaScheduler>,
    /// The conductor pods; 2 replicas when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conductor: Option<Workload>,
    /// The image; when absent that of the version that is installed, or of the operator's OpenStack release for a new object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<Image>,
    /// Where servers are stored; schemas `nova`, `nova_api` and `nova_cell0` on the MariaDB object `mariadb`, with the
    /// account of the Secret `nova-db-credentials`, when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub database: Option<NovaDatabase>,
    /// Where flavors, quotas and the list of cells are stored, when that is another server or account than `database`:
    /// schema `nova_api`, account of the Secret `nova-api-db-credentials`. Either this or `database.apiDatabase`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_database: Option<Database>,
    /// The message queue; the RabbitmqCluster object `rabbitmq`, with the account of the Secret
    /// `nova-rabbitmq-credentials`, when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub messaging: Option<Messaging>,
    /// How Nova authenticates; with the Secret `nova-keystone-credentials` at the object `keystone` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keystone: Option<KeystoneAuth>,
    /// The users that Nova calls other services as; its own when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_auth: Option<ServiceAuth>,
    /// Groups of hypervisors with a database and a queue each; one cell `cell1` when absent. `cell0`, for servers that
    /// no host was found for, is always there and not listed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub cells: Vec<NovaCell>,
    /// Where the disks of servers are; files on their hypervisor when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage: Option<NovaStorage>,
    /// The nodes of this cluster that are hypervisors; when absent hypervisors are elsewhere, and get what they need from the
    /// Secrets `<name>-compute-<cell>`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compute: Option<NovaCompute>,
    /// Graphical consoles; none when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub console: Option<NovaConsole>,
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
    /// Policies that replace Nova's own.
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
    /// Raw options of `nova.conf` by section.
    #[serde(default, skip_serializing_if = "ExtraConfig::is_empty")]
    #[schemars(extend("maxProperties" = 128))]
    pub extra_config: ExtraConfig,
    /// How the service is run.
    #[serde(flatten)]
    pub operations: Operations,
    /// What must be ready before Nova starts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub depends_on: Vec<DependsOn>,
    /// What becomes of the databases when the Nova is deleted. Servers and their disks stay in any case.
    #[serde(default)]
    pub deletion_policy: DeletionPolicy,
}

/// The API schema's name as CEL finds it in one of its three places.
#[rustfmt::skip]
macro_rules! api_schema {
    ($spec:literal) => {
        concat!(
            "(has(", $spec, ".apiDatabase) && has(", $spec, ".apiDatabase.database) ? ", $spec, ".apiDatabase.database : ",
            "has(", $spec, ".apiDatabase) && has(", $spec, ".apiDatabase.name) ? ", $spec, ".apiDatabase.name : ",
            "has(", $spec, ".database) && has(", $spec, ".database.apiDatabase) ? ", $spec, ".database.apiDatabase : 'nova_api')"
        )
    };
}
use api_schema;

macro_rules! keeps_api_schema {
    () => {
        Rule::new(concat!(api_schema!("self"), " == ", api_schema!("oldSelf")))
            .message("changes the API database's name (nova_api when absent), and with it all cells and quotas; keep the old name, or create a new object and migrate")
            .field_path(".apiDatabase")
    };
}
use keeps_api_schema;

/// The cell that lives in `spec.database`, and the only one when none is listed.
pub const MAIN_CELL: &str = "cell1";

impl NovaSpec {
    /// How many API pods run.
    pub fn api_replicas(&self) -> i32 {
        replicas(self.api.as_ref(), 3)
    }

    /// How many scheduler pods run.
    pub fn scheduler_replicas(&self) -> i32 {
        replicas(self.scheduler.as_ref().map(|scheduler| &scheduler.workload), 2)
    }

    /// How many conductor pods run.
    pub fn conductor_replicas(&self) -> i32 {
        replicas(self.conductor.as_ref(), 2)
    }

    /// How many proxies of consoles run.
    pub fn console_replicas(&self) -> i32 {
        replicas(self.console.as_ref().map(|console| &console.workload), 1)
    }

    /// The database of `cell1`.
    pub fn main_database(&self) -> Database {
        let server = self.server();
        let name = server.database.clone().unwrap_or_else(|| schema("nova"));
        Database { database: Some(name), ..server }
    }

    /// The database of flavors, quotas and the list of cells.
    pub fn api_database(&self) -> Database {
        if let Some(own) = &self.api_database {
            let secret = || ObjectName::new("nova-api-db-credentials").expect("it is a name");
            return Database {
                database: Some(own.database.clone().unwrap_or_else(|| schema("nova_api"))),
                secret_ref: Some(own.secret_ref.clone().unwrap_or_else(|| SecretRef { name: secret(), key: None })),
                ..own.clone()
            };
        }
        let name = self.database.as_ref().and_then(|database| database.api_database.clone());
        Database { database: Some(name.unwrap_or_else(|| schema("nova_api"))), ..self.server() }
    }

    /// The database of servers that no host was found for.
    pub fn cell0_database(&self) -> Database {
        let name = self.database.as_ref().and_then(|database| database.cell_database.clone());
        Database { database: Some(name.unwrap_or_else(|| schema("nova_cell0"))), ..self.server() }
    }

    /// The database of a cell: the main one for `cell1`, a schema `nova_<cell>` on the same server for others, unless
    /// the cell has its own. It goes by the name and not by the place: a list that is merged by name has no order.
    pub fn cell_database(&self, cell: &NovaCell) -> Database {
        let name = || schema(&format!("nova_{}", cell.name.replace('-', "_")));
        match &cell.database {
            Some(own) => Database { database: Some(own.database.clone().unwrap_or_else(name)), ..own.clone() },
            None if cell.name == MAIN_CELL => self.main_database(),
            None => Database { database: Some(name()), ..self.server() },
        }
    }

    /// The cells whose hypervisors are nodes of this cluster, with the labels of these nodes: a single cell has all of them, and
    /// of several cells each those with its labels. The hypervisors of a cell with `computeRef` are in another cluster; every
    /// other cell has fake ones if there are any.
    pub fn cells_here(&self) -> Vec<(&str, BTreeMap<String, String>)> {
        let Some(compute) = &self.compute else { return Vec::new() };
        if self.cells.is_empty() {
            return vec![(MAIN_CELL, compute.labels())];
        }
        let has_all = compute.fake.is_some() || self.cells.len() == 1;
        let is_here = |cell: &&NovaCell| has_all || !cell.node_selector.is_empty();
        let labels = |cell: &NovaCell| compute.labels().into_iter().chain(cell.node_selector.clone()).collect();
        let here = self.cells.iter().filter(is_here).filter(|cell| cell.compute_ref.is_none());
        here.map(|cell| (cell.name.as_str(), labels(cell))).collect()
    }

    /// Hypervisors that would belong to no cell, and labels that select nothing.
    fn stray_hypervisors(&self) -> Vec<Problem> {
        let mut found = Vec::new();
        if self.compute.is_some() && self.cells_here().is_empty() {
            let what = "makes hypervisors of nodes, but none of spec.cells has any of them";
            found.push(problem("spec.compute", what, "set nodeSelector of the cells without computeRef"));
        }
        for (index, cell) in self.cells.iter().enumerate().filter(|(_, cell)| !cell.node_selector.is_empty()) {
            let path = format!("spec.cells[{index}].nodeSelector");
            if cell.compute_ref.is_some() {
                let what = "selects nodes of this cluster for a cell whose hypervisors are in another one";
                found.push(problem(path, what, "remove it, or remove computeRef"));
            } else if self.compute.is_none() {
                found.push(problem(
                    path,
                    "selects nodes, but spec.compute is absent",
                    "set spec.compute, or remove it",
                ));
            }
        }
        let migration = self.compute.as_ref().and_then(|compute| compute.live_migration.as_ref());
        if migration.and_then(|migration| migration.cert_secret_ref.as_ref()?.key.as_ref()).is_some() {
            let what = "names one key, and a certificate has three: tls.crt, tls.key and ca.crt";
            found.push(problem("spec.compute.liveMigration.certSecretRef.key", what, "remove it"));
        }
        let sizes = self
            .compute
            .iter()
            .flat_map(|compute| [("resources", &compute.resources), ("libvirtResources", &compute.libvirt_resources)]);
        for (field, size) in sizes {
            found.extend(size.iter().flat_map(|size| size.problems(&format!("spec.compute.{field}"))));
        }
        let console = self.console.as_ref().and_then(|console| console.workload.resources.as_ref());
        found.extend(console.iter().flat_map(|size| size.problems("spec.console.resources")));
        found
    }

    fn server(&self) -> Database {
        self.database.as_ref().map(|database| database.server.clone()).unwrap_or_default()
    }

    /// Databases that two purposes share, which would have each overwrite the other's tables.
    fn shared_databases(&self) -> Vec<Problem> {
        let api = if self.api_database.is_some() { "spec.apiDatabase" } else { "spec.database.apiDatabase" };
        let mut purposes = vec![
            ("spec.database".to_owned(), place(&self.main_database())),
            (api.to_owned(), place(&self.api_database())),
            ("spec.database.cellDatabase".to_owned(), place(&self.cell0_database())),
        ];
        for (index, cell) in self.cells.iter().enumerate() {
            let at = place(&self.cell_database(cell));
            // The main database is there for this cell.
            if cell.name != MAIN_CELL || at != purposes[0].1 {
                purposes.push((format!("spec.cells[{index}].database"), at));
            }
        }
        let clash = |(index, (path, at)): (usize, &(String, String))| {
            let (first, _) = purposes[..index].iter().find(|(_, other)| other == at)?;
            Some(problem(path, format!("is {at}, as {first} is"), "give each its own database"))
        };
        purposes.iter().enumerate().filter_map(clash).collect()
    }
}

/// Which database it is, in words that are equal only for the same one.
fn place(database: &Database) -> String {
    let name = database.database.as_ref().map_or("nova", DatabaseName::as_str);
    match (&database.host, &database.cluster_ref) {
        (Some(host), _) => format!("{name} on {host}:{}", database.port.map_or(3306, Port::get)),
        (None, Some(NamespacedRef { name: object, namespace: Some(namespace) })) => {
            format!("{name} on {namespace}/{object}")
        }
        (None, object) => format!("{name} on {}", object.as_ref().map_or("mariadb", |object| object.name.as_str())),
    }
}

fn schema(name: &str) -> DatabaseName {
    DatabaseName::new(name).expect("letters, digits and '_'")
}

/// The scheduler pods, and a second opinion on their choices.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct NovaScheduler {
    /// How many pods, how large, where.
    #[serde(flatten)]
    pub workload: Workload,
    /// A scheduler that Nova asks to reorder the hosts it found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external_scheduler: Option<ExternalScheduler>,
}

/// A scheduler that Nova asks to reorder the hosts it found, and to leave some out. It needs a Nova image with the patch for it, as
/// those of this project have.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExternalScheduler {
    /// Whether it is asked.
    #[serde(default)]
    pub enabled: bool,
    /// Its address, without the path; port 8080 of the Service `cortex` with TLS when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<HttpUrl>,
    /// The Secret with the bearer token, under `token` unless it says otherwise; `cortex-token` when absent. Nova starts without
    /// it, and reads it for each request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_secret_ref: Option<SecretRef>,
    /// The Secret with the authorities that the server is verified by, under `ca.crt` unless it says otherwise; when absent
    /// `cortex-api-tls` for a Service of the cluster, and the authorities of the image for other addresses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_secret_ref: Option<SecretRef>,
    /// What happens when it does not answer.
    #[serde(default)]
    pub on_failure: ExternalSchedulerFailure,
    /// How long Nova waits for an answer, from one second to a minute; five seconds when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Duration>,
}

/// What happens when an external scheduler does not answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ExternalSchedulerFailure {
    /// Nova's own order is kept.
    #[default]
    Open,
    /// No host is found.
    Closed,
}

/// The database server and the schemas on it. One account, that of `secretRef`, is used for all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("(has(self.cellDatabase) ? self.cellDatabase : 'nova_cell0') == (has(oldSelf.cellDatabase) ? oldSelf.cellDatabase : 'nova_cell0')")
        .message("changes cellDatabase, which holds the data; keep the old name, or create a new object and migrate")
        .field_path(".cellDatabase")
)]
pub struct NovaDatabase {
    /// The server, the account, and the schema of `cell1`: `nova` when absent.
    #[serde(flatten)]
    pub server: Database,
    /// Schema of flavors, quotas and the list of cells; `nova_api` when absent. It cannot be changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_database: Option<DatabaseName>,
    /// Schema of `cell0`, for servers that no host was found for; `nova_cell0` when absent. It cannot be changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cell_database: Option<DatabaseName>,
}

/// The users that Nova calls other services as, by the names of their K-ORC User objects.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
pub struct ServiceAuth {
    /// The user for calls to Placement.
    #[serde(default, rename = "placementServiceUserRef", skip_serializing_if = "Option::is_none")]
    pub placement: Option<LocalRef>,
    /// The user for calls to Neutron.
    #[serde(default, rename = "neutronServiceUserRef", skip_serializing_if = "Option::is_none")]
    pub neutron: Option<LocalRef>,
    /// The user for calls to Glance.
    #[serde(default, rename = "glanceServiceUserRef", skip_serializing_if = "Option::is_none")]
    pub glance: Option<LocalRef>,
    /// The user for calls to Cinder.
    #[serde(default, rename = "cinderServiceUserRef", skip_serializing_if = "Option::is_none")]
    pub cinder: Option<LocalRef>,
}

/// A group of hypervisors with a database and a queue of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("!has(oldSelf.database) || !has(oldSelf.database.database) || (has(self.database) && has(self.database.database) && self.database.database == oldSelf.database.database)")
    .message("changes the name of the cell's database, and with it all data; keep the old name, or add another cell"))]
pub struct NovaCell {
    /// Name of the cell.
    #[schemars(length(min = 1, max = 40), regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))]
    #[x_kube(validation = Rule::new("self != 'cell0'")
        .message("is reserved for servers that no host was found for; name the cell otherwise, such as cell1"))]
    pub name: String,
    /// The hypervisor cluster whose hosts are in the cell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compute_ref: Option<LocalRef>,
    /// The cell's database; that of `spec.database` for `cell1`, a schema `nova_<cell>` beside it for others, when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub database: Option<Database>,
    /// The cell's message queue; a virtual host `<name>-<cell>` on the broker of `spec.messaging` when absent. The account is that
    /// of `spec.messaging`: another one's password would be stored in Nova's database.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub messaging: Option<Messaging>,
    /// Labels of the cell's hypervisors, beside those of `spec.compute.nodeSelector`. With several cells, only cells that have
    /// such labels get hypervisors of this cluster.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 32))]
    pub node_selector: BTreeMap<String, String>,
}

/// What the operator observed. Its conditions are Ready, DependenciesReady, SecretsReady, DatabaseReady,
/// MessagingReady, KeystoneAuthReady, ConfigReady, CellsReady, APIReady, SchedulerReady, ConductorReady, DeploymentReady,
/// CephConnected.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct NovaStatus {
    /// What every service's status has.
    #[serde(flatten)]
    pub service: ServiceStatus,
    /// The cells, and how they are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 33), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub cells: Vec<NovaCellStatus>,
}

/// How a cell is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct NovaCellStatus {
    /// Name of the cell.
    #[schemars(length(min = 1, max = 40))]
    pub name: String,
    /// `Ready`, or what keeps it from being so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 316))]
    pub status: Option<String>,
    /// How many hypervisors have registered in it; absent until Nova knows the cell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub compute_nodes: Option<i32>,
    /// Its database as the spec names or named it: a cell that has left the spec runs until it is empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub database: Option<Database>,
    /// Its message queue, likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub messaging: Option<Messaging>,
}

service_object! {
    Nova, "nova", api: "spec.api", longest_name: LONGEST_NAME, |spec| {
        replicas: spec.api_replicas(),
        resources: spec.api.as_ref()?.resources.as_ref(),
        scheduling: spec.api.as_ref()?.scheduling.as_ref(),
        plugins: &spec.plugins,
        middleware: &spec.middleware,
        public_endpoint: spec.public_endpoint.as_ref(),
    }
}

impl Rules for Nova {
    const ALIASES: &'static [Alias] = keystone_aliases![
        alias("replicas.api", "api.replicas"),
        alias("replicas.scheduler", "scheduler.replicas"),
        alias("replicas.conductor", "conductor.replicas"),
        alias("database.name", "database.database"),
        alias("apiDatabase.name", "apiDatabase.database"),
        alias("storage.rbdPool", "storage.rbd.pool"),
        alias("storage.rbdUser", "storage.rbd.user"),
        alias("storage.cephSecretRef", "storage.rbd.cephSecretRef"),
    ];

    fn problems(&self) -> Vec<Problem> {
        let mut found = service_mistakes(self);
        found.extend(self.spec.shared_databases());
        found.extend(self.spec.stray_hypervisors());
        found
    }
}
