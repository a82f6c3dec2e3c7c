//! Deletion of an object: what is deleted with it, what delays it, and how its finalizer is released all the same.

use std::time::Duration;

use c5c3_kit::Controller;
use c5c3_kit::testing::{FakeApi, Fault};
use jiff::Timestamp;
use serde_json::json;

use crate::bench::{Bench, lines, note, press};
use crate::press::PressController;

#[tokio::test]
async fn a_deletion_takes_what_garbage_collection_does_not_reach_and_then_lets_go() {
    let bench = Bench::ready().await;
    let note_uid = bench.api.get(&note()).unwrap()["metadata"]["uid"].clone();
    bench.api.delete(&press(0));
    bench.api.wait_until("the press is gone", |api| api.get(&press(0)).is_none()).await;
    assert!(bench.api.get(&note()).is_none());
    let forgotten = |_: &FakeApi| !bench.metrics.text().contains(r#"name="cider""#);
    bench.api.wait_until("nothing is remembered of it", forgotten).await;
    let writes = bench.writes();
    let lines = lines(&writes);
    assert_eq!(lines[0], "DELETE /api/v1/namespaces/cellar/configmaps/cider-note");
    let (policy, preconditions) = (&writes[0].body["propagationPolicy"], &writes[0].body["preconditions"]);
    assert_eq!((policy, preconditions), (&json!("Foreground"), &json!({"uid": note_uid})));
    assert_eq!(writes.last().unwrap().body["metadata"]["finalizers"], json!([]));
    assert!(lines.last().unwrap().starts_with("PATCH merge "), "{lines:?}");
}

#[tokio::test]
async fn a_deletion_that_cannot_finish_says_what_holds_it_up_and_lets_go_when_asked() {
    let bench = Bench::ready().await;
    let mut stuck = note();
    stuck["metadata"]["finalizers"] = json!(["someone.example.org/else"]);
    bench.api.put(&stuck);
    bench.api.delete(&press(0));
    bench
        .api
        .wait_until("the wait is told", |api| {
            api.get(&press(0))
                .is_some_and(|press| press["status"]["waitingFor"][0]["object"] == "configmap/cellar/cider-note")
        })
        .await;
    assert_eq!(bench.condition("Ready")["reason"], "Deleting");
    bench.api.put(&json!({"apiVersion": "toy.example.org/v1", "kind": "Press",
        "metadata": {"name": "cider", "namespace": "orchard", "annotations": {"c5c3.io/skip-cleanup": "true"}}}));
    bench.api.wait_until("the press is gone", |api| api.get(&press(0)).is_none()).await;
    assert_abandoned(&bench, "these objects are left behind; delete them by hand: configmap/cellar/cider-note").await;
}

#[tokio::test]
async fn a_deletion_goes_through_though_nothing_can_be_looked_up_once_it_is_asked_to() {
    let bench = Bench::ready().await;
    bench.api.fail(Fault { method: "GET", path: "/api/v1/configmaps", code: 500, times: 1000 });
    bench.api.put(&json!({"apiVersion": "toy.example.org/v1", "kind": "Press",
        "metadata": {"name": "cider", "namespace": "orchard", "annotations": {"c5c3.io/skip-cleanup": "true"}}}));
    bench.api.delete(&press(0));
    bench.api.wait_until("the press is gone", |api| api.get(&press(0)).is_none()).await;
}

#[tokio::test]
async fn a_deletion_that_cannot_finish_lets_go_when_patience_is_at_its_end() {
    let bench = Bench::ready().await;
    let mut stuck = note();
    stuck["metadata"]["finalizers"] = json!(["someone.example.org/else"]);
    bench.api.put(&stuck);
    // The timeout has a moment left: only the controller's own clock tells that it has passed.
    going_with(&bench, Duration::from_secs(1));
    bench.api.wait_until("the press is gone", |api| api.get(&press(0)).is_none()).await;
    assert_abandoned(&bench, "these objects are left behind; delete them by hand: configmap/cellar/cider-note").await;
    assert!(bench.api.get(&note()).is_some(), "the finalizer of another controller stays");
}

#[tokio::test]
async fn a_deletion_lets_go_when_patience_is_at_its_end_though_nothing_can_be_looked_up() {
    let bench = Bench::ready().await;
    bench.api.fail(Fault { method: "GET", path: "/api/v1/configmaps", code: 500, times: 1000 });
    going_with(&bench, Duration::ZERO);
    bench.api.wait_until("the press is gone", |api| api.get(&press(0)).is_none()).await;
    assert_abandoned(&bench, "these could not be listed; look for remaining objects: cannot read configmap/").await;
}

/// Deletes the Press as if that was so long ago that only this much of its controller's timeout is left.
fn going_with(bench: &Bench, left: Duration) {
    let mut going = press(0);
    going["metadata"]["deletionTimestamp"] =
        (Timestamp::now() - PressController::CLEANUP_TIMEOUT + left).to_string().into();
    bench.api.put(&going);
}

/// One event says what was left behind.
async fn assert_abandoned(bench: &Bench, what: &str) {
    let events = bench.events("CleanupAbandoned", |events| !events.is_empty()).await;
    let note = events[0]["note"].as_str().unwrap();
    assert!(note.starts_with(what), "{note}");
    assert_eq!((events.len(), &events[0]["type"]), (1, &json!("Warning")));
}
