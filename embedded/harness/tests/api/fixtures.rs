//! What the tests are made of: objects of an orchard, requests that no typed client sends, and waiting.

use std::time::Duration;

use http::{HeaderMap, Method, Request, StatusCode, header};
use http_body_util::BodyExt;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams};
use kube::core::{Status, WatchEvent};
use kube::runtime::wait::{Condition, await_condition, conditions};
use kube::{Client, Resource};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use c5c3_harness::TestCluster;

/// What a test returns.
pub type Tested = Result<(), Box<dyn std::error::Error>>;

/// How long anything may take before a test gives up on it.
pub const PATIENCE: Duration = Duration::from_mins(1);

/// The group of trees that no one changes the definition of.
pub const ORCHARD: &str = "orchard.example";

/// A cluster and a client that may do everything.
pub async fn cluster() -> (TestCluster, Client) {
    let cluster = TestCluster::start().await.expect("starts");
    let client = cluster.client();
    (cluster, client)
}

/// The same for a test about the embedded server itself, which another cluster need not be like.
pub async fn embedded(why: &str) -> Option<(TestCluster, Client)> {
    let cluster = TestCluster::embedded(why).await.expect("starts")?;
    let client = cluster.client();
    Some((cluster, client))
}

/// The same for a test that workload controllers would disturb.
pub async fn without_controllers(why: &str) -> Option<(TestCluster, Client)> {
    let cluster = TestCluster::without_controllers(why).await.expect("starts")?;
    let client = cluster.client();
    Some((cluster, client))
}

/// An object from its JSON.
pub fn of<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("the object of a test is one of its kind")
}

/// A ConfigMap.
pub fn basket(name: &str) -> ConfigMap {
    of(json!({"metadata": {"name": name}, "data": {"fruit": "pear"}}))
}

/// A ConfigMap with a label.
pub fn labelled(name: &str, label: (&str, &str)) -> ConfigMap {
    of(json!({"metadata": {"name": name, "labels": {label.0: label.1}}, "data": {"fruit": "pear"}}))
}

/// A Deployment.
pub fn press(name: &str) -> Deployment {
    of(json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": name}}, "template": template(name)},
    }))
}

/// A Pod.
pub fn picker(name: &str) -> Pod {
    of(json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "pick", "image": "picker:1"}]}}))
}

fn template(name: &str) -> Value {
    json!({"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "juice", "image": "press:1"}]}})
}

/// The definition of a Tree: a spec with rules and defaults, a status, a scale, printer columns.
pub fn trees(group: &str) -> CustomResourceDefinition {
    of(json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("trees.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": {"kind": "Tree", "plural": "trees", "singular": "tree", "listKind": "TreeList", "shortNames": ["tr"]},
            "versions": [tree_version("v1", true)],
        },
    }))
}

/// A version of the Tree.
pub fn tree_version(name: &str, storage: bool) -> Value {
    json!({
        "name": name, "served": true, "storage": storage,
        "subresources": {
            "status": {},
            "scale": {"specReplicasPath": ".spec.branches", "statusReplicasPath": ".status.branches",
                      "labelSelectorPath": ".status.selector"},
        },
        "selectableFields": [{"jsonPath": ".spec.sort"}],
        "additionalPrinterColumns": [{"name": "Sort", "type": "string", "jsonPath": ".spec.sort"}],
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {
            "spec": {"type": "object", "required": ["sort"],
                "x-kubernetes-validations": [
                    {"rule": "self.branches <= 100", "message": "a tree has at most 100 branches"}],
                "properties": {
                    "sort": {"type": "string", "x-kubernetes-validations": [
                        {"rule": "self == oldSelf", "message": "a tree keeps its sort"}]},
                    "branches": {"type": "integer", "default": 3},
                    "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
                    "grafts": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                        "items": {"type": "object", "required": ["name"], "properties": {
                            "name": {"type": "string"}, "year": {"type": "integer"}}}},
                }},
            "status": {"type": "object", "properties": {
                "branches": {"type": "integer"}, "selector": {"type": "string"}, "ripe": {"type": "boolean"}}},
        }}},
    })
}

/// A Tree.
pub fn tree(name: &str) -> DynamicObject {
    tree_of(ORCHARD, name)
}

/// A Tree of a group.
pub fn tree_of(group: &str, name: &str) -> DynamicObject {
    let version = format!("{group}/v1");
    of(json!({"apiVersion": version, "kind": "Tree", "metadata": {"name": name}, "spec": {"sort": "quince"}}))
}

/// The kind of the trees of a group, in a version.
pub fn tree_kind(group: &str, version: &str) -> ApiResource {
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, "Tree"), "trees")
}

/// Trees, after their definition has been established. Tests share it.
pub async fn orchard(cluster: &TestCluster) -> Api<DynamicObject> {
    cluster.install(&trees(ORCHARD)).await.expect("a definition is installed");
    Api::default_namespaced_with(cluster.client(), &tree_kind(ORCHARD, "v1"))
}

/// Trees of a group of the test's own, whose definition it may change.
pub async fn own_orchard(cluster: &TestCluster) -> (String, Api<DynamicObject>) {
    let group = cluster.group(ORCHARD);
    establish(&cluster.client(), &trees(&group)).await;
    let api = Api::default_namespaced_with(cluster.client(), &tree_kind(&group, "v1"));
    (group, api)
}

/// Creates a definition, and waits until it is served.
pub async fn establish(client: &Client, definition: &CustomResourceDefinition) {
    let api = Api::<CustomResourceDefinition>::all(client.clone());
    api.create(&PostParams::default(), definition).await.expect("a definition is created");
    let name = definition.meta().name.as_deref().expect("a definition has a name");
    eventually(&api, name, conditions::is_crd_established()).await;
}

/// Asks until the answer is yes: a cluster of several processes learns some things with a delay, the embedded server none.
pub async fn soon(what: &str, ask: impl AsyncFn() -> bool) {
    if std::env::var_os(c5c3_harness::KUBECONFIG).is_none() {
        assert!(ask().await, "not at once: {what}");
        return;
    }
    let asked = async {
        while !ask().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, asked).await.unwrap_or_else(|_| panic!("never: {what}"));
}

/// Waits for a condition of an object.
pub async fn eventually<K>(api: &Api<K>, name: &str, condition: impl Condition<K>) -> Option<K>
where
    K: Resource + Clone + std::fmt::Debug + DeserializeOwned + Send + 'static,
{
    let met = tokio::time::timeout(PATIENCE, await_condition(api.clone(), name, condition)).await;
    met.unwrap_or_else(|_| panic!("{name} does not come to be as awaited")).expect("a watch")
}

/// Waits until an object is gone.
pub async fn gone<K>(api: &Api<K>, name: &str)
where
    K: Resource + Clone + std::fmt::Debug + DeserializeOwned + Send + 'static,
{
    eventually(api, name, |object: Option<&K>| object.is_none()).await;
}

/// The refusal that a request is expected to meet.
pub fn refusal<T: std::fmt::Debug>(result: Result<T, kube::Error>) -> Box<Status> {
    match result {
        Err(kube::Error::Api(status)) => status,
        other => panic!("not refused: {other:?}"),
    }
}

/// A server-side apply.
pub async fn apply<K>(api: &Api<K>, manager: &str, object: Value) -> Result<K, kube::Error>
where
    K: Clone + DeserializeOwned + std::fmt::Debug,
{
    let name = object["metadata"]["name"].as_str().expect("a name").to_owned();
    api.patch(&name, &PatchParams::apply(manager), &Patch::Apply(object)).await
}

/// An answer to a request of any form.
pub struct Answer {
    pub code: StatusCode,
    pub headers: HeaderMap,
    pub body: Value,
}

/// Sends a request of any form.
pub async fn send(client: &Client, method: Method, uri: &str, content: (&str, &str), accept: &str) -> Answer {
    let request = Request::builder().method(method).uri(uri).header(header::CONTENT_TYPE, content.0);
    let request = request.header(header::ACCEPT, accept).body(content.1.as_bytes().to_vec().into());
    let answer = client.send(request.expect("a request")).await.expect("an answer");
    let (parts, body) = answer.into_parts();
    let body = body.collect().await.expect("a body").to_bytes();
    Answer { code: parts.status, headers: parts.headers, body: serde_json::from_slice(&body).unwrap_or_default() }
}

/// Reads a path.
pub async fn read(client: &Client, uri: &str, accept: &str) -> Answer {
    send(client, Method::GET, uri, ("application/json", ""), accept).await
}

/// What a watch tells, in short: `ADDED pear`.
pub fn told<K: Resource>(event: &WatchEvent<K>) -> String {
    let name = |object: &K| object.meta().name.clone().unwrap_or_default();
    match event {
        WatchEvent::Added(object) => format!("ADDED {}", name(object)),
        WatchEvent::Modified(object) => format!("MODIFIED {}", name(object)),
        WatchEvent::Deleted(object) => format!("DELETED {}", name(object)),
        WatchEvent::Bookmark(_) => "BOOKMARK".into(),
        WatchEvent::Error(status) => format!("ERROR {}", status.code),
    }
}
