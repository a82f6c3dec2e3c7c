//! When the API fails: 409, 500, a dropped watch.

use c5c3_kit::testing::{FakeApi, Fault};

use crate::bench::{Bench, deployment, key, lines, press};

#[tokio::test]
async fn a_conflict_on_the_finalizer_starts_over_with_the_new_object() {
    let bench = Bench::start();
    bench.api.fail(Fault { method: "PATCH", path: "presss/cider", code: 409, times: 1 });
    bench.api.put(&press(3));
    bench.until_reason("WaitingForSecret").await;
    let codes: Vec<u16> = bench.writes().iter().map(|write| write.code).collect();
    assert_eq!(codes, [409, 200, 200]);
}

#[tokio::test]
async fn a_failing_api_is_tried_again_with_back_off_and_counted() {
    let bench = Bench::start();
    bench.api.fail(Fault { method: "PATCH", path: "deployments/cider", code: 500, times: 3 });
    bench.api.put(&key());
    bench.api.put(&press(3));
    bench.until_reason("WaitingForDeployment").await;
    let writes = bench.writes();
    let attempts: Vec<u16> =
        writes.iter().filter(|write| write.path.contains("deployments/cider")).map(|write| write.code).collect();
    assert_eq!(attempts[..4], [500, 500, 500, 200]);
    assert!(
        bench
            .metrics
            .text()
            .contains(r#"c5c3_reconcile_errors_total{controller="press",step="apply",reason="ApplyFailed"} 3"#),
        "{}",
        bench.metrics.text()
    );
}

#[tokio::test]
async fn a_failure_that_repeats_is_said_on_the_object() {
    let bench = Bench::start();
    bench.api.fail(Fault { method: "PATCH", path: "deployments/cider", code: 500, times: 8 });
    bench.api.put(&key());
    bench.api.put(&press(3));
    bench.until_reason("ApplyFailed").await;
    let ready = bench.condition("Ready");
    assert_eq!(ready["status"], "Unknown");
    assert!(ready["message"].as_str().unwrap().starts_with("cannot apply deployment/orchard/cider: "), "{ready}");
    bench.until_reason("WaitingForDeployment").await;
    let events = bench.events("ApplyFailed", |events| !events.is_empty()).await;
    assert_eq!(events.len(), 1, "one for all the attempts: {events:#?}");
    assert_eq!(events[0].get("series"), None);
}

#[tokio::test]
async fn a_status_that_is_refused_is_written_again() {
    let bench = Bench::start();
    bench.api.fail(Fault { method: "PATCH", path: "presss/cider/status", code: 409, times: 2 });
    bench.api.put(&press(3));
    bench.until_reason("WaitingForSecret").await;
    let codes: Vec<u16> =
        bench.writes().iter().filter(|write| write.path.contains("/status")).map(|write| write.code).collect();
    assert_eq!(codes, [409, 409, 200]);
}

#[tokio::test]
async fn a_dropped_watch_is_opened_again_and_misses_nothing() {
    let bench = Bench::ready().await;
    bench.api.drop_watches();
    bench.api.put(&press(6));
    bench.until_reason("WaitingForDeployment").await;
    bench.api.drop_watches();
    bench.roll_out();
    bench.until_reason("Ready").await;
    bench.api.drop_watches();
    bench.api.delete(&key());
    bench.until_reason("WaitingForSecret").await;
}

#[tokio::test]
async fn a_clean_stop_finishes_what_is_under_way() {
    let mut bench = Bench::start();
    bench.api.put(&key());
    bench.api.put(&press(3));
    bench.api.wait_until("the deployment is there", |api| api.get(&deployment()).is_some()).await;
    bench.stop.cancel();
    (&mut bench.task).await.unwrap();
    assert_eq!(bench.condition("Ready")["reason"], "WaitingForDeployment", "{}", bench.status());
    bench.writes();
    bench.api.put(&press(9));
    tokio::task::yield_now().await;
    assert!(lines(&bench.writes()).is_empty());
}

#[tokio::test]
async fn an_operator_that_panics_over_one_object_goes_on_with_the_others() {
    let bench = Bench::ready().await;
    let mut bursting = press(5000);
    bursting["metadata"]["name"] = "bursting".into();
    bench.api.put(&bursting);
    bench
        .api
        .wait_until("the panic is told", |api| {
            let press = api.get(&bursting).unwrap();
            press["status"]["conditions"][0]["reason"] == "Panicked"
                && press["status"]["conditions"][0]["message"] == "press panicked: the press bursts"
        })
        .await;
    bench.api.put(&press(8));
    bench.until_reason("WaitingForDeployment").await;
}

#[tokio::test]
async fn a_kind_that_is_not_installed_is_waited_for_by_name() {
    let bench = Bench::start();
    bench.api.fail(Fault { method: "GET", path: "deployments/cider", code: 404, times: 1 });
    bench.api.put(&key());
    bench.api.put(&press(3));
    bench.until_reason("KindNotInstalled").await;
    let message = bench.condition("Ready")["message"].clone();
    assert_eq!(
        message,
        "deployment/cider cannot be created: the cluster has no kind Deployment; install the operator that serves apps/v1"
    );
}

#[tokio::test]
async fn a_stop_does_not_wait_for_objects_whose_kind_is_not_installed() {
    let api = FakeApi::default();
    api.fail(Fault { method: "GET", path: "presss", code: 404, times: 1000 });
    let mut bench = Bench::on(api, None);
    tokio::task::yield_now().await;
    bench.stop.cancel();
    tokio::time::timeout(std::time::Duration::from_secs(5), &mut bench.task).await.expect("it stops").unwrap();
}
