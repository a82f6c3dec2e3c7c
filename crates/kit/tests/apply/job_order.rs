//! Which Jobs wait for each other, and which are replaced before they have ended.

use std::time::Duration;

use c5c3_kit::{Child, Plan, job};
use k8s_openapi::api::core::v1::{Container, PodSpec, PodTemplateSpec};
use serde_json::{Value, json};

use crate::ground::{Ground, named, run, step};

fn schema(job: Child) -> Plan {
    Plan::new().step(step("schema", &[]).child(job.job_group("schema")))
}

/// The same Job, whatever its image.
fn migration(image: &str) -> Child {
    let container = Container { name: "work".into(), image: Some(image.into()), ..Container::default() };
    let spec = PodSpec { containers: vec![container], ..PodSpec::default() };
    let template = PodTemplateSpec { spec: Some(spec), ..PodTemplateSpec::default() };
    job::run_once("valley", "db-sync", &json!(28), template, 1)
}

/// A migration of an image that cannot be pulled.
async fn stuck() -> (Ground, String) {
    let ground = Ground::new();
    ground.apply(&schema(migration("mill:typo"))).await;
    let name = migration("mill:typo").reference().name;
    ground.container(&name, &json!({"waiting": {"reason": "ImagePullBackOff"}}));
    (ground, name)
}

fn terminating(ground: &Ground, job: &str) {
    let mut found = named("Job", job);
    found["metadata"]["finalizers"] = json!(["valley/hold"]);
    found["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    ground.api.put(&found);
}

fn uid(ground: &Ground, job: &str) -> Value {
    ground.get("Job", job).unwrap()["metadata"]["uid"].clone()
}

#[tokio::test]
async fn jobs_of_different_groups_run_at_the_same_time() {
    let ground = Ground::new();
    let (sync, bootstrap) = (run("db-sync", 28), run("bootstrap", 28));
    let plan = schema(sync.clone()).step(step("bootstrap", &[]).child(bootstrap.clone().job_group("identity")));
    ground.apply(&plan).await;
    assert_eq!(ground.names("Job"), [bootstrap.reference().name, sync.reference().name]);
}

#[tokio::test]
async fn a_job_that_has_ended_is_deleted_whatever_was_last_heard_of_its_pod() {
    let ground = Ground::new();
    let old = run("db-sync", 28);
    ground.apply(&schema(old.clone())).await;
    ground.container(&old.reference().name, &json!({"running": {}}));
    ground.end(&old.reference().name, "Complete", Duration::ZERO);
    let check = run("check", 1);
    let plan = schema(check.clone());
    ground.apply(&plan).await;
    ground.end(&check.reference().name, "Complete", Duration::ZERO);
    let applied = ground.apply(&plan).await;
    assert!(applied.left.is_empty(), "{applied:?}");
    assert_eq!(ground.names("Job"), [check.reference().name]);
}

#[tokio::test]
async fn a_job_that_cannot_start_is_replaced_when_its_template_changes() {
    let (ground, name) = stuck().await;
    let before = uid(&ground, &name);
    let deleted = ground.writes(&schema(migration("mill:1"))).await;
    assert_eq!((deleted.len(), deleted[0].method.as_str()), (1, "DELETE"));
    assert_eq!(deleted[0].body["propagationPolicy"], "Foreground", "its pod must not outlive it");
    assert!(!ground.apply(&schema(migration("mill:1"))).await.is_done());
    assert_ne!(uid(&ground, &name), before);
    let image = &ground.get("Job", &name).unwrap()["spec"]["template"]["spec"]["containers"][0]["image"];
    assert_eq!(image, "mill:1");
}

#[tokio::test]
async fn a_replaced_job_is_waited_for_until_it_is_created_again() {
    let (ground, _) = stuck().await;
    let applied = ground.apply(&schema(migration("mill:1"))).await;
    assert_eq!(applied.outcomes[0].waits.len(), 1, "{applied:?}");
}

#[tokio::test]
async fn a_job_keeps_its_old_template_while_it_runs_and_after_it_has_ended() {
    let (ground, name) = stuck().await;
    assert_eq!(ground.writes(&schema(migration("mill:typo"))).await, [], "its template is the same");
    ground.container(&name, &json!({"running": {}}));
    assert_eq!(ground.writes(&schema(migration("mill:1"))).await, [], "it runs");
    ground.container(&name, &json!({"waiting": {"reason": "ImagePullBackOff"}}));
    ground.end(&name, "Complete", Duration::ZERO);
    assert_eq!(ground.writes(&schema(migration("mill:1"))).await, [], "it has done its work");
    assert!(ground.apply(&schema(migration("mill:1"))).await.is_done());
}

#[tokio::test]
async fn a_job_that_is_terminating_or_has_no_recorded_template_is_not_replaced() {
    let (ground, name) = stuck().await;
    terminating(&ground, &name);
    assert_eq!(ground.writes(&schema(migration("mill:1"))).await, []);

    let ground = Ground::new();
    let mut old = migration("mill:typo");
    old.object.metadata.annotations = None;
    ground.apply(&schema(old)).await;
    assert_eq!(ground.writes(&schema(migration("mill:1"))).await, [], "an older operator made it");
}

#[tokio::test]
async fn a_job_waits_for_one_of_its_group_that_is_terminating_and_does_not_delete_it_again() {
    let (ground, name) = stuck().await;
    terminating(&ground, &name);
    ground.api.take_writes();
    let applied = ground.apply(&schema(run("db-expand", 29))).await;
    assert_eq!(ground.api.take_writes(), []);
    assert_eq!(applied.outcomes[0].waits[0].object.name, name);
}
