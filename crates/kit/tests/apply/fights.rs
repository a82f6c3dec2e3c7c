//! Children that another client changes back or deletes again and again.

use c5c3_kit::{Child, Plan};
use serde_json::json;

use crate::ground::{Ground, deployment, named, secret, step};

fn plan(child: Child) -> Plan {
    Plan::new().step(step("mill", &[]).child(child))
}

/// Lets a mole change the mill back.
fn undermine(ground: &Ground, second: u8) {
    let mut undone = named("Deployment", "mill");
    undone["spec"] = json!({"replicas": 7});
    // What the API server will have noted of the next apply.
    undone["metadata"]["managedFields"] = json!([
        {"manager": "miller", "operation": "Apply", "time": format!("2026-01-01T00:00:{second:02}Z")},
        {"manager": "mole", "operation": "Update", "time": "2026-01-01T00:00:00Z"},
    ]);
    ground.api.put(&undone);
}

/// A mill that a mole has changed back as often as it was written.
async fn undermined() -> Ground {
    let ground = Ground::new();
    for second in 0..=10 {
        ground.apply(&plan(deployment("mill", "mill:1"))).await;
        undermine(&ground, second);
    }
    ground
}

#[tokio::test]
async fn a_child_that_is_changed_back_each_time_is_left_alone_and_the_other_manager_is_named() {
    let ground = undermined().await;
    ground.apply(&plan(deployment("mill", "mill:1"))).await;
    assert_eq!(ground.writes(&plan(deployment("mill", "mill:1"))).await, []);
    let applied = ground.apply(&plan(deployment("mill", "mill:1"))).await;
    let wait = &applied.outcomes[0].waits[0];
    assert_eq!((wait.reason().as_str(), wait.failed), ("WritesUndone", true));
    assert!(wait.message(Some("valley")).contains("mole"), "{wait:?}");
    assert!(applied.requeue_after.is_some(), "no watch tells when it may be written again");
}

#[tokio::test]
async fn a_child_that_was_changed_back_is_created_at_once_when_it_is_deleted() {
    let ground = undermined().await;
    ground.apply(&plan(deployment("mill", "mill:1"))).await;
    ground.api.delete(&named("Deployment", "mill"));
    assert_eq!(ground.writes(&plan(deployment("mill", "mill:1"))).await.len(), 1);
}

#[tokio::test]
async fn a_child_that_left_the_plan_and_comes_back_starts_without_a_record() {
    let ground = Ground::new();
    let mill = plan(deployment("mill", "mill:1"));
    for _ in 0..=11 {
        ground.apply(&mill).await;
        ground.api.delete(&named("Deployment", "mill"));
    }
    assert_eq!(ground.writes(&mill).await, [], "it was deleted too often");
    ground.apply(&plan(secret("key", "b25l"))).await;
    assert_eq!(ground.writes(&mill).await.len(), 1);
}

#[tokio::test]
async fn a_change_that_does_not_last_is_told_and_a_first_write_is_not() {
    let ground = Ground::new();
    let mill = plan(deployment("mill", "mill:1"));
    assert_eq!(ground.apply(&mill).await.corrected, Vec::<String>::new());
    assert_eq!(ground.apply(&mill).await.corrected, Vec::<String>::new());
    ground.api.delete(&named("Deployment", "mill"));
    let told = ground.apply(&mill).await.corrected;
    assert_eq!(told, ["deployment/mill was deleted by another client, and was created again"]);
    undermine(&ground, 1);
    let told = ground.apply(&mill).await.corrected;
    assert_eq!(told, ["deployment/mill was changed by another client, and its managed fields were set back"]);
    let told = ground.apply(&plan(deployment("mill", "mill:2"))).await.corrected;
    assert_eq!(told, Vec::<String>::new(), "it is our own change");
}
