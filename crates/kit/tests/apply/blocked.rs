//! Steps that wait for others: what they leave alone, and which children they wait for.

use c5c3_kit::config::ConfigFiles;
use c5c3_kit::{Child, Plan, Ref, Step, Wait};
use k8s_openapi::api::core::v1::Secret;

use crate::ground::{Ground, deployment, secret, step};

/// A plan of a well, and a mill with these children that needs it.
fn behind(children: impl IntoIterator<Item = Child>) -> Plan {
    Plan::new()
        .step(step("well", &[]).child(deployment("well", "well:1")))
        .step(step("mill", &["well"]).children(children))
}

/// All children of the plan were created while the well was ready. It is not ready any more.
async fn blocked_after(plan: &Plan) -> Ground {
    let ground = Ground::new();
    ground.apply(plan).await;
    ground.roll_out("well", true);
    ground.apply(plan).await;
    ground.roll_out("well", false);
    ground
}

#[tokio::test]
async fn a_blocked_step_without_children_is_not_done() {
    let ground = Ground::new();
    let plan = Plan::new()
        .step(step("well", &[]).child(deployment("well", "well:1")))
        .step(step("inspection", &["well"]).childless());
    assert!(!ground.apply(&plan).await.outcomes[1].is_done());
    ground.roll_out("well", true);
    assert!(ground.apply(&plan).await.outcomes[1].is_done());
}

#[tokio::test]
async fn outside_a_graph_a_blocked_step_does_not_change_its_children() {
    let plan = |image: &str| {
        Plan::new()
            .step(Step::new("WellReady").child(deployment("well", "well:1")))
            .step(Step::new("MillReady").child(deployment("mill", image)))
    };
    let ground = blocked_after(&plan("mill:1")).await;
    let applied = ground.apply(&plan("mill:2")).await;
    assert!(applied.outcomes[1].blocked.is_some(), "{applied:?}");
    let mill = ground.get("Deployment", "mill").unwrap();
    assert_eq!(mill["spec"]["template"]["spec"]["containers"][0]["image"], "mill:1");
}

#[tokio::test]
async fn a_blocked_step_names_all_steps_that_it_waits_for() {
    let ground = Ground::new();
    let plan = Plan::new()
        .step(step("well", &[]).child(deployment("well", "well:1")))
        .step(step("quarry", &[]).child(deployment("quarry", "quarry:1")))
        .step(step("mill", &["well", "quarry"]).child(deployment("mill", "mill:1")));
    let blocked = ground.apply(&plan).await.outcomes[2].blocked.clone().unwrap();
    assert!(blocked.ends_with("well and quarry are ready"), "{blocked}");
    ground.roll_out("well", true);
    let blocked = ground.apply(&plan).await.outcomes[2].blocked.clone().unwrap();
    assert!(blocked.ends_with("quarry is ready") && !blocked.contains("well"), "{blocked}");
}

#[tokio::test]
async fn a_blocked_step_does_not_create_the_first_generation_of_a_configuration() {
    let config = |base: &str| ConfigFiles::new("valley", base).file("mill.conf", "fast".to_owned().into()).child();
    let ground = blocked_after(&behind([secret("ledger", "b25l"), config("mill-config")])).await;
    let plan = behind([secret("ledger", "b25l"), config("mill-config"), config("mill-policy")]);
    let applied = ground.apply(&plan).await;
    assert!(applied.outcomes[1].blocked.is_some(), "{applied:?}");
    let names = ground.names("Secret");
    assert!(!names.iter().any(|name| name.starts_with("mill-policy")), "{names:?}");
}

#[tokio::test]
async fn a_step_is_done_though_a_child_that_it_does_not_wait_for_is_not_ready() {
    let ground = Ground::new();
    let mill =
        step("mill", &[]).child(deployment("sign", "sign:1").readiness_optional()).child(deployment("mill", "mill:1"));
    let plan = Plan::new().step(mill);
    let waits = ground.apply(&plan).await.outcomes[0].waits.clone();
    assert_eq!(waits.iter().map(|wait| wait.object.name.as_str()).collect::<Vec<_>>(), ["mill"]);
    ground.roll_out("mill", true);
    assert!(ground.apply(&plan).await.is_done());
}

#[tokio::test]
async fn a_blocked_step_waits_for_the_same_children_as_one_that_is_not_blocked() {
    let plan = behind([deployment("sign", "sign:1").readiness_optional(), deployment("mill", "mill:1")]);
    let ground = blocked_after(&plan).await;
    let mut waiting = plan.clone();
    waiting.steps[1].waits = vec![Wait::on(&Ref::namespaced::<Secret>("valley", "credentials")).now("not found")];
    for plan in [&plan, &waiting] {
        ground.roll_out("mill", false);
        let applied = ground.apply(plan).await;
        let waits: Vec<_> = applied.outcomes[1].waits.iter().map(|wait| wait.object.name.as_str()).collect();
        assert_eq!(waits, ["mill"]);
        ground.roll_out("mill", true);
        let applied = ground.apply(plan).await;
        assert!(applied.outcomes[1].is_done(), "{applied:?}");
    }
}

#[tokio::test]
async fn a_wait_for_a_child_says_why_the_child_is_needed() {
    let ground = Ground::new();
    let mill = deployment("mill", "mill:1").because("the town eats bread");
    let applied = ground.apply(&Plan::new().step(step("mill", &[]).child(mill))).await;
    assert_eq!(applied.outcomes[0].waits[0].because.as_deref(), Some("the town eats bread"));
}
