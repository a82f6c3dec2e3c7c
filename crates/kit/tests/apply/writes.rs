//! Single writes: skipped when nothing has changed, refused when they are based on an old state, stopped when undone.

use c5c3_kit::testing::Fault;
use c5c3_kit::{Child, Plan, random_secret};
use serde_json::{Value, json};

use crate::ground::{Ground, deployment, named, secret, step};

fn plan(child: Child) -> Plan {
    Plan::new().step(step("mill", &[]).child(child))
}

fn version(object: &Value) -> Option<String> {
    object["metadata"]["resourceVersion"].as_str().map(ToOwned::to_owned)
}

#[tokio::test]
async fn an_unchanged_child_is_not_written_again() {
    let ground = Ground::new();
    let grind = |stones: i64| {
        let mut mill = deployment("mill", "mill:1");
        mill.object.data["spec"]["replicas"] = stones.into();
        plan(mill).step(step("key", &[]).child(secret("key", "b25l")))
    };
    assert_eq!(ground.writes(&grind(1)).await.len(), 2);
    assert_eq!(ground.writes(&grind(1)).await, []);
    let changed = ground.writes(&grind(2)).await;
    assert_eq!((changed.len(), changed[0].method.as_str()), (1, "PATCH apply"));

    let mut meddled = named("Deployment", "mill");
    meddled["spec"] = json!({"replicas": 7});
    ground.api.put(&meddled);
    assert_eq!(ground.writes(&grind(2)).await.len(), 1, "a changed child is written again");
    assert_eq!(ground.get("Deployment", "mill").unwrap()["spec"]["replicas"], 2);
    ground.api.delete(&named("Secret", "key"));
    assert_eq!(ground.writes(&grind(2)).await.len(), 1, "a deleted child is created again");
}

#[tokio::test]
async fn the_verdict_of_an_unchanged_child_stays() {
    let ground = Ground::new();
    let mill = plan(deployment("mill", "mill:1"));
    assert!(!ground.apply(&mill).await.is_done());
    assert!(!ground.apply(&mill).await.is_done());
    ground.roll_out("mill", true);
    assert!(ground.apply(&mill).await.is_done());
    assert!(ground.apply(&mill).await.is_done());
}

#[tokio::test]
async fn a_secret_with_generated_values_is_neither_read_nor_written_while_it_stays_as_it_is() {
    let ground = Ground::new();
    let key = plan(random_secret::child("valley", "key", &[], &["teeth"]));
    ground.apply(&key).await;
    let made = ground.get("Secret", "key").unwrap();
    assert_eq!(ground.writes(&key).await, [], "its labels are right");
    ground.api.fail(Fault { method: "GET", path: "secrets/key", code: 500, times: 1 });
    assert!(ground.apply(&key).await.is_done(), "nothing was read");
    ground.api.delete(&named("Secret", "key"));
    assert!(ground.try_apply(&key).await.is_err(), "now it is read");
    ground.apply(&key).await;
    assert_ne!(ground.get("Secret", "key").unwrap()["data"]["teeth"], made["data"]["teeth"]);
}

#[tokio::test]
async fn a_secret_that_changed_since_it_was_read_is_not_overwritten() {
    let ground = Ground::new();
    ground.apply(&plan(secret("keys", "b25l").based_on(None))).await;
    let read = version(&ground.get("Secret", "keys").unwrap());
    let mut restored = named("Secret", "keys");
    restored["data"] = json!({"key": "cmVzdG9yZWQ="});
    let restored = ground.api.put(&restored);
    let conflict = ground.try_apply(&plan(secret("keys", "dHdv").based_on(read))).await.unwrap_err();
    assert_eq!(conflict.reason(), "ApplyFailed");
    assert_eq!(ground.get("Secret", "keys").unwrap(), restored);
    let applied = ground.apply(&plan(secret("keys", "dHdv").based_on(version(&restored)))).await;
    assert!(applied.is_done(), "the next reconcile has read what is there");
    assert_eq!(ground.get("Secret", "keys").unwrap()["data"]["key"], "dHdv");
}

#[tokio::test]
async fn a_secret_that_was_not_there_is_created_and_not_written_over_another() {
    let ground = Ground::new();
    let mut brought = named("Secret", "keys");
    brought["data"] = json!({"key": "YnJvdWdodA=="});
    // It is created after the plan was made: the apply reads the API, and finds nothing yet.
    ground.api.fail(Fault { method: "GET", path: "secrets/keys", code: 404, times: 1 });
    let brought = ground.api.put(&brought);
    let _ = ground.try_apply(&plan(secret("keys", "dHdv").adoptable().based_on(None))).await;
    assert!(ground.try_apply(&plan(secret("keys", "dHdv").adoptable().based_on(None))).await.is_err());
    assert_eq!(ground.get("Secret", "keys").unwrap(), brought);
}

#[tokio::test]
async fn an_adoptable_child_is_taken_over_unless_it_is_claimed() {
    let ground = Ground::new();
    let mut restored = named("Secret", "keys");
    restored["data"] = json!({"key": "cmVzdG9yZWQ="});
    let read = version(&ground.api.put(&restored));
    let refused = ground.apply(&plan(secret("keys", "cmVzdG9yZWQ="))).await;
    let message = refused.outcomes[0].waits[0].message(Some("valley"));
    assert_eq!(
        message,
        "secret/keys already exists and is not managed by this operator; \
         give one of the two another name, or delete it if nothing uses it"
    );
    ground.apply(&plan(secret("keys", "cmVzdG9yZWQ=").adoptable().based_on(read))).await;
    assert_eq!(ground.get("Secret", "keys").unwrap()["metadata"]["labels"]["app.kubernetes.io/managed-by"], "miller");

    for claim in [
        json!({"labels": {"app.kubernetes.io/managed-by": "helm"}}),
        json!({"ownerReferences": [{"apiVersion": "v1", "kind": "Baker", "name": "south", "uid": "2", "controller": true}]}),
    ] {
        let ground = Ground::new();
        let mut claimed = restored.clone();
        claimed["metadata"].as_object_mut().unwrap().extend(claim.as_object().unwrap().clone());
        let claimed = ground.api.put(&claimed);
        let refused = ground.apply(&plan(secret("keys", "dHdv").adoptable())).await;
        assert_eq!(refused.outcomes[0].waits[0].reason(), "ForeignObject");
        assert_eq!(ground.get("Secret", "keys").unwrap(), claimed);
    }
}

#[tokio::test]
async fn a_child_that_is_deleted_again_and_again_is_not_created_without_end() {
    let ground = Ground::new();
    let mill = plan(deployment("mill", "mill:1"));
    let mut creations = 0;
    for _ in 0..40 {
        creations += ground.writes(&mill).await.len();
        ground.api.delete(&named("Deployment", "mill"));
    }
    assert_eq!(creations, 11, "the first, and ten in the place of those that were deleted");
    let applied = ground.apply(&mill).await;
    let wait = &applied.outcomes[0].waits[0];
    assert_eq!((wait.reason().as_str(), wait.failed), ("WritesUndone", true));
    let message = wait.message(Some("valley"));
    assert!(message.starts_with("deployment/mill was deleted 10 times in 10 minutes"), "{message}");
    assert!(applied.requeue_after.is_some());
    assert_eq!(ground.writes(&plan(deployment("mill", "mill:2"))).await.len(), 1, "something else is written at once");
}
