//! What the tests are made of: a cluster with the controllers and a pretended node, objects, and waiting.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use c5c3_controllers::Options;
use c5c3_harness::{TestCluster, pretended};
use futures::StreamExt;
use jiff::Timestamp;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{Event, Node, Pod};
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use kube::runtime::wait::{Condition, await_condition};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio_util::sync::{CancellationToken, DropGuard};

pub use c5c3_harness::pretended::UNREADY;

/// What a test returns.
pub type Tested = Result<(), Box<dyn std::error::Error>>;

/// How long anything may take before a test gives up on it.
pub const PATIENCE: Duration = Duration::from_mins(1);

/// An object from its JSON.
pub fn of<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("the object of a test is one of its kind")
}

/// A cluster with the controllers at work and nodes that pretend to run pods.
pub struct Stage {
    pub cluster: TestCluster,
    pub client: Client,
    /// Where claims are given volumes.
    pub volumes: PathBuf,
    _stop: DropGuard,
}

impl Stage {
    /// Sets the stage with nodes of these names.
    pub async fn set(nodes: &[&str]) -> Self {
        Self::set_with(nodes, |_| {}).await
    }

    /// Sets the stage with controllers that are told something unusual.
    pub async fn set_with(nodes: &[&str], unusual: impl FnOnce(&mut Options)) -> Self {
        let cluster = TestCluster::in_process().await.expect("starts");
        let client = cluster.client();
        for name in nodes {
            let node: Node = of(json!({"metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}}}));
            Api::all(client.clone()).create(&PostParams::default(), &node).await.expect("a node is created");
        }
        let volumes = std::env::temp_dir().join(format!("c5c3-volumes-{}", Timestamp::now().as_nanosecond()));
        let stop = CancellationToken::new();
        let mut options = Options::new(&volumes);
        unusual(&mut options);
        tokio::spawn(c5c3_controllers::run(client.clone(), options, stop.clone()));
        let (pretending, until) = (client.clone(), stop.clone());
        tokio::spawn(async move { until.run_until_cancelled(Box::pin(pretended::node(pretending))).await });
        Self { cluster, client, volumes, _stop: stop.drop_guard() }
    }

    /// The objects of a kind in the namespace that tests live in.
    pub fn api<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::default_namespaced(self.client.clone())
    }

    /// Creates an object.
    pub async fn create<K>(&self, object: Value) -> K
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Objects,
    {
        self.api::<K>().create(&PostParams::default(), &of(object)).await.expect("an object is created")
    }

    /// Merges a change into an object.
    pub async fn change<K>(&self, name: &str, change: Value) -> K
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Objects,
    {
        let changed = self.api::<K>().patch(name, &PatchParams::default(), &Patch::Merge(change)).await;
        changed.expect("an object is changed")
    }

    /// The pods with a label, by name.
    pub async fn pods(&self, labels: &str) -> BTreeMap<String, Pod> {
        let pods = self.api::<Pod>().list(&ListParams::default().labels(labels)).await.expect("a list");
        pods.into_iter().map(|pod| (pod.name_any(), pod)).collect()
    }

    /// Waits until something holds for the pods with a label, and returns them.
    pub async fn pods_until(&self, labels: &str, holds: impl Fn(&[Pod]) -> bool) -> Vec<Pod> {
        let mut changes = watcher(self.api::<Pod>(), watcher::Config::default()).default_backoff().boxed();
        let met = async {
            loop {
                let pods: Vec<Pod> = self.pods(labels).await.into_values().collect();
                if holds(&pods) {
                    return pods;
                }
                changes.next().await;
            }
        };
        tokio::time::timeout(PATIENCE, met).await.unwrap_or_else(|_| panic!("the pods {labels} do not come to be so"))
    }

    /// What users are told about an object: `Normal SuccessfulCreate Created pod: a`.
    pub async fn told(&self, about: &str) -> Vec<String> {
        let events = self.api::<Event>().list(&ListParams::default()).await.expect("events");
        let about = events.into_iter().filter(|event| event.involved_object.name.as_deref() == Some(about));
        let text = |event: Event| [event.type_, event.reason, event.message].map(Option::unwrap_or_default).join(" ");
        about.map(text).collect()
    }

    /// Waits until users are told something about an object.
    pub async fn told_of(&self, about: &str, what: &str) {
        let mut changes = watcher(self.api::<Event>(), watcher::Config::default()).default_backoff().boxed();
        let told = async {
            while !self.told(about).await.iter().any(|told| told == what) {
                changes.next().await;
            }
        };
        tokio::time::timeout(PATIENCE, told).await.unwrap_or_else(|_| panic!("nobody is told {what} about {about}"));
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        // Most tests have made none.
        let _ = std::fs::remove_dir_all(&self.volumes);
    }
}

/// What can be read, written, printed.
pub trait Objects: Clone + std::fmt::Debug + serde::Serialize + DeserializeOwned + Send + Sync + 'static {}
impl<K: Clone + std::fmt::Debug + serde::Serialize + DeserializeOwned + Send + Sync + 'static> Objects for K {}

/// Waits for a condition of an object.
pub async fn eventually<K>(api: &Api<K>, name: &str, condition: impl Condition<K>) -> Option<K>
where
    K: Resource + Clone + std::fmt::Debug + DeserializeOwned + Send + 'static,
{
    let met = tokio::time::timeout(PATIENCE, await_condition(api.clone(), name, condition)).await;
    met.unwrap_or_else(|_| panic!("{name} does not come to be as awaited")).expect("a watch")
}

/// Whether a pod is ready.
pub fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.iter().filter_map(|status| status.conditions.as_ref()).flatten();
    conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

/// The image of a pod's first container.
pub fn image(pod: &Pod) -> &str {
    let containers = pod.spec.as_ref().map(|spec| spec.containers.as_slice()).unwrap_or_default();
    containers.first().and_then(|container| container.image.as_deref()).unwrap_or_default()
}
