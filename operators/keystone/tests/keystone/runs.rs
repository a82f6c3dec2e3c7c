//! Jobs that do the same thing: never two of them at once.

use c5c3_api::openstack::Keystone;
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::json;

use crate::world::{Stage, keystone, stage};
use c5c3_stage::PATIENCE;

/// The bootstrap Jobs that there are.
async fn bootstraps(stage: &Stage) -> Vec<String> {
    let jobs = stage.api(&json!({"apiVersion": "batch/v1", "kind": "Job"}));
    let all = jobs.list(&ListParams::default()).await.unwrap().items.into_iter().map(|job| job.name_any());
    all.filter(|name| name.starts_with("gate-bootstrap-")).collect()
}

/// Waits until there is one bootstrap Job, and it is not this one.
async fn another(stage: &Stage, than: &str) -> String {
    let look = async {
        loop {
            if let [one] = bootstraps(stage).await.as_slice()
                && one != than
            {
                return one.clone();
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, look).await.expect("no other bootstrap Job")
}

/// A Keystone whose bootstrap runs and runs, and the name of the Job.
async fn begun(stage: &Stage) -> String {
    stage.jobs.never_finish(Some("gate-bootstrap-"));
    stage.create(&keystone(&json!({}))).await;
    another(stage, "").await
}

async fn change_password(stage: &Stage) {
    let secrets: Api<Secret> = Api::namespaced(stage.client.clone(), "cloud");
    let password = Patch::Merge(json!({"stringData": {"password": "another"}}));
    secrets.patch("keystone-admin-credentials", &PatchParams::default(), &password).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_works_is_let_finish_before_the_next_one_starts() {
    let stage = stage().await;
    let _running = stage.operate();
    let first = begun(&stage).await;
    let pods: Api<Pod> = Api::namespaced(stage.client.clone(), "cloud");
    let pod = json!({"metadata": {"name": "at-work", "labels": {"batch.kubernetes.io/job-name": first}},
                     "spec": {"containers": [{"name": "bootstrap", "image": "keystone"}]}});
    pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
    let works = json!({"status": {"containerStatuses": [{"name": "bootstrap", "image": "", "imageID": "", "ready": true,
        "restartCount": 0, "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}}]}});
    pods.patch_status("at-work", &PatchParams::default(), &Patch::Merge(works)).await.unwrap();

    change_password(&stage).await;
    let is_told = |object: Option<&Keystone>| {
        let conditions = object.and_then(|object| object.status.as_ref()).map(|status| &status.service.conditions);
        let about = format!("job/{first} has not ended");
        let says = |text: Option<&String>| text.is_some_and(|text| text.contains(&about));
        conditions.is_some_and(|all| all.iter().any(|c| c.r#type == "BootstrapReady" && says(c.message.as_ref())))
    };
    stage.until(is_told).await;
    assert_eq!(bootstraps(&stage).await, [first.as_str()]);

    stage.jobs.never_finish(None);
    stage.until_ready().await;
    assert_ne!(another(&stage, &first).await, first);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_does_nothing_makes_way_for_the_next_one() {
    let stage = stage().await;
    let _running = stage.operate();
    let first = begun(&stage).await;
    change_password(&stage).await;
    another(&stage, &first).await;
    stage.jobs.never_finish(None);
    stage.until_ready().await;
}
