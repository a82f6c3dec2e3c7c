//! Pods that mount claims.

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::StorageClass;
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};

use crate::fixtures::{Stage, asking, change, create, until};

const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

struct Storage {
    claims: Api<PersistentVolumeClaim>,
    volumes: Api<PersistentVolume>,
}

impl Storage {
    /// A class that waits for pods, and whatever makes its volumes.
    async fn of(stage: &Stage, provisioner: &str) -> Self {
        let class = json!({
            "metadata": {"name": "slow"}, "provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer",
        });
        create(&Api::<StorageClass>::all(stage.client.clone()), class).await;
        Self { claims: Api::default_namespaced(stage.client.clone()), volumes: Api::all(stage.client.clone()) }
    }

    async fn claim(&self, name: &str) {
        let spec = json!({
            "storageClassName": "slow", "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}},
        });
        create(&self.claims, json!({"metadata": {"name": name}, "spec": spec})).await;
    }

    async fn volume(&self, name: &str, node: &str) {
        let here = json!([{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]);
        let spec = json!({
            "storageClassName": "slow", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"},
            "hostPath": {"path": "/data"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": here}]}},
        });
        create(&self.volumes, json!({"metadata": {"name": name}, "spec": spec})).await;
    }

    /// Does what the controller of claims does in the end.
    async fn bind(&self, claim: &str, volume: &str) {
        change(&self.claims, claim, json!({"spec": {"volumeName": volume}})).await;
        let bound = json!({"status": {"phase": "Bound"}});
        self.claims.patch_status(claim, &PatchParams::default(), &Patch::Merge(bound)).await.expect("a claim is bound");
    }

    async fn selected(&self, claim: &str) -> String {
        let selected = |claim: &PersistentVolumeClaim| claim.metadata.annotations.clone()?.get(SELECTED_NODE).cloned();
        let is_selected = |claim: Option<&PersistentVolumeClaim>| claim.is_some_and(|claim| selected(claim).is_some());
        until(&self.claims, claim, is_selected).await.as_ref().and_then(selected).unwrap_or_default()
    }
}

fn mounting(claim: &str) -> Value {
    let mut spec = asking("1");
    spec["volumes"] = json!([{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]);
    spec
}

#[tokio::test]
async fn a_claim_gets_its_volume_before_the_pod_gets_its_node() {
    let stage = Stage::set(&["ash", "oak"]).await;
    let storage = Storage::of(&stage, "example.com/maker").await;
    storage.claim("data").await;
    stage.pod("busy", asking("1")).await;
    assert_eq!(stage.node_of("busy").await, "ash");
    stage.pod("db", mounting("data")).await;
    assert_eq!(storage.selected("data").await, "oak", "the emptier node");
    assert_eq!(stage.placed().await, ["ash"], "the pod waits for the volume");
    storage.volume("made", "oak").await;
    storage.bind("data", "made").await;
    assert_eq!(stage.node_of("db").await, "oak");
}

#[tokio::test]
async fn a_volume_that_is_there_is_given_to_the_claim() {
    let stage = Stage::set(&["ash", "oak"]).await;
    let storage = Storage::of(&stage, "kubernetes.io/no-provisioner").await;
    storage.volume("local", "oak").await;
    storage.claim("data").await;
    stage.pod("db", mounting("data")).await;
    let claimed = |volume: Option<&PersistentVolume>| volume.is_some_and(|volume| claim_of(volume).is_some());
    let volume = until(&storage.volumes, "local", claimed).await.expect("the volume is there");
    assert_eq!(claim_of(&volume).as_deref(), Some("data"));
    storage.bind("data", "local").await;
    assert_eq!(stage.node_of("db").await, "oak");
}

fn claim_of(volume: &PersistentVolume) -> Option<String> {
    volume.spec.as_ref()?.claim_ref.as_ref()?.name.clone()
}

#[tokio::test]
async fn a_pod_that_goes_while_its_volume_is_made_leaves_its_place() {
    let stage = Stage::set(&["oak"]).await;
    let storage = Storage::of(&stage, "example.com/maker").await;
    storage.claim("data").await;
    let mut spec = mounting("data");
    spec["containers"][0]["resources"]["requests"]["cpu"] = json!("2");
    stage.pod("db", spec).await;
    assert_eq!(storage.selected("data").await, "oak");
    stage.pod("next", asking("2")).await;
    let full = "0/1 nodes are available: 1 Insufficient cpu. preemption: 0/1 nodes are available: 1 No preemption victims \
                found for incoming pod.";
    stage.is_told("next", full).await;
    stage.pods.delete("db", &DeleteParams::default().grace_period(0)).await.unwrap();
    assert_eq!(stage.node_of("next").await, "oak");
}

#[tokio::test]
async fn a_claim_that_is_missing_is_named_and_ends_the_wait_when_it_comes() {
    let stage = Stage::set(&["oak"]).await;
    let storage = Storage::of(&stage, "example.com/maker").await;
    stage.pod("db", mounting("data")).await;
    let missing = "0/1 nodes are available: persistentvolumeclaim \"data\" not found. preemption: 0/1 nodes are available: 1 \
                   Preemption is not helpful for scheduling.";
    stage.is_told("db", missing).await;
    stage.has_event("db", &format!("Warning FailedScheduling {missing}")).await;
    storage.volume("made", "oak").await;
    storage.claim("data").await;
    storage.bind("data", "made").await;
    assert_eq!(stage.node_of("db").await, "oak");
}
