//! What the tests are made of: a cluster with the scheduler at work, nodes, pods, and waiting.

use std::fmt::Debug;
use std::time::Duration;

use c5c3_harness::TestCluster;
use k8s_openapi::api::core::v1::{Event, Node, Pod};
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use kube::runtime::wait::await_condition;
use kube::{Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio_util::sync::{CancellationToken, DropGuard};

/// How long anything may take before a test gives up on it.
const PATIENCE: Duration = Duration::from_mins(1);

/// An object from its JSON.
pub fn of<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("the object of a test is one of its kind")
}

/// The spec of a pod that asks for so many cpus.
pub fn asking(cpu: &str) -> Value {
    json!({"containers": [{"name": "c", "image": "fruit", "resources": {"requests": {"cpu": cpu}}}]})
}

/// A cluster with the scheduler at work.
pub struct Stage {
    pub cluster: TestCluster,
    pub client: Client,
    pub pods: Api<Pod>,
    pub nodes: Api<Node>,
    _stop: DropGuard,
}

impl Stage {
    /// Sets the stage with nodes of these names, two cpus each.
    pub async fn set(nodes: &[&str]) -> Self {
        let cluster = TestCluster::in_process().await.expect("starts");
        let client = cluster.client();
        let stop = CancellationToken::new();
        let stage = Self {
            pods: Api::default_namespaced(client.clone()),
            nodes: Api::all(client.clone()),
            _stop: stop.clone().drop_guard(),
            client: client.clone(),
            cluster,
        };
        for name in nodes {
            stage.node(name, "2").await;
        }
        tokio::spawn(c5c3_scheduler::run(client, stop));
        stage
    }

    /// Adds a node that has so many cpus.
    pub async fn node(&self, name: &str, cpu: &str) {
        create(&self.nodes, json!({"metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}}})).await;
        let status = json!({"status": {"allocatable": {"cpu": cpu, "memory": "8Gi", "pods": "110"}}});
        let patched = self.nodes.patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await;
        patched.expect("a node has a status");
    }

    /// Adds a pod.
    pub async fn pod(&self, name: &str, spec: Value) -> Pod {
        create(&self.pods, json!({"metadata": {"name": name, "labels": {"app": name}}, "spec": spec})).await
    }

    /// Waits until a pod is on a node, and says on which.
    pub async fn node_of(&self, pod: &str) -> String {
        let pod = until(&self.pods, pod, |pod: Option<&Pod>| pod.is_some_and(|pod| node(pod).is_some())).await;
        pod.as_ref().and_then(node).unwrap_or_default()
    }

    /// Waits until a pod is told that it must wait, in those words.
    pub async fn is_told(&self, pod: &str, message: &str) {
        let is_told = |pod: Option<&Pod>| pod.and_then(condition).is_some_and(|told| told.2 == message);
        let pod = until(&self.pods, pod, is_told).await.expect("the pod is there");
        let wanted = ("False".to_owned(), "Unschedulable".to_owned(), message.to_owned());
        assert_eq!(condition(&pod), Some(wanted));
        let conditions = pod.status.and_then(|status| status.conditions).into_iter().flatten();
        let generations: Vec<_> = conditions.map(|condition| condition.observed_generation).collect();
        assert_eq!(generations, [pod.metadata.generation]);
    }

    /// Waits until users have been told this about a pod: `Warning FailedScheduling 0/1 nodes...`.
    pub async fn has_event(&self, about: &str, wanted: &str) {
        let events = Api::<Event>::default_namespaced(self.client.clone());
        let told = |event: &Event| {
            [&event.type_, &event.reason, &event.message].map(|text| text.clone().unwrap_or_default()).join(" ")
        };
        let met = async {
            loop {
                let all = events.list(&ListParams::default()).await.expect("events");
                let about = all.iter().filter(|event| event.involved_object.name.as_deref() == Some(about));
                if let Some(event) = about.into_iter().find(|event| told(event) == wanted) {
                    return event.clone();
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let event = tokio::time::timeout(PATIENCE, met).await.unwrap_or_else(|_| panic!("no event {wanted}"));
        assert_eq!(event.source.and_then(|source| source.component).as_deref(), Some("default-scheduler"));
    }

    /// The nodes of all pods that have one.
    pub async fn placed(&self) -> Vec<String> {
        let pods = self.pods.list(&ListParams::default()).await.expect("a list");
        pods.iter().filter_map(node).collect()
    }
}

/// Creates an object.
pub async fn create<K>(api: &Api<K>, object: Value) -> K
where
    K: Clone + Debug + Serialize + DeserializeOwned,
{
    api.create(&PostParams::default(), &of(object)).await.expect("an object is created")
}

/// Merges a change into an object.
pub async fn change<K>(api: &Api<K>, name: &str, change: Value) -> K
where
    K: Clone + Debug + DeserializeOwned,
{
    api.patch(name, &PatchParams::default(), &Patch::Merge(change)).await.expect("an object is changed")
}

/// Waits until something holds for an object.
pub async fn until<K>(api: &Api<K>, name: &str, holds: impl Fn(Option<&K>) -> bool + Send) -> Option<K>
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let met = await_condition(api.clone(), name, |object: Option<&K>| holds(object));
    let met = tokio::time::timeout(PATIENCE, met).await.unwrap_or_else(|_| panic!("{name} does not come to be so"));
    met.expect("a watch")
}

/// The node that a pod is on.
pub fn node(pod: &Pod) -> Option<String> {
    pod.spec.as_ref()?.node_name.clone()
}

/// Status, reason and message of the condition `PodScheduled`.
pub fn condition(pod: &Pod) -> Option<(String, String, String)> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let found = conditions.iter().find(|condition| condition.type_ == "PodScheduled")?.clone();
    Some((found.status, found.reason.unwrap_or_default(), found.message.unwrap_or_default()))
}
