//! What the tests are made of: a cluster with providers, controllers and a node that pretends, objects, and waiting.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::time::Duration;

use c5c3_api::ext::{Readiness, Ready};
use c5c3_harness::{TestCluster, pretended};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{Node, Secret};
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::discovery::ApiResource;
use kube::runtime::wait::{Condition, await_condition};
use kube::{Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio_util::sync::{CancellationToken, DropGuard};

/// How long anything may take before a test gives up on it.
pub const PATIENCE: Duration = Duration::from_mins(2);

/// What a test can do with an object.
pub trait Objects:
    Resource<DynamicType = (), Scope = NamespaceResourceScope>
    + Clone
    + Debug
    + Serialize
    + DeserializeOwned
    + Send
    + Sync
    + 'static
{
}

impl<K> Objects for K where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + Debug
        + Serialize
        + DeserializeOwned
        + Send
        + Sync
        + 'static
{
}

/// An object from its JSON.
pub fn of<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("the object of a test is one of its kind")
}

/// A cluster with everything at work.
pub struct Stage {
    pub cluster: TestCluster,
    pub client: Client,
    _volumes: tempfile::TempDir,
    _stop: DropGuard,
}

impl Stage {
    /// Sets the stage, with the kinds installed.
    pub async fn set() -> Self {
        let cluster = TestCluster::in_process().await.expect("starts");
        let client = cluster.client();
        let node: Node = of(serde_json::json!({"metadata": {"name": "oak"}}));
        Api::all(client.clone()).create(&PostParams::default(), &node).await.expect("a node is created");
        c5c3_providers::definitions::install(&client, &c5c3_providers::all_definitions()).await.expect("kinds");
        let (volumes, stop) = (tempfile::tempdir().expect("a folder"), CancellationToken::new());
        let options = c5c3_controllers::Options::new(volumes.path());
        tokio::spawn(c5c3_controllers::run(client.clone(), options, stop.clone()));
        let (pretending, until) = (client.clone(), stop.clone());
        tokio::spawn(async move { until.run_until_cancelled(Box::pin(pretended::node(pretending))).await });
        tokio::spawn(c5c3_providers::run(client.clone(), Vec::new(), stop.clone()));
        Self { cluster, client, _volumes: volumes, _stop: stop.drop_guard() }
    }

    /// The objects of a kind in the namespace that tests live in.
    pub fn api<K: Objects>(&self) -> Api<K> {
        Api::default_namespaced(self.client.clone())
    }

    /// Creates an object.
    pub async fn create<K: Objects>(&self, object: Value) -> K {
        self.api::<K>().create(&PostParams::default(), &of(object)).await.expect("an object is created")
    }

    /// Merges a change into an object.
    pub async fn change<K: Objects>(&self, name: &str, change: Value) -> K {
        let changed = self.api::<K>().patch(name, &PatchParams::default(), &Patch::Merge(change)).await;
        changed.expect("an object is changed")
    }

    /// Deletes an object, and waits until it is gone.
    pub async fn delete<K: Objects>(&self, name: &str) {
        self.api::<K>().delete(name, &DeleteParams::default()).await.expect("an object is deleted");
        self.eventually::<K>(name, |object: Option<&K>| object.is_none()).await;
    }

    /// Waits for a condition of an object.
    pub async fn eventually<K: Objects>(&self, name: &str, condition: impl Condition<K>) -> Option<K> {
        let api = self.api::<K>();
        let Ok(met) = tokio::time::timeout(PATIENCE, await_condition(api.clone(), name, condition)).await else {
            panic!("{name} does not come to be as awaited: {:#?}", api.get_opt(name).await);
        };
        met.expect("a watch")
    }

    /// Waits until an object is ready, in the words of the operator that owns its kind.
    pub async fn ready<K: Objects + Readiness>(&self, name: &str) -> K {
        let ready = |object: Option<&K>| object.is_some_and(|object| object.readiness().is_yes());
        let object = self.eventually(name, ready).await.expect("an object that is ready is there");
        self.conforms::<K>(name).await;
        object
    }

    /// What a provider writes to an object is what its operator may write to it, field by field.
    async fn conforms<K: Objects>(&self, name: &str) {
        let dynamic = Api::<DynamicObject>::default_namespaced_with(self.client.clone(), &ApiResource::erase::<K>(&()));
        let object = serde_json::to_value(dynamic.get(name).await.expect("an object")).expect("JSON");
        let problems = c5c3_contracts::problems(&object);
        assert!(problems.is_empty(), "{name}:\n{}\n{object:#}", problems.join("\n"));
    }

    /// Waits until an object is not ready for this reason, and returns what is said about it.
    pub async fn not_ready<K: Objects + Readiness>(&self, name: &str, why: &'static str) -> String {
        let so = move |object: Option<&K>| matches!(object.map(Readiness::readiness), Some(Ready::No { reason, .. }) if reason == why);
        match self.eventually(name, so).await.map(|object| object.readiness()) {
            Some(Ready::No { message, .. }) => {
                self.conforms::<K>(name).await;
                message
            }
            other => panic!("{name} is {other:?}"),
        }
    }

    /// The content of a Secret.
    pub async fn secret(&self, name: &str) -> BTreeMap<String, String> {
        let secret = self.api::<Secret>().get(name).await.expect("a Secret");
        let text = |(key, value): (String, k8s_openapi::ByteString)| (key, String::from_utf8(value.0).expect("text"));
        secret.data.unwrap_or_default().into_iter().map(text).collect()
    }
}
