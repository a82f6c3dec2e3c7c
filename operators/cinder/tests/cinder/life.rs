//! Cinders on a whole API server: schemas, field owners, garbage collection and all.

use c5c3_api::openstack::Cinder;
use c5c3_operator_cinder::{BlockStorage, operator};
use c5c3_stage::{Stage, ready_is};
use k8s_openapi::api::apps::v1::StatefulSet;
use kube::ResourceExt;
use kube::api::{Api, ListParams, Patch, PatchParams};
use serde_json::json;

use crate::plans::{cinder, on_ceph, world};

pub const FAST: &str = r#"{"up": {"fast": true}, "free": {"fast": 87}, "types": {"fast": null}}"#;

async fn stage() -> Stage<BlockStorage> {
    let stage = Stage::set(operator, &world()).await;
    stage.report.is(FAST);
    stage
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cinder_becomes_ready_and_says_where_it_answers_what_runs_and_how_its_backends_are() {
    let stage = stage().await;
    let _running = stage.operate();
    stage.create(&on_ceph(&json!({}))).await;
    let ready = stage.until_ready().await;
    let status = ready.status.unwrap().service;
    assert_eq!(status.endpoint.as_deref(), Some("http://gate.cloud.svc.cluster.local:8776"));
    let has_room = |object: Option<&Cinder>| {
        let backends = object.and_then(|object| object.status.as_ref()).map(|status| status.backends.as_slice());
        backends.is_some_and(|all| all.first().is_some_and(|one| one.available_capacity_gb == Some(87)))
    };
    stage.until(has_room).await;
}

/// Waits until these StatefulSets are there and no other one, and returns the one of the backend `fast` as it is then.
async fn until_there_are(stage: &Stage<BlockStorage>, wanted: &[&str]) -> StatefulSet {
    let sets: Api<StatefulSet> = Api::namespaced(stage.client.clone(), "cloud");
    let begun = std::time::Instant::now();
    loop {
        let found = sets.list(&ListParams::default().labels("app.kubernetes.io/instance=gate")).await.unwrap();
        let names: Vec<String> = found.iter().map(ResourceExt::name_any).collect();
        if names == wanted {
            return found.into_iter().find(|set| set.name_any() == "gate-volume-fast").unwrap();
        }
        assert!(begun.elapsed() < c5c3_stage::PATIENCE, "{names:?}");
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backend_that_comes_and_goes_brings_and_takes_its_pods_and_the_others_stay_the_same() {
    let stage = stage().await;
    let both = json!([{"name": "fast", "rbd": {"cephSecretRef": {"name": "cinder-ceph-credentials"}}},
                      {"name": "vendor", "driver": "cinder.volume.drivers.vendor.Driver"}]);
    let set = async |backends: serde_json::Value| {
        let patch = Patch::Merge(json!({"spec": {"backends": backends}}));
        stage.objects().patch("gate", &PatchParams::default(), &patch).await.unwrap();
    };
    let running = stage.operate();
    stage.create(&cinder(&json!({"backends": [both[0]]}))).await;
    stage.until_ready().await;
    let first = until_there_are(&stage, &["gate-scheduler", "gate-volume-fast"]).await;
    stage.report.is(r#"{"up": {"fast": true, "vendor": true}, "free": {}, "types": {"fast": null, "vendor": null}}"#);
    set(both.clone()).await;
    until_there_are(&stage, &["gate-scheduler", "gate-volume-fast", "gate-volume-vendor"]).await;
    // The Job that removes its row waits for its pods, which therefore do not wait for the Job.
    stage.jobs.never_finish(Some("gate-backends"));
    set(json!([both[0]])).await;
    let last = until_there_are(&stage, &["gate-scheduler", "gate-volume-fast"]).await;
    // Cinder knows volumes, and work that was interrupted, by the name of the host and of the backend.
    let host = |set: &StatefulSet| (set.uid(), json!(set)["spec"]["template"]["spec"]["containers"][0]["env"].clone());
    assert_eq!(host(&first), host(&last));
    stage.jobs.never_finish(None);
    stage.until_ready().await;
    drop(running);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_spec_is_refused_with_the_field_and_nothing_is_made() {
    let stage = stage().await;
    let _running = stage.operate();
    stage.create(&on_ceph(&json!({"extraConfig": {"DEFAULT": {"enabled_backends": "other"}}}))).await;
    let refused = stage.until(ready_is("False", "InvalidSpec")).await;
    let message = refused.status.unwrap().service.conditions.remove(0).message.unwrap();
    assert!(message.contains("spec.extraConfig.DEFAULT.enabled_backends"), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_installation_ends_the_same_when_its_operators_are_killed_after_each_change() {
    stage().await.survives_an_installation(&stage().await, &on_ceph(&json!({}))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_with_the_rights_that_it_says_it_needs_is_refused_nothing() {
    assert_eq!(stage().await.refused_with_own_rights(&on_ceph(&json!({}))).await, Vec::<String>::new());
}
