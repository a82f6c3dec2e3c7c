//! A cluster with the kinds that services are made of, fake controllers that look after them, and an API that answers.

use std::marker::PhantomData;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use c5c3_api::blocks::Condition as Told;
use c5c3_api::ext::external_secrets::{ClusterSecretStore, ClusterSecretStoreSpec, ExternalSecret, PushSecret};
use c5c3_api::ext::mariadb::{Database, Grant, MariaDB, User};
use c5c3_api::ext::rabbitmq::{self, Permission, RabbitmqCluster, Vhost};
use c5c3_api::openstack::{Keystone, ServiceObject};
use c5c3_api::ovn::OVNCluster;
use c5c3_harness::TestCluster;
use c5c3_kit::http::Readiness;
use c5c3_kit::metrics::Metrics;
use c5c3_kit::run::RunOptions;
use c5c3_kit::{Operator, Settings};
use c5c3_service::Service;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ApiResource, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use kube::runtime::wait::{Condition, await_condition};
use kube::{Api, Client, Resource, ResourceExt};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::World;

/// Long enough for a busy machine.
pub const PATIENCE: Duration = Duration::from_mins(2);

/// A cluster with everybody else on it, in whose namespace `cloud` is everything that a service needs.
pub struct Stage<S> {
    /// The cluster.
    pub cluster: TestCluster,
    /// A client that may do everything.
    pub client: Client,
    /// What Jobs do.
    pub jobs: Jobs,
    /// What the API's pods answer when they are asked for the service's own report.
    pub report: Said,
    operator: fn(bool) -> Operator,
    tasks: Vec<JoinHandle<()>>,
    service: PhantomData<S>,
}

/// A text that an API answers with.
#[derive(Clone, Debug, Default)]
pub struct Said(Arc<Mutex<String>>);

impl Said {
    /// Answers with this from now on.
    pub fn is(&self, text: &str) {
        text.clone_into(&mut self.0.lock().expect("no test panics with the lock"));
    }

    fn text(&self) -> String {
        self.0.lock().expect("no test panics with the lock").clone()
    }
}

/// Which Jobs do not end, and which have ended.
#[derive(Clone, Debug, Default)]
pub struct Jobs {
    endless: Arc<Mutex<Option<&'static str>>>,
    ended: Arc<Mutex<Vec<String>>>,
}

impl Jobs {
    /// Jobs whose names begin like this do not end.
    pub fn never_finish(&self, begins: Option<&'static str>) {
        *self.endless.lock().expect("no test panics with the lock") = begins;
    }

    /// The names of those that have ended, in that order; of one that was made again, twice.
    pub fn ended(&self) -> Vec<String> {
        self.ended.lock().expect("no test panics with the lock").clone()
    }

    fn has_ended(&self, name: String) {
        self.ended.lock().expect("no test panics with the lock").push(name);
    }

    fn is_endless(&self, name: &str) -> bool {
        self.endless.lock().expect("no test panics with the lock").is_some_and(|begins| name.starts_with(begins))
    }
}

impl<S> Drop for Stage<S> {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

/// An operator that ends when it is dropped, wherever it is.
pub struct Running {
    /// Its metrics.
    pub metrics: Metrics,
    task: JoinHandle<()>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Whether the condition `Ready` has that status and reason.
pub fn ready_is<K: ServiceObject>(status: &'static str, reason: &'static str) -> impl Condition<K> {
    move |object: Option<&K>| {
        let conditions = object.and_then(ServiceObject::status).map(|status| &status.conditions);
        let is_it = |condition: &Told| {
            condition.r#type == "Ready"
                && format!("{:?}", condition.status) == status
                && condition.reason.as_deref() == Some(reason)
        };
        conditions.is_some_and(|all| all.iter().any(is_it))
    }
}

impl<S: Service> Stage<S>
where
    S::Kind: Resource<Scope = k8s_openapi::NamespaceResourceScope>,
{
    /// A stage on which the objects of a world are.
    ///
    /// # Panics
    /// If the cluster refuses anything.
    pub async fn set(operator: fn(bool) -> Operator, world: &World<S>) -> Self {
        let cluster = TestCluster::in_process().await.expect("a cluster starts");
        let client = cluster.client();
        let own = c5c3_api::find(&S::Kind::api_version(&()), &S::Kind::kind(&())).expect("a kind of ours");
        cluster.install(&own.crd()).await.expect("its definition is taken");
        let mut definitions = vec![open::<MariaDB>(), open::<Database>(), open::<User>(), open::<Grant>()];
        definitions.extend([
            open::<RabbitmqCluster>(),
            open::<Vhost>(),
            open::<rabbitmq::User>(),
            open::<Permission>(),
            open::<OVNCluster>(),
        ]);
        if S::Kind::kind(&()) != Keystone::kind(&()) {
            definitions.push(open::<Keystone>());
        }
        for definition in definitions {
            cluster.install(&definition).await.expect("a definition is taken");
        }
        cluster.namespace_named("cloud").await.expect("a namespace is made");
        let (jobs, none, report) = (Jobs::default(), Jobs::default(), Said::default());
        report.is("{}");
        let tasks = vec![
            tokio::spawn(look_after::<Job>(client.clone(), jobs.clone(), done)),
            tokio::spawn(look_after::<Deployment>(client.clone(), none.clone(), available)),
            tokio::spawn(look_after::<StatefulSet>(client.clone(), none.clone(), available)),
            tokio::spawn(look_after::<DaemonSet>(client.clone(), none.clone(), on_every_node)),
            tokio::spawn(look_after::<Database>(client.clone(), none.clone(), is_ready)),
            tokio::spawn(look_after::<User>(client.clone(), none.clone(), is_ready)),
            tokio::spawn(look_after::<Grant>(client.clone(), none.clone(), is_ready)),
            tokio::spawn(look_after::<Vhost>(client.clone(), none.clone(), is_current)),
            tokio::spawn(look_after::<rabbitmq::User>(client.clone(), none.clone(), is_current)),
            tokio::spawn(look_after::<Permission>(client.clone(), none, is_current)),
            tokio::spawn(answer(client.clone(), report.clone())),
        ];
        let stage = Self { cluster, client, jobs, report, operator, tasks, service: PhantomData };
        for object in &world.objects {
            // The Keystone of the world is a fixture for other services; tests of Keystone create their own.
            if object["kind"] != S::Kind::kind(&()).as_ref() {
                stage.create(object).await;
            }
        }
        stage
    }

    /// Installs the kinds of External Secrets, for which no controller runs, and the conventional store.
    ///
    /// # Panics
    /// If the cluster refuses anything.
    pub async fn with_store(self) -> Self {
        for definition in [open::<ExternalSecret>(), open::<PushSecret>()] {
            self.cluster.install(&definition).await.expect("a definition is taken");
        }
        let mut definition = open::<ClusterSecretStore>();
        definition.spec.scope = "Cluster".into();
        self.cluster.install(&definition).await.expect("a definition is taken");
        let stores: Api<ClusterSecretStore> = Api::all(self.client.clone());
        let store = ClusterSecretStore::new("openbao-cluster-store", ClusterSecretStoreSpec::default());
        stores.create(&PostParams::default(), &store).await.expect("a store is made");
        self
    }

    /// The API of an object's kind, in the namespace `cloud`.
    pub fn api(&self, object: &Value) -> Api<DynamicObject> {
        let text = |field: &str| object[field].as_str().unwrap_or_default().to_owned();
        let (api_version, kind) = (text("apiVersion"), text("kind"));
        let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, &kind));
        Api::namespaced_with(self.client.clone(), "cloud", &resource)
    }

    /// The API of the service's kind.
    pub fn objects(&self) -> Api<S::Kind> {
        Api::namespaced(self.client.clone(), "cloud")
    }

    /// Creates an object, with its status.
    ///
    /// # Panics
    /// If the cluster refuses it.
    pub async fn create(&self, object: &Value) {
        let api = self.api(object);
        let mut parsed: DynamicObject = serde_json::from_value(object.clone()).expect("an object has metadata");
        parsed.metadata.uid = None;
        if object["kind"] == "StatefulSet" {
            parsed.data["spec"] = json!({"replicas": 2, "serviceName": "memcached", "selector": {"matchLabels": {"a": "b"}},
                "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "m", "image": "m"}]}}});
        }
        api.create(&PostParams::default(), &parsed).await.expect("an object is made");
        if object.get("status").is_some() {
            let patch = json!({"status": object["status"]});
            api.patch_status(&parsed.name_any(), &PatchParams::default(), &Patch::Merge(patch))
                .await
                .expect("its status is taken");
        }
    }

    /// Runs the operator.
    pub fn operate(&self) -> Running {
        self.operate_as(self.client.clone(), None)
    }

    /// Runs the operator with that client, for one namespace if one is named.
    pub fn operate_as(&self, client: Client, namespace: Option<String>) -> Running {
        let metrics = Metrics::default();
        let own = metrics.clone();
        let (debounce, first_retry) = (Duration::ZERO, Duration::from_millis(5));
        let options = RunOptions { namespace, debounce, first_retry, ..RunOptions::default() };
        let operator = (self.operator)(false);
        let task = tokio::spawn(async move {
            let settings = Settings { options, election: None };
            operator.run(client, settings, own, Readiness::default(), CancellationToken::new()).await;
        });
        Running { metrics, task }
    }

    /// Waits until something is so of the object `gate`.
    ///
    /// # Panics
    /// If it is not so in time.
    pub async fn until(&self, what: impl Condition<S::Kind>) -> S::Kind {
        let api = self.objects();
        let found = tokio::time::timeout(PATIENCE, Box::pin(await_condition(api.clone(), "gate", what))).await;
        let Ok(found) = found else {
            panic!("not in time: {:#?}", api.get("gate").await.ok().as_ref().and_then(ServiceObject::status))
        };
        found.expect("a watch works").expect("the object is there")
    }

    /// Brings an object up by an operator with the rights that it declares, and returns what it was refused.
    ///
    /// # Panics
    /// If the object does not get ready.
    pub async fn refused_with_own_rights(&self, object: &Value) -> Vec<String> {
        let access = (self.operator)(false).access().clone();
        let limited = self.cluster.limited("few-rights", "cloud", access.in_namespaces(), access.in_cluster());
        let limited = limited.await.expect("an account is made");
        let _running = self.operate_as(limited.client.clone(), Some("cloud".into()));
        self.create(object).await;
        self.until_ready().await;
        limited.refused()
    }

    /// Waits until the object `gate` is ready.
    pub async fn until_ready(&self) -> S::Kind {
        self.until(ready_is("True", "Ready")).await
    }
}

/// A definition that takes everything.
fn open<K: Resource<DynamicType = ()>>() -> CustomResourceDefinition {
    let (group, version, kind, plural) = (K::group(&()), K::version(&()), K::kind(&()), K::plural(&()));
    let anything = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    serde_json::from_value(json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {"group": group, "scope": "Namespaced", "names": {"kind": kind, "plural": plural, "singular": kind.to_lowercase()},
            "versions": [{"name": version, "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": anything, "status": anything}}}}]},
    }))
    .expect("a definition is one")
}

/// Gives every object of a kind the status that it would get.
async fn look_after<K>(client: Client, jobs: Jobs, status: fn(&DynamicObject) -> Value)
where
    K: Resource<DynamicType = ()>,
{
    let resource = ApiResource::erase::<K>(&());
    let api: Api<DynamicObject> = Api::namespaced_with(client, "cloud", &resource);
    loop {
        for object in api.list(&ListParams::default()).await.map(|list| list.items).unwrap_or_default() {
            let wanted = status(&object);
            if jobs.is_endless(&object.name_any()) {
                continue;
            }
            if object.data["status"]["observedGeneration"] != wanted["observedGeneration"]
                || object.data["status"]["conditions"].is_null()
            {
                let patch = Patch::Merge(json!({"status": wanted}));
                if api.patch_status(&object.name_any(), &PatchParams::default(), &patch).await.is_ok() {
                    jobs.has_ended(object.name_any());
                }
            }
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

const THEN: &str = "2026-01-01T00:00:00Z";

fn done(_: &DynamicObject) -> Value {
    let condition =
        |what: &str| json!({"type": what, "status": "True", "lastTransitionTime": THEN, "lastProbeTime": THEN});
    json!({"startTime": THEN, "completionTime": THEN, "succeeded": 1, "uncountedTerminatedPods": {},
           "conditions": [condition("SuccessCriteriaMet"), condition("Complete")]})
}

fn available(object: &DynamicObject) -> Value {
    let replicas = object.data["spec"]["replicas"].as_i64().unwrap_or(1);
    json!({"observedGeneration": object.metadata.generation, "replicas": replicas, "updatedReplicas": replicas,
           "readyReplicas": replicas, "availableReplicas": replicas,
           "conditions": [{"type": "Available", "status": "True", "lastUpdateTime": THEN, "lastTransitionTime": THEN,
                           "reason": "Fine", "message": ""}]})
}

fn on_every_node(object: &DynamicObject) -> Value {
    json!({"observedGeneration": object.metadata.generation, "desiredNumberScheduled": 2, "currentNumberScheduled": 2,
           "updatedNumberScheduled": 2, "numberAvailable": 2, "numberReady": 2, "numberMisscheduled": 0,
           "conditions": []})
}

fn is_ready(_: &DynamicObject) -> Value {
    json!({"conditions": [{"type": "Ready", "status": "True", "reason": "Created", "message": "", "lastTransitionTime": THEN}]})
}

fn is_current(object: &DynamicObject) -> Value {
    let mut status = is_ready(object);
    status["observedGeneration"] = json!(object.metadata.generation);
    status
}

/// An API that answers everything, behind the Services `gate` and `gate-api`; and its report.
async fn answer(client: Client, report: Said) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("the loopback can be bound");
    let port = listener.local_addr().expect("it has an address").port();
    let resource = ApiResource::erase::<EndpointSlice>(&());
    let slices: Api<DynamicObject> = Api::namespaced_with(client, "cloud", &resource);
    for service in ["gate", "gate-api"] {
        let ports = ["api", "health"].map(|name| json!({"name": name, "port": port, "protocol": "TCP"}));
        let labels = json!({"kubernetes.io/service-name": service});
        let slice: DynamicObject = serde_json::from_value(json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
            "metadata": {"name": format!("{service}-1"), "namespace": "cloud", "labels": labels},
            "endpoints": [{"addresses": ["127.0.0.1"], "conditions": {"ready": true}}], "ports": ports,
        }))
        .expect("a slice is one");
        slices.create(&PostParams::default(), &slice).await.expect("a slice is made");
    }
    loop {
        let Ok((mut connection, _)) = listener.accept().await else { return };
        let report = report.clone();
        tokio::spawn(async move {
            let mut request = [0; 4096];
            let read = connection.read(&mut request).await.unwrap_or(0);
            let body = if request[..read].starts_with(b"GET /report ") { report.text() } else { "{}".to_owned() };
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
            let _ = connection.write_all((head + &body).as_bytes()).await;
        });
    }
}
