//! Steps that are undecided, childless, left out or dropped, and what a blocked step may change.

use c5c3_kit::config::ConfigFiles;
use c5c3_kit::{Plan, Ref, Wait};
use k8s_openapi::api::core::v1::Secret;
use serde_json::json;

use crate::ground::{Ground, deployment, run, secret, step};

fn credentials() -> Wait {
    Wait::on(&Ref::namespaced::<Secret>("valley", "credentials")).now("not found")
}

/// A mill that runs, and whose schema is being contracted.
async fn contracting() -> Ground {
    let ground = Ground::new();
    let plan = Plan::new()
        .step(step("mill", &[]).child(deployment("mill", "mill:1")))
        .step(step("contract", &[]).child(run("db-contract", 29)));
    ground.apply(&plan).await;
    ground.roll_out("mill", true);
    ground.container(&run("db-contract", 29).reference().name, &json!({"running": {}}));
    ground
}

#[tokio::test]
async fn an_undecided_step_keeps_its_children_and_is_not_done() {
    let ground = contracting().await;
    let undecided = Plan::new()
        .step(step("mill", &[]).undecided([credentials()]))
        .step(step("contract", &[]).undecided([credentials()]));
    let applied = ground.apply(&undecided).await;
    assert_eq!((ground.names("Deployment").len(), ground.names("Job").len()), (1, 1));
    assert_eq!(applied.outcomes[0].waits, [credentials()]);
    assert!(!applied.is_done() && applied.left.is_empty());
    let silent = ground.apply(&Plan::new().step(step("mill", &[]).undecided([]))).await;
    assert_eq!(silent.outcomes[0].blocked.as_deref(), Some("mill cannot be planned yet"));
    assert_eq!(ground.names("Deployment").len(), 1);
}

#[tokio::test]
async fn a_childless_step_takes_its_children_with_it() {
    let ground = contracting().await;
    let plan = Plan::new().step(step("mill", &[]).childless()).step(step("contract", &[]).undecided([credentials()]));
    ground.apply(&plan).await;
    assert_eq!((ground.names("Deployment").len(), ground.names("Job").len()), (0, 1));
}

#[tokio::test]
async fn the_children_of_a_step_that_was_left_out_stay_until_the_whole_plan_is_done() {
    let ground = Ground::new();
    let mill = || step("mill", &[]).child(deployment("mill", "mill:1"));
    let shop = || step("shop", &[]).child(deployment("shop", "shop:1"));
    ground.apply(&Plan::new().step(mill()).step(shop())).await;
    ground.apply(&Plan::new().step(mill())).await;
    assert!(ground.get("Deployment", "shop").is_some(), "the mill is not ready");
    ground.roll_out("mill", true);
    ground.apply(&Plan::new().step(mill())).await;
    assert!(ground.get("Deployment", "shop").is_none());
    ground.apply(&Plan::new().step(mill()).step(shop())).await;
    ground.roll_out("mill", false);
    ground.apply(&Plan::new().step(mill()).without_step("shop")).await;
    assert!(ground.get("Deployment", "shop").is_none(), "it was dropped on purpose");
}

#[tokio::test]
async fn a_running_job_of_a_step_that_was_left_out_is_never_deleted() {
    let ground = contracting().await;
    let applied = ground.apply(&Plan::new().step(step("mill", &[]).child(deployment("mill", "mill:1")))).await;
    assert!(applied.is_done());
    assert_eq!((ground.names("Job").len(), applied.left.len()), (1, 1));
}

#[tokio::test]
async fn a_dropped_step_stays_until_those_are_done_that_needed_it() {
    let ground = Ground::new();
    let well = step("well", &[]).child(deployment("well", "well:1"));
    ground.apply(&Plan::new().step(well)).await;
    let plan = Plan::new().step(step("mill", &["well"]).child(deployment("mill", "mill:1"))).without_step("well");
    ground.apply(&plan).await;
    assert_eq!(ground.names("Deployment"), ["mill", "well"], "the mill starts without the well, and is not ready yet");
    ground.roll_out("mill", true);
    ground.apply(&plan).await;
    assert_eq!(ground.names("Deployment"), ["mill"]);
}

/// A mill behind a well that is down, with this image and CPU, and a configuration.
fn behind(image: &str, cpu: &str, speed: &str) -> Plan {
    let mut mill = deployment("mill", image).version(image);
    mill.object.data["spec"]["template"]["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": cpu}});
    let config = ConfigFiles::new("valley", "mill-config").file("mill.conf", speed.to_owned().into());
    let step_of_mill = step("mill", &["well"]).child(config.child()).child(mill).child(secret("ledger", "b25l"));
    Plan::new().step(step("well", &[]).child(deployment("well", "well:1"))).step(step_of_mill)
}

#[tokio::test]
async fn a_blocked_step_changes_what_exists_and_neither_creates_nor_changes_versions() {
    let ground = Ground::new();
    let applied = ground.apply(&behind("mill:1", "1", "slow")).await;
    assert_eq!(applied.outcomes[1].blocked.as_deref(), Some("mill starts when well is ready"));
    assert!(ground.get("Deployment", "mill").is_none());
    ground.roll_out("well", true);
    ground.apply(&behind("mill:1", "1", "slow")).await;
    ground.roll_out("mill", true);
    ground.roll_out("well", false);

    let container = || ground.get("Deployment", "mill").unwrap()["spec"]["template"]["spec"]["containers"][0].clone();
    let applied = ground.apply(&behind("mill:1", "2", "fast")).await;
    assert_eq!(container()["resources"]["requests"]["cpu"], "2", "more of what it needs, in an outage");
    assert_eq!(ground.names("Secret").iter().filter(|name| name.starts_with("mill-config")).count(), 2);
    let wait = applied.outcomes[1].waits[0].message(Some("valley"));
    assert!(applied.outcomes[1].blocked.is_none() && wait.starts_with("deployment/mill is not Available"), "{wait}");

    ground.roll_out("mill", true);
    let applied = ground.apply(&behind("mill:2", "3", "fast")).await;
    assert_eq!((&container()["image"], &container()["resources"]["requests"]["cpu"]), (&json!("mill:1"), &json!("2")));
    let blocked = applied.outcomes[1].blocked.as_deref();
    assert_eq!(
        blocked,
        Some("deployment/mill stays at version mill:1 and does not change to mill:2 until well is ready")
    );
    ground.roll_out("well", true);
    ground.apply(&behind("mill:2", "3", "fast")).await;
    assert_eq!(container()["image"], "mill:2");
}

#[tokio::test]
async fn a_kept_child_of_a_blocked_step_counts_as_existing() {
    let ground = Ground::new();
    let plan = |value: &str| {
        let mill =
            step("mill", &["well"]).child(secret("ledger", value).kept(true)).child(deployment("mill", "mill:1"));
        Plan::new().step(step("well", &[]).child(deployment("well", "well:1"))).step(mill)
    };
    ground.apply(&plan("b25l")).await;
    ground.roll_out("well", true);
    ground.apply(&plan("b25l")).await;
    ground.roll_out("mill", true);
    ground.roll_out("well", false);
    let applied = ground.apply(&plan("dHdv")).await;
    assert!(applied.outcomes[1].is_done(), "{applied:?}");
    assert_eq!(ground.get("Secret", "ledger").unwrap()["data"]["key"], "dHdv");
    let mut waiting = plan("dHJlcw==");
    waiting.steps[1].waits = vec![credentials()];
    let applied = ground.apply(&waiting).await;
    assert!(applied.outcomes[1].is_done(), "its children are looked at: {applied:?}");
    assert_eq!(ground.get("Secret", "ledger").unwrap()["data"]["key"], "dHdv", "and not changed before it may be");
}

#[tokio::test]
async fn a_blocked_step_stops_at_the_first_child_that_it_may_not_create() {
    let ground = Ground::new();
    let plan = |first: &str| {
        let mill = step("mill", &["well"]).child(deployment(first, "mill:1")).child(secret("ledger", first));
        Plan::new().step(step("well", &[]).child(deployment("well", "well:1"))).step(mill)
    };
    ground.apply(&plan("b25l")).await;
    ground.roll_out("well", true);
    ground.apply(&plan("b25l")).await;
    ground.roll_out("well", false);
    let applied = ground.apply(&plan("dHdv")).await;
    assert_eq!(ground.get("Secret", "ledger").unwrap()["data"]["key"], "b25l", "it may stand on the new Deployment");
    assert_eq!(applied.outcomes[1].blocked.as_deref(), Some("mill starts when well is ready"));
}

#[tokio::test]
async fn a_child_in_order_is_created_when_those_before_it_are_ready_and_changed_at_any_time() {
    let ground = Ground::new();
    let plan = |key: &str| {
        let mill = step("mill", &[]).child(deployment("mill", "mill:1"));
        Plan::new().step(mill.child(secret("ledger", key).in_order()).child(secret("sack", key)))
    };
    let applied = ground.apply(&plan("b25l")).await;
    assert_eq!(ground.names("Secret"), ["sack"], "the mill is not ready");
    assert!(applied.outcomes[0].waits[0].message(None).contains("mill"), "{:?}", applied.outcomes);
    ground.roll_out("mill", true);
    assert!(ground.apply(&plan("b25l")).await.is_done());
    assert_eq!(ground.names("Secret"), ["ledger", "sack"]);
    ground.roll_out("mill", false);
    ground.apply(&plan("dHdv")).await;
    assert_eq!(ground.get("Secret", "ledger").unwrap()["data"]["key"], "dHdv");
}

#[tokio::test]
async fn a_partial_plan_deletes_nothing() {
    let ground = contracting().await;
    let partial = Plan { partial: true, ..Plan::new().step(step("key", &[]).child(secret("key", "b25l"))) };
    assert!(ground.apply(&partial).await.is_done());
    assert_eq!((ground.names("Deployment").len(), ground.names("Job").len()), (1, 1));
}
