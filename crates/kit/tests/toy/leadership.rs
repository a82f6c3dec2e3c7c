//! One leads; a clean stop hands over, a lost lease stops the work.
//!
//! The clock is paused: it moves on when everybody waits for it, so that times are exact however busy the machine is, and
//! every process that had work to do has done it.

use std::time::Duration;

use c5c3_kit::leader::{Election, OwnPod};
use c5c3_kit::testing::{FakeApi, Fault};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::bench::{Bench, press};

fn election(identity: &str) -> Election {
    let mut election = Election::new("orchard", "press-operator", identity);
    election.lease_duration = Duration::from_secs(1);
    election.renew_deadline = Duration::from_millis(200);
    election.renew_period = Duration::from_millis(20);
    election.retry_period = Duration::from_millis(20);
    election
}

fn lease() -> Value {
    json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "press-operator", "namespace": "orchard"}})
}

fn holder(api: &FakeApi) -> String {
    api.get(&lease())
        .and_then(|lease| lease["spec"]["holderIdentity"].as_str().map(ToOwned::to_owned))
        .unwrap_or_default()
}

#[tokio::test(start_paused = true)]
async fn only_the_holder_of_the_lease_works() {
    let api = FakeApi::default();
    let first = Bench::on(api.clone(), Some(election("first")));
    api.wait_until("first leads", |api| holder(api) == "first").await;
    let second = Bench::on(api.clone(), Some(election("second")));
    api.put(&press(3));
    first.until_reason("WaitingForSecret").await;
    assert_eq!(holder(&api), "first");
    assert!(first.metrics.text().contains(r#"c5c3_condition{kind="Press""#), "{}", first.metrics.text());
    assert!(first.metrics.text().contains(r#"c5c3_leader{operator="press-operator"} 1"#));
    assert!(!second.metrics.text().contains(r#"c5c3_leader{operator="press-operator"} 1"#));
    assert!(first.reconciles() > 0 && second.reconciles() == 0, "the second only waits");
}

#[tokio::test(start_paused = true)]
async fn a_clean_stop_hands_the_lease_over_at_once() {
    let api = FakeApi::default();
    let mut first = Bench::on(api.clone(), Some(election("first")));
    api.wait_until("first leads", |api| holder(api) == "first").await;
    let second = Bench::on(api.clone(), Some(election("second")));
    first.stop.cancel();
    (&mut first.task).await.unwrap();
    let began = Instant::now();
    api.wait_until("second leads", |api| holder(api) == "second").await;
    assert!(began.elapsed() < Duration::from_millis(900), "sooner than the lease would have expired");
    api.put(&press(3));
    second.until_reason("WaitingForSecret").await;
    assert_eq!(api.get(&lease()).unwrap()["spec"]["leaseTransitions"], 1);
}

#[tokio::test(start_paused = true)]
async fn a_lost_lease_stops_the_work_until_it_is_won_back() {
    let api = FakeApi::default();
    let first = Bench::on(api.clone(), Some(election("first")));
    api.wait_until("first leads", |api| holder(api) == "first").await;
    // Another takes the lease by force, as after a long pause of the first.
    let mut taken = api.get(&lease()).unwrap();
    taken["spec"]["holderIdentity"] = "thief".into();
    taken["spec"]["renewTime"] = "2026-01-01T00:00:00.000000Z".into();
    api.put(&taken);
    api.wait_until("first stops", |_| first.metrics.text().contains(r#"c5c3_leader{operator="press-operator"} 0"#))
        .await;
    api.put(&press(3));
    // Half of the thief's time: a leader would have worked by now.
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(holder(&api), "thief");
    assert!(first.status().is_null() && first.reconciles() == 0, "no process works");
    // The thief never renews, so its lease expires by our clock, and the work goes on.
    api.wait_until("first leads again", |api| holder(api) == "first").await;
    first.until_reason("WaitingForSecret").await;
}

#[tokio::test(start_paused = true)]
async fn a_holder_that_cannot_renew_stops_before_another_may_start() {
    let api = FakeApi::default();
    let first = Bench::on(api.clone(), Some(election("first")));
    api.wait_until("first leads", |api| holder(api) == "first").await;
    api.fail(Fault { method: "PUT", path: "leases/press-operator", code: 500, times: 15 });
    let began = Instant::now();
    api.wait_until("first stops", |_| first.metrics.text().contains(r#"c5c3_leader{operator="press-operator"} 0"#))
        .await;
    assert!(began.elapsed() < Duration::from_secs(1), "sooner than the lease expires for others");
    api.wait_until("first leads again", |_| {
        first.metrics.text().contains(r#"c5c3_leader{operator="press-operator"} 1"#)
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn at_rest_the_holder_renews_twice_a_minute_with_one_request_and_the_others_ask_nothing() {
    let api = FakeApi::default();
    let usual = |identity: &str| Election::new("orchard", "press-operator", identity);
    let _first = Bench::on(api.clone(), Some(usual("first")));
    api.wait_until("first leads", |api| holder(api) == "first").await;
    let _second = Bench::on(api.clone(), Some(usual("second")));
    tokio::time::sleep(Duration::from_mins(1)).await;
    api.take_reads();
    api.take_writes();
    tokio::time::sleep(Duration::from_mins(10)).await;
    let reads: Vec<String> = api.take_reads().into_iter().filter(|path| path.contains("leases/")).collect();
    assert_eq!(reads, Vec::<String>::new());
    let writes = api.take_writes().len();
    assert!((19..=21).contains(&writes), "{writes} writes in ten minutes");
    assert_eq!(holder(&api), "first");
}

fn in_pod(identity: &str, pod: &str) -> Election {
    let pod = OwnPod { namespace: "orchard".into(), name: pod.into(), uid: format!("uid-of-{pod}") };
    Election::new("orchard", "press-operator", identity).in_pod(Some(pod))
}

/// A process that leads in a pod, and is killed then; another pod waits.
async fn killed_in(pod: &str) -> (FakeApi, Bench) {
    let api = FakeApi::default();
    let first = Bench::on(api.clone(), Some(in_pod("first", pod)));
    api.wait_until("first leads", |api| holder(api) == "first").await;
    let other = Bench::on(api.clone(), Some(in_pod("other", "pear")));
    tokio::time::sleep(Duration::from_secs(5)).await;
    first.task.abort();
    (api, other)
}

#[tokio::test(start_paused = true)]
async fn a_killed_leader_is_followed_at_once_by_the_next_process_of_its_container() {
    let (api, other) = killed_in("apple").await;
    let began = Instant::now();
    let _next = Bench::on(api.clone(), Some(in_pod("next", "apple")));
    api.wait_until("the next leads", |api| holder(api) == "next").await;
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    assert_eq!(other.reconciles(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_deleted_with_its_pod_is_taken_over_once_the_token_of_the_pod_is_refused() {
    let (api, other) = killed_in("apple").await;
    let owner = &api.get(&lease()).unwrap()["metadata"]["ownerReferences"];
    assert_eq!(
        *owner,
        json!([{"apiVersion": "v1", "kind": "Pod", "name": "apple", "uid": "uid-of-apple"}]),
        "Kubernetes deletes it with the pod"
    );
    api.delete(&lease());
    let began = Instant::now();
    api.wait_until("the other leads", |api| holder(api) == "other").await;
    let took = began.elapsed();
    assert!((Duration::from_secs(10)..Duration::from_secs(15)).contains(&took), "{took:?}");
    assert_eq!(api.get(&lease()).unwrap()["metadata"]["ownerReferences"][0]["name"], "pear");
    api.put(&press(3));
    other.until_reason("WaitingForSecret").await;
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_handed_back_does_not_go_with_the_pod() {
    let api = FakeApi::default();
    let mut first = Bench::on(api.clone(), Some(in_pod("first", "apple")));
    api.wait_until("first leads", |api| holder(api) == "first").await;
    first.stop.cancel();
    (&mut first.task).await.unwrap();
    assert!(api.get(&lease()).unwrap()["metadata"]["ownerReferences"].is_null());
}

#[tokio::test(start_paused = true)]
async fn a_pod_does_not_own_a_lease_of_another_namespace() {
    let pod = OwnPod { namespace: "elsewhere".into(), name: "apple".into(), uid: "uid-of-apple".into() };
    let api = FakeApi::default();
    let _first = Bench::on(api.clone(), Some(Election::new("orchard", "press-operator", "first").in_pod(Some(pod))));
    api.wait_until("first leads", |api| holder(api) == "first").await;
    assert!(api.get(&lease()).unwrap()["metadata"]["ownerReferences"].is_null(), "it would be deleted at once");
}
