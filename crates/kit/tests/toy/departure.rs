//! Deletions in detail, and what a controller that stops leaves behind in the metrics.

use c5c3_kit::testing::{FakeApi, Fault};
use serde_json::json;

use crate::bench::{Bench, lines, note, press};

/// Errors of reconciles of presses that were counted.
fn has_failed(bench: &Bench) -> bool {
    bench.metrics.text().lines().any(|line| line.starts_with(r#"c5c3_reconcile_errors_total{controller="press""#))
}

#[tokio::test]
async fn a_deletion_of_what_goes_at_once_waits_for_nothing_and_fails_never() {
    let bench = Bench::ready().await;
    bench.api.delete(&press(0));
    bench.api.wait_until("the press is gone", |api| api.get(&press(0)).is_none()).await;
    let lines = lines(&bench.writes());
    assert_eq!(lines.len(), 2, "the note and the finalizer go, and no status tells of a wait: {lines:?}");
    assert!(!has_failed(&bench), "{}", bench.metrics.text());
}

#[tokio::test]
async fn a_child_that_cannot_be_looked_up_is_not_taken_for_one_that_is_gone() {
    let bench = Bench::ready().await;
    let mut stuck = note();
    stuck["metadata"]["finalizers"] = json!(["someone.example.org/else"]);
    bench.api.put(&stuck);
    bench.api.fail(Fault { method: "GET", path: "configmaps/cider-note", code: 500, times: 1000 });
    bench.api.delete(&press(0));
    bench.api.wait_until("a reconcile fails", |_| has_failed(&bench)).await;
    assert!(bench.api.get(&press(0)).is_some());
}

#[tokio::test]
async fn a_controller_that_stops_says_nothing_of_objects_any_more() {
    let mut bench = Bench::ready().await;
    let says = |bench: &Bench| bench.metrics.text().contains(r#"name="cider""#);
    assert!(says(&bench));
    bench.stop.cancel();
    (&mut bench.task).await.unwrap();
    assert!(!says(&bench), "{}", bench.metrics.text());
}

#[tokio::test]
async fn an_object_that_went_before_its_reconcile_is_forgotten_and_is_no_failure() {
    let bench = Bench::ready().await;
    bench.api.fail(Fault { method: "GET", path: "presss/cider", code: 404, times: 1 });
    let mut painted = press(0);
    painted["metadata"]["labels"] = json!({"colour": "green"});
    bench.api.put(&painted);
    let is_forgotten = |_: &FakeApi| !bench.metrics.text().contains(r#"name="cider""#);
    bench.api.wait_until("nothing is remembered of it", is_forgotten).await;
    assert!(!has_failed(&bench), "{}", bench.metrics.text());
}
