//! Deletions of children that are no longer wanted: how they are sent, and what their answers mean.

use c5c3_kit::Plan;
use c5c3_kit::config::{ConfigFiles, REVISION_HISTORY_LIMIT};
use c5c3_kit::testing::{Fault, Write};
use serde_json::json;

use crate::ground::{Ground, deployment, named, secret, step};

/// A mill that is no longer wanted, and a plan without it.
async fn unwanted() -> (Ground, Plan) {
    let ground = Ground::new();
    let key = || step("key", &[]).child(secret("key", "b25l"));
    ground.apply(&Plan::new().step(key()).step(step("mill", &[]).child(deployment("mill", "mill:1")))).await;
    (ground, Plan::new().step(key()).without_step("mill"))
}

fn deletions(writes: Vec<Write>) -> Vec<Write> {
    writes.into_iter().filter(|write| write.method == "DELETE").collect()
}

#[tokio::test]
async fn a_deletion_names_the_uid_that_was_seen_and_a_workload_stays_until_its_pods_have_ended() {
    let (ground, plan) = unwanted().await;
    let uid = ground.get("Deployment", "mill").unwrap()["metadata"]["uid"].clone();
    let deleted = deletions(ground.writes(&plan).await);
    assert_eq!(deleted.len(), 1, "{deleted:?}");
    assert!(uid.is_string());
    assert_eq!(deleted[0].body["preconditions"]["uid"], uid, "an object of the same name may have come since");
    assert_eq!(deleted[0].body["propagationPolicy"], "Foreground");
}

#[tokio::test]
async fn a_child_that_is_terminating_is_not_deleted_again() {
    let (ground, plan) = unwanted().await;
    let mut terminating = named("Deployment", "mill");
    terminating["metadata"]["finalizers"] = json!(["valley/hold"]);
    terminating["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    ground.api.put(&terminating);
    assert_eq!(deletions(ground.writes(&plan).await), []);
}

#[tokio::test]
async fn a_deletion_of_what_is_gone_or_was_replaced_is_no_failure() {
    for code in [404, 409] {
        let (ground, plan) = unwanted().await;
        ground.api.fail(Fault { method: "DELETE", path: "deployments/mill", code, times: 1 });
        let applied = ground.apply(&plan).await;
        assert!(applied.is_done() && applied.left.is_empty(), "{code}: {applied:?}");
    }
    let (ground, plan) = unwanted().await;
    ground.api.fail(Fault { method: "DELETE", path: "deployments/mill", code: 500, times: 1 });
    assert_eq!(ground.try_apply(&plan).await.unwrap_err().reason(), "DeleteFailed");
}

#[tokio::test]
async fn older_generations_of_each_configuration_are_kept_and_no_more_of_them() {
    let ground = Ground::new();
    let plan = |speed: usize, colour: usize| {
        let config = |base: &str, content: usize| {
            ConfigFiles::new("valley", base).file("mill.conf", content.to_string().into()).child()
        };
        let children = [config("gear", speed), config("paint", colour), secret("key", "b25l")];
        Plan::new().step(step("mill", &[]).children(children))
    };
    for generation in 0..=REVISION_HISTORY_LIMIT + 2 {
        ground.apply(&plan(generation, 0)).await;
    }
    for generation in 0..=REVISION_HISTORY_LIMIT + 2 {
        ground.apply(&plan(0, generation)).await;
    }
    let of = |base: &str| ground.names("Secret").iter().filter(|name| name.starts_with(base)).count();
    assert_eq!(
        (of("gear"), of("paint"), of("key")),
        (REVISION_HISTORY_LIMIT + 1, REVISION_HISTORY_LIMIT + 1, 1),
        "{:?}",
        ground.names("Secret")
    );
}
