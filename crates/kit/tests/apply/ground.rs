//! An owner with an API in memory, and the parts that plans are made of.

use std::time::Duration;

use c5c3_kit::apply::{Applied, Executor};
use c5c3_kit::apply_cache::ApplyCache;
use c5c3_kit::ownership::Owner;
use c5c3_kit::testing::{FakeApi, Write};
use c5c3_kit::write_limit::WriteLimit;
use c5c3_kit::{Child, Error, Plan, Ref, Step, job};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, PodTemplateSpec, Secret};
use kube::core::{ApiResource, ObjectMeta};
use serde_json::{Value, json};

/// What the owner's kinds of children are called.
const KINDS: &[(&str, &str)] = &[("apps/v1", "Deployment"), ("batch/v1", "Job"), ("v1", "Secret"), ("v1", "ConfigMap")];

pub(crate) struct Ground {
    pub(crate) api: FakeApi,
    pub(crate) now: Timestamp,
    owner: Owner,
    write_limit: WriteLimit,
    apply_cache: ApplyCache,
}

impl Ground {
    pub(crate) fn new() -> Self {
        let reference = Ref::namespaced::<ConfigMap>("valley", "north");
        Self {
            api: FakeApi::default(),
            now: Timestamp::now(),
            owner: Owner { reference, uid: "north-1".into(), manager: "miller" },
            write_limit: WriteLimit::default(),
            apply_cache: ApplyCache::default(),
        }
    }

    /// Carries out a plan, with watches that have heard of everything.
    pub(crate) async fn try_apply(&self, plan: &Plan) -> Result<Applied, Error> {
        let mut existing = Vec::new();
        for (api_version, kind) in KINDS {
            for object in self.api.all(api_version, kind) {
                let meta: ObjectMeta = serde_json::from_value(object["metadata"].clone()).unwrap();
                if self.owner.owns(&meta) {
                    existing.push((Ref::of(&resource(kind), &meta), meta));
                }
            }
        }
        let (client, owner, existing) = (self.api.client(), &self.owner, existing.as_slice());
        let (write_limit, apply_cache) = (Some(&self.write_limit), Some(&self.apply_cache));
        Executor { client: &client, owner, existing, now: self.now, write_limit, apply_cache }.apply(plan).await
    }

    pub(crate) async fn apply(&self, plan: &Plan) -> Applied {
        self.try_apply(plan).await.unwrap()
    }

    /// The writes that an apply of the plan makes.
    pub(crate) async fn writes(&self, plan: &Plan) -> Vec<Write> {
        self.api.take_writes();
        self.apply(plan).await;
        self.api.take_writes()
    }

    pub(crate) fn get(&self, kind: &str, name: &str) -> Option<Value> {
        self.api.get(&named(kind, name))
    }

    pub(crate) fn names(&self, kind: &str) -> Vec<String> {
        let (api_version, _) = KINDS.iter().find(|(_, known)| *known == kind).unwrap();
        let all = self.api.all(api_version, kind).into_iter();
        all.map(|object| object["metadata"]["name"].as_str().unwrap().to_owned()).collect()
    }

    /// Plays the controller of a workload: all replicas are up, or none.
    pub(crate) fn roll_out(&self, name: &str, up: bool) {
        let mut found = self.get("Deployment", name).unwrap();
        let replicas = i64::from(up);
        found["status"] = json!({"observedGeneration": found["metadata"]["generation"], "replicas": replicas,
            "updatedReplicas": replicas, "availableReplicas": replicas});
        self.api.put(&found);
    }

    /// Plays the Job controller and a node: the Job's container is in that state.
    pub(crate) fn container(&self, job: &str, state: &Value) {
        let status = json!({"name": "work", "image": "mill:1", "imageID": "", "ready": false, "restartCount": 0, "state": state});
        let mut pod = named("Pod", &format!("{job}-x"));
        pod["metadata"]["labels"] = json!({"batch.kubernetes.io/job-name": job});
        pod["status"] = json!({"phase": "Running", "containerStatuses": [status]});
        self.api.put(&pod);
    }

    /// Plays the Job controller: the Job has ended like that, some time ago.
    pub(crate) fn end(&self, job: &str, how: &str, ago: Duration) {
        let mut found = self.get("Job", job).unwrap();
        let at = (self.now - ago).to_string();
        found["status"] = json!({"conditions": [
            {"type": how, "status": "True", "message": "it tried too often", "lastTransitionTime": at}]});
        self.api.put(&found);
    }
}

fn resource(kind: &str) -> ApiResource {
    match kind {
        "Deployment" => ApiResource::erase::<Deployment>(&()),
        "Job" => ApiResource::erase::<Job>(&()),
        "Secret" => ApiResource::erase::<Secret>(&()),
        "ConfigMap" => ApiResource::erase::<ConfigMap>(&()),
        other => panic!("{other} is not a kind of child"),
    }
}

pub(crate) fn named(kind: &str, name: &str) -> Value {
    let (api_version, _) = KINDS.iter().find(|(_, known)| *known == kind).unwrap_or(&("v1", ""));
    json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "namespace": "valley"}})
}

/// A Deployment of an image.
pub(crate) fn deployment(name: &str, image: &str) -> Child {
    let deployment: Deployment = serde_json::from_value(json!({
        "metadata": {"name": name, "namespace": "valley"},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"part": name}}, "template": {
            "metadata": {"labels": {"part": name}}, "spec": {"containers": [{"name": "main", "image": image}]}}},
    }))
    .unwrap();
    Child::new(&deployment)
}

/// A Job that runs once for each identity.
pub(crate) fn run(base: &str, identity: i64) -> Child {
    job::run_once("valley", base, &json!(identity), PodTemplateSpec::default(), 1)
}

pub(crate) fn secret(name: &str, value: &str) -> Child {
    let metadata = json!({"name": name, "namespace": "valley"});
    Child::new(&serde_json::from_value::<Secret>(json!({"metadata": metadata, "data": {"key": value}})).unwrap())
}

/// A step of a graph.
pub(crate) fn step(name: &'static str, needs: &[&'static str]) -> Step {
    Step::new("MillReady").node(name, needs)
}
