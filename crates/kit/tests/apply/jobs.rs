//! Jobs: one at a time in their group, never cut short, replaced when they failed.

use std::time::Duration;

use c5c3_kit::testing::Fault;
use c5c3_kit::{Child, Plan};
use serde_json::json;

use crate::ground::{Ground, deployment, named, run, step};

fn schema(job: Child) -> Plan {
    Plan::new().step(step("schema", &[]).child(job.job_group("schema")))
}

/// A schema of release 28 that is being expanded to that of release 29.
async fn expanding() -> (Ground, String) {
    let ground = Ground::new();
    let (sync, expand) = (run("db-sync", 28), run("db-expand", 29));
    ground.apply(&schema(sync.clone())).await;
    ground.end(&sync.reference().name, "Complete", Duration::ZERO);
    ground.apply(&schema(expand.clone())).await;
    let expand = expand.reference().name;
    ground.container(&expand, &json!({"running": {}}));
    (ground, expand)
}

#[tokio::test]
async fn a_job_that_runs_is_not_deleted_when_the_plan_goes_back() {
    let (ground, expand) = expanding().await;
    let applied = ground.apply(&schema(run("db-sync", 28))).await;
    assert!(applied.is_done(), "the schema of release 28 was made long ago: {applied:?}");
    assert!(ground.get("Job", &expand).is_some(), "the running migration is left alone");
    let left = applied.left[0].message(Some("valley"));
    assert!(left.starts_with(&format!("job/{expand} is still running")), "{left}");
    assert!(applied.requeue_after.is_some());
    ground.container(&expand, &json!({"terminated": {"exitCode": 0}}));
    ground.api.put(
        &json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": format!("{expand}-x"), "namespace": "valley"},
        "status": {"phase": "Succeeded"}}),
    );
    let applied = ground.apply(&schema(run("db-sync", 28))).await;
    assert!(applied.left.is_empty() && ground.get("Job", &expand).is_none(), "{:?}", ground.names("Job"));
}

#[tokio::test]
async fn a_job_does_not_start_beside_another_of_its_group() {
    let (ground, expand) = expanding().await;
    let sync = run("db-sync", 1028);
    let applied = ground.apply(&schema(sync.clone())).await;
    let sync = sync.reference().name;
    assert!(ground.get("Job", &sync).is_none(), "the old release must not write the schema now");
    let wait = applied.outcomes[0].waits[0].message(Some("valley"));
    assert!(wait.starts_with(&format!("job/{expand} has not ended: running; {sync} starts after it")), "{wait}");
    ground.end(&expand, "Complete", Duration::ZERO);
    ground.apply(&schema(run("db-sync", 1028))).await;
    assert!(ground.get("Job", &sync).is_some());
}

#[tokio::test]
async fn a_job_of_an_older_operator_without_a_group_is_waited_for_by_its_base() {
    let ground = Ground::new();
    let old = run("db-sync", 28);
    ground.apply(&Plan::new().step(step("schema", &[]).child(old.clone()))).await;
    ground.container(&old.reference().name, &json!({"running": {}}));
    let new = run("db-sync", 29);
    ground.apply(&schema(new.clone())).await;
    assert_eq!(ground.names("Job"), [old.reference().name]);
}

#[tokio::test]
async fn a_job_that_does_nothing_makes_way_unless_it_is_wanted_itself() {
    let ground = Ground::new();
    let stuck = run("db-sync", 28);
    ground.apply(&schema(stuck.clone())).await;
    ground.container(&stuck.reference().name, &json!({"waiting": {"reason": "ImagePullBackOff"}}));
    let check = run("check", 1).job_group("schema");
    let both = schema(stuck.clone()).step(step("check", &[]).child(check.clone()));
    ground.apply(&both).await;
    assert_eq!(ground.names("Job"), [stuck.reference().name], "they would delete each other for ever");
    ground.apply(&schema(run("db-sync", 29))).await;
    ground.apply(&schema(run("db-sync", 29))).await;
    assert_eq!(ground.names("Job"), [run("db-sync", 29).reference().name]);
}

#[tokio::test]
async fn a_job_that_exists_is_not_written_again() {
    let ground = Ground::new();
    ground.apply(&schema(run("db-sync", 28))).await;
    let mut relabelled = run("db-sync", 28);
    relabelled.object.metadata.labels.get_or_insert_default().insert("new".into(), "label".into());
    assert_eq!(ground.writes(&schema(relabelled)).await, []);
}

#[tokio::test]
async fn a_failed_job_says_why_and_is_replaced_later_each_time() {
    let mut ground = Ground::new();
    let plan = schema(run("db-sync", 28));
    let name = run("db-sync", 28).reference().name;
    ground.apply(&plan).await;
    ground.container(
        &name,
        &json!({"terminated": {"exitCode": 1, "message": "Traceback:\nAccess denied for user 'mill'\n"}}),
    );
    ground.end(&name, "Failed", Duration::ZERO);
    let failed = ground.get("Job", &name);
    let applied = ground.apply(&plan).await;
    let message = applied.outcomes[0].waits[0].message(Some("valley"));
    assert_eq!(message, format!("job/{name} failed: Access denied for user 'mill'; kubectl logs job/{name} -n valley"));
    assert_eq!(ground.get("Job", &name), failed, "its logs can be read");
    assert_eq!(applied.requeue_after.map(|after| after.as_secs()), Some(60));

    ground.now += Duration::from_mins(1);
    assert!(!ground.apply(&plan).await.outcomes[0].waits[0].failed, "the next attempt starts");
    let second = ground.get("Job", &name).unwrap();
    assert_ne!(second["metadata"]["uid"], failed.unwrap()["metadata"]["uid"]);
    assert_eq!(second["metadata"]["annotations"]["c5c3.io/attempt"], "2");
    assert_eq!(second["metadata"]["labels"]["c5c3.io/step"], "schema");
    ground.end(&name, "Failed", Duration::ZERO);
    assert_eq!(ground.apply(&plan).await.requeue_after.map(|after| after.as_secs()), Some(120));
}

#[tokio::test]
async fn a_failed_job_stays_while_its_successor_may_not_start() {
    let ground = Ground::new();
    let name = run("db-sync", 28).reference().name;
    let plan = Plan::new()
        .step(step("database", &[]).child(deployment("database", "mariadb:1")))
        .step(step("schema", &["database"]).child(run("db-sync", 28)));
    ground.apply(&plan).await;
    ground.roll_out("database", true);
    ground.apply(&plan).await;
    ground.end(&name, "Failed", Duration::from_mins(5));
    ground.roll_out("database", false);
    let failed = ground.get("Job", &name);
    let applied = ground.apply(&plan).await;
    assert!(applied.outcomes[1].waits[0].failed, "{applied:?}");
    assert_eq!(ground.get("Job", &name), failed);
}

#[tokio::test]
async fn a_job_is_left_if_it_cannot_be_told_whether_it_runs() {
    let (ground, expand) = expanding().await;
    ground.api.fail(Fault { method: "GET", path: "/pods", code: 403, times: 1 });
    let _ = ground.try_apply(&schema(run("db-sync", 28))).await;
    assert!(ground.get("Job", &expand).is_some());
    assert!(ground.api.get(&named("Pod", &format!("{expand}-x"))).is_some());
}
