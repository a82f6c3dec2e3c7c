//! What is read before a child is written: as little as can be.

use c5c3_kit::{Child, Plan};
use serde_json::json;

use crate::ground::{Ground, deployment, named, secret, step};

fn plan(child: Child) -> Plan {
    Plan::new().step(step("mill", &[]).child(child))
}

/// The reads of an apply.
async fn reads(ground: &Ground, plan: &Plan) -> Vec<String> {
    ground.api.take_reads();
    ground.apply(plan).await;
    ground.api.take_reads()
}

#[tokio::test]
async fn a_child_that_is_to_be_changed_is_written_without_a_read() {
    let ground = Ground::new();
    ground.apply(&plan(deployment("mill", "mill:1"))).await;
    assert_eq!(reads(&ground, &plan(deployment("mill", "mill:2"))).await, [""; 0]);
}

#[tokio::test]
async fn a_secret_that_another_client_changed_is_written_without_a_read() {
    let ground = Ground::new();
    ground.apply(&plan(secret("key", "b25l"))).await;
    let mut meddled = named("Secret", "key");
    meddled["data"] = json!({"key": "dHdv"});
    ground.api.put(&meddled);
    assert_eq!(reads(&ground, &plan(secret("key", "b25l"))).await, [""; 0]);
    assert_eq!(ground.get("Secret", "key").unwrap()["data"]["key"], "b25l");
}
