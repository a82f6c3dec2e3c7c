//! Everybody else on a cluster: what makes pods and databases, on paper.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use c5c3_api::ext::external_secrets::{ClusterSecretStore, ClusterSecretStoreSpec, ExternalSecret, PushSecret};
use c5c3_api::ext::mariadb::{Database, Grant, MariaDB, User};
use c5c3_harness::TestCluster;
use c5c3_kit::Settings;
use c5c3_kit::http::Readiness;
use c5c3_kit::metrics::Metrics;
use c5c3_kit::run::Pace;
use c5c3_operator_keystone::operator;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ApiResource, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, Resource, ResourceExt};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// A cluster with the kinds that a Keystone is made of, somebody who looks after them, and an API that answers.
pub struct Stage {
    pub cluster: TestCluster,
    pub client: Client,
    /// Jobs whose names begin like this do not end.
    pub endless: Endless,
    tasks: Vec<JoinHandle<()>>,
}

/// The beginning of a name, if any.
pub type Endless = Arc<Mutex<Option<&'static str>>>;

impl Drop for Stage {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

/// An operator that ends when it is dropped, wherever it is.
pub struct Running {
    pub metrics: Metrics,
    task: JoinHandle<()>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Stage {
    /// A stage on which everything that a Keystone needs is there, in the namespace `cloud`.
    pub async fn set() -> Self {
        let cluster = TestCluster::in_process().await.unwrap();
        let client = cluster.client();
        let keystone = c5c3_api::find("keystone.openstack.c5c3.io/v1alpha1", "Keystone").unwrap();
        cluster.install(&keystone.crd()).await.unwrap();
        for definition in [open::<MariaDB>(), open::<Database>(), open::<User>(), open::<Grant>()] {
            cluster.install(&definition).await.unwrap();
        }
        cluster.namespace_named("cloud").await.unwrap();
        let endless = Endless::default();
        let nobody = Endless::default();
        let tasks = vec![
            tokio::spawn(look_after::<Job>(client.clone(), endless.clone(), done)),
            tokio::spawn(look_after::<Deployment>(client.clone(), nobody.clone(), available)),
            tokio::spawn(look_after::<Database>(client.clone(), nobody.clone(), ready)),
            tokio::spawn(look_after::<User>(client.clone(), nobody.clone(), ready)),
            tokio::spawn(look_after::<Grant>(client.clone(), nobody, ready)),
            tokio::spawn(answer(client.clone())),
        ];
        let stage = Self { cluster, client, endless, tasks };
        for object in crate::world::World::default().objects {
            stage.create(&object).await;
        }
        stage
    }

    /// Installs the kinds of External Secrets, which nobody looks after, and a store that is there by convention.
    pub async fn with_store(self) -> Self {
        for definition in [open::<ExternalSecret>(), open::<PushSecret>()] {
            self.cluster.install(&definition).await.unwrap();
        }
        let mut definition = open::<ClusterSecretStore>();
        definition.spec.scope = "Cluster".into();
        self.cluster.install(&definition).await.unwrap();
        let stores: Api<ClusterSecretStore> = Api::all(self.client.clone());
        let store = ClusterSecretStore::new("openbao-cluster-store", ClusterSecretStoreSpec::default());
        stores.create(&PostParams::default(), &store).await.unwrap();
        self
    }

    pub fn api(&self, object: &Value) -> Api<DynamicObject> {
        let text = |field: &str| object[field].as_str().unwrap_or_default().to_owned();
        let (api_version, kind) = (text("apiVersion"), text("kind"));
        let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
        let resource = ApiResource::from_gvk(&kube::core::GroupVersionKind::gvk(group, version, &kind));
        Api::namespaced_with(self.client.clone(), "cloud", &resource)
    }

    /// Creates an object, with its status.
    pub async fn create(&self, object: &Value) {
        let api = self.api(object);
        let mut parsed: DynamicObject = serde_json::from_value(object.clone()).unwrap();
        parsed.metadata.uid = None;
        if object["kind"] == "StatefulSet" {
            parsed.data["spec"] = json!({"replicas": 2, "serviceName": "memcached", "selector": {"matchLabels": {"a": "b"}},
                "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "m", "image": "m"}]}}});
        }
        api.create(&PostParams::default(), &parsed).await.unwrap();
        if object.get("status").is_some() {
            let patch = json!({"status": object["status"]});
            let name = object["metadata"]["name"].as_str().unwrap();
            api.patch_status(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
        }
    }

    pub fn operate(&self) -> Running {
        Self::operate_as(self.client.clone(), None)
    }

    /// An operator with that client, which looks after one namespace if one is named.
    pub fn operate_as(client: Client, namespace: Option<String>) -> Running {
        let metrics = Metrics::default();
        let own = metrics.clone();
        let (debounce, first_retry) = (Duration::ZERO, Duration::from_millis(5));
        let pace = Pace { namespace, debounce, first_retry, ..Pace::default() };
        let task = tokio::spawn(async move {
            let settings = Settings { pace, election: None };
            operator(false).run(client, settings, own, Readiness::default(), CancellationToken::new()).await;
        });
        Running { metrics, task }
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
    .unwrap()
}

/// Gives every object of a kind the status that it would get.
async fn look_after<K>(client: Client, endless: Endless, status: fn(&DynamicObject) -> Value)
where
    K: Resource<DynamicType = ()>,
{
    let resource = ApiResource::erase::<K>(&());
    let api: Api<DynamicObject> = Api::namespaced_with(client, "cloud", &resource);
    loop {
        for object in api.list(&ListParams::default()).await.map(|list| list.items).unwrap_or_default() {
            let wanted = status(&object);
            if endless.lock().unwrap().is_some_and(|begins| object.name_any().starts_with(begins)) {
                continue;
            }
            if object.data["status"]["observedGeneration"] != wanted["observedGeneration"]
                || object.data["status"]["conditions"].is_null()
            {
                let patch = Patch::Merge(json!({"status": wanted}));
                let _ = api.patch_status(&object.name_any(), &PatchParams::default(), &patch).await;
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

fn ready(_: &DynamicObject) -> Value {
    json!({"conditions": [{"type": "Ready", "status": "True", "reason": "Created", "message": "", "lastTransitionTime": THEN}]})
}

/// An API that answers everything, behind the Service `gate`.
async fn answer(client: Client) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let slice: DynamicObject = serde_json::from_value(json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {"name": "gate-1", "namespace": "cloud", "labels": {"kubernetes.io/service-name": "gate"}},
        "endpoints": [{"addresses": ["127.0.0.1"], "conditions": {"ready": true}}],
        "ports": [{"name": "api", "port": listener.local_addr().unwrap().port(), "protocol": "TCP"}],
    }))
    .unwrap();
    let resource = ApiResource::erase::<k8s_openapi::api::discovery::v1::EndpointSlice>(&());
    let slices: Api<DynamicObject> = Api::namespaced_with(client, "cloud", &resource);
    slices.create(&PostParams::default(), &slice).await.unwrap();
    loop {
        let (mut connection, _) = listener.accept().await.unwrap();
        tokio::spawn(async move {
            let mut request = [0; 4096];
            let _ = connection.read(&mut request).await;
            let _ = connection.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}").await;
        });
    }
}
