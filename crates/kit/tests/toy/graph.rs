//! Steps in a graph, values that are made up once, and children that go in order.

use std::time::Duration;

use c5c3_kit::http::Readiness;
use c5c3_kit::metrics::Metrics;
use c5c3_kit::run::RunOptions;
use c5c3_kit::testing::{FakeApi, Fault};
use c5c3_kit::{Operator, Settings};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::mill::MillController;

struct Valley {
    api: FakeApi,
    task: JoinHandle<()>,
}

impl Drop for Valley {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Valley {
    fn start() -> Self {
        let api = FakeApi::default();
        let client = api.client();
        let options =
            RunOptions { debounce: Duration::ZERO, first_retry: Duration::from_millis(2), ..RunOptions::default() };
        let settings = Settings { options, election: None };
        let operator = Operator::new("mill-operator").controller(|| MillController);
        let task = tokio::spawn(async move {
            operator.run(client, settings, Metrics::default(), Readiness::default(), CancellationToken::new()).await;
        });
        Self { api, task }
    }

    /// Plays the Deployment controller: all replicas are there, or none.
    fn roll_out(&self, name: &str, up: bool) {
        let mut found = self.api.get(&part(name)).unwrap_or_else(|| panic!("there is no {name}"));
        let replicas = if up { found["spec"]["replicas"].clone() } else { json!(0) };
        found["status"] = json!({"observedGeneration": found["metadata"]["generation"], "replicas": replicas,
            "updatedReplicas": replicas, "availableReplicas": replicas});
        self.api.put(&found);
    }

    async fn until(&self, condition: &str, reason: &str) -> Value {
        let mut found = Value::Null;
        self.api
            .wait_until(&format!("{condition} has reason {reason}"), |api| {
                let Some(mill) = api.get(&mill(None)) else { return false };
                let all = mill["status"]["conditions"].as_array().cloned().unwrap_or_default();
                found = all.into_iter().find(|found| found["type"] == condition).unwrap_or_default();
                found["reason"] == reason && found["observedGeneration"] == mill["metadata"]["generation"]
            })
            .await;
        found
    }

    async fn until_there(&self, name: &str) {
        self.api.wait_until(&format!("{name} is there"), |api| api.get(&part(name)).is_some()).await;
    }

    /// A mill that sells, with everything in place.
    async fn thriving() -> Self {
        let valley = Self::start();
        valley.api.put(&mill(Some(json!({"sells": true, "stones": 2, "keepsKey": true}))));
        for name in ["well", "road", "stone", "shop"] {
            valley.until_there(name).await;
            valley.roll_out(name, true);
        }
        valley.until("Ready", "Ready").await;
        valley
    }
}

fn mill(spec: Option<Value>) -> Value {
    let mut mill = json!({"apiVersion": "toy.example.org/v1", "kind": "Mill",
        "metadata": {"name": "north", "namespace": "valley"}});
    if let Some(spec) = spec {
        mill["spec"] = spec;
    }
    mill
}

fn part(name: &str) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": "valley"}})
}

fn key() -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "key", "namespace": "valley"}})
}

#[tokio::test]
async fn a_step_starts_when_what_it_needs_is_done_whatever_else_is_waited_for() {
    let valley = Valley::start();
    valley.api.put(&mill(Some(json!({"sells": true, "stones": 2, "keepsKey": true}))));
    valley.until_there("road").await;
    let blocked = valley.until("MillReady", "Blocked").await;
    assert_eq!(blocked["message"], "stone starts when well is ready; shop starts when stone and road are ready");
    valley.roll_out("well", true);
    valley.until_there("stone").await;
    valley.roll_out("stone", true);
    let blocked = valley.until("MillReady", "Blocked").await;
    assert_eq!(blocked["message"], "shop starts when road is ready");
    assert!(valley.api.get(&part("shop")).is_none());
    valley.roll_out("road", true);
    valley.until_there("shop").await;
    assert_eq!(valley.api.get(&part("shop")).unwrap()["metadata"]["labels"]["c5c3.io/step"], "shop");
}

#[tokio::test]
async fn what_runs_goes_on_and_is_changed_while_what_it_needs_is_down() {
    let valley = Valley::thriving().await;
    valley.roll_out("well", false);
    valley.until("GroundReady", "WaitingForDeployment").await;
    valley.api.put(&mill(Some(json!({"sells": true, "stones": 3, "keepsKey": true}))));
    valley.api.wait_until("the stone follows", |api| api.get(&part("stone")).unwrap()["spec"]["replicas"] == 3).await;
    valley.roll_out("stone", true);
    let running = valley.until("MillReady", "Done").await;
    assert_eq!(running["status"], "True", "the stone turns, whatever the well says");
}

#[tokio::test]
async fn what_the_api_refuses_holds_up_its_own_step_and_is_asked_for_again() {
    let valley = Valley::start();
    valley.api.fail(Fault { method: "PATCH", path: "deployments/road", code: 422, times: 4 });
    valley.api.put(&mill(Some(json!({"sells": true, "stones": 2, "keepsKey": true}))));
    let refused = valley.until("GroundReady", "ApplyRefused").await;
    let message = refused["message"].as_str().unwrap();
    assert!(message.starts_with("deployment/road cannot be applied: "), "{message}");
    valley.until_there("well").await;
    valley.roll_out("well", true);
    valley.until_there("stone").await;
    valley.until_there("road").await;
    valley.until("GroundReady", "WaitingForDeployment").await;
}

#[tokio::test]
async fn what_follows_in_a_step_waits_for_what_was_refused_in_it() {
    let valley = Valley::start();
    valley.api.fail(Fault { method: "POST", path: "/secrets", code: 403, times: 1_000_000 });
    valley.api.put(&mill(Some(json!({"sells": false, "stones": 1, "keepsKey": true}))));
    valley.until("GroundReady", "ApplyRefused").await;
    valley.until_there("road").await;
    assert_eq!(valley.api.get(&part("well")), None, "there is no well without its key");
}

#[tokio::test]
async fn what_may_not_be_deleted_is_told_and_the_rest_goes_on() {
    let valley = Valley::thriving().await;
    valley.api.fail(Fault { method: "DELETE", path: "deployments/shop", code: 403, times: 3 });
    valley.api.put(&mill(Some(json!({"sells": false, "stones": 2, "keepsKey": true}))));
    valley.until("Ready", "DeleteRefused").await;
    valley.api.wait_until("the shop is gone", |api| api.get(&part("shop")).is_none()).await;
    valley.until("Ready", "Ready").await;
}

#[tokio::test]
async fn a_step_that_is_dropped_takes_its_children_with_it_whatever_else_is_waited_for() {
    let valley = Valley::thriving().await;
    valley.roll_out("road", false);
    valley.until("GroundReady", "WaitingForDeployment").await;
    valley.api.put(&mill(Some(json!({"sells": false, "stones": 2, "keepsKey": true}))));
    valley.api.wait_until("the shop is gone", |api| api.get(&part("shop")).is_none()).await;
    assert!(valley.api.get(&part("stone")).is_some());
}

#[tokio::test]
async fn a_password_is_made_up_once_and_kept_as_asked() {
    let valley = Valley::thriving().await;
    let made = valley.api.get(&key()).unwrap();
    assert_eq!(made["data"]["holder"], "bWlsbGVy");
    assert_eq!(made["metadata"].get("ownerReferences"), None, "it stays when the mill goes");
    valley.api.put(&mill(Some(json!({"sells": true, "stones": 2, "keepsKey": false}))));
    valley
        .api
        .wait_until("it is owned", |api| api.get(&key()).unwrap()["metadata"]["ownerReferences"].is_array())
        .await;
    assert_eq!(valley.api.get(&key()).unwrap()["data"], made["data"], "and it is still the same");
    let other = Valley::thriving().await;
    assert_ne!(other.api.get(&key()).unwrap()["data"]["teeth"], made["data"]["teeth"], "it is unique");
}

#[tokio::test]
async fn what_was_kept_is_found_again_by_the_next_owner_of_the_same_name() {
    let valley = Valley::thriving().await;
    let made = valley.api.get(&key()).unwrap();
    valley.api.delete(&mill(None));
    valley.api.wait_until("the mill is gone", |api| api.get(&mill(None)).is_none()).await;
    valley.api.put(&mill(Some(json!({"sells": false, "stones": 1, "keepsKey": false}))));
    valley
        .api
        .wait_until("it is owned", |api| api.get(&key()).unwrap()["metadata"]["ownerReferences"].is_array())
        .await;
    assert_eq!(valley.api.get(&key()).unwrap()["data"], made["data"]);
}

#[tokio::test]
async fn a_secret_that_is_brought_along_is_used_as_it_is() {
    let valley = Valley::start();
    let mut brought = key();
    brought["data"] = json!({"teeth": "b3du"});
    valley.api.put(&brought);
    valley.api.put(&mill(Some(json!({"sells": false, "stones": 1, "keepsKey": false}))));
    valley.until_there("well").await;
    let found = valley.api.get(&key()).unwrap();
    assert_eq!(found["data"], json!({"teeth": "b3du"}));
    assert_eq!(found["metadata"].get("labels"), None);
    brought["data"] = json!({"handle": "b3du"});
    let lacking = Valley::start();
    lacking.api.put(&brought);
    lacking.api.put(&mill(Some(json!({"sells": false, "stones": 1, "keepsKey": false}))));
    let stuck = lacking.until("GroundReady", "KeyMissing").await;
    assert!(stuck["message"].as_str().unwrap().contains("secret/key has no key teeth"), "{stuck}");
}

#[tokio::test]
async fn children_go_wave_by_wave_and_the_object_goes_last() {
    let valley = Valley::thriving().await;
    let mut stuck = valley.api.get(&part("stone")).unwrap();
    stuck["metadata"]["finalizers"] = json!(["someone.example.org/else"]);
    valley.api.put(&stuck);
    valley.api.delete(&mill(None));
    valley
        .api
        .wait_until("the others are gone, and the stone is waited for", |api| {
            let waits = api.get(&mill(None)).unwrap_or_default()["status"]["waitingFor"].clone();
            api.get(&part("shop")).is_none() && waits[0]["object"] == "deployment/stone"
        })
        .await;
    let well = valley.api.get(&part("well")).unwrap();
    assert!(well["metadata"]["deletionTimestamp"].is_null(), "the last of its kind waits for the others: {well}");
    valley.api.put(&json!({"apiVersion": "toy.example.org/v1", "kind": "Mill",
        "metadata": {"name": "north", "namespace": "valley", "annotations": {"c5c3.io/skip-cleanup": "true"}}}));
    valley.api.wait_until("the mill is gone", |api| api.get(&mill(None)).is_none()).await;
    assert!(valley.api.get(&part("well")).is_none(), "it goes in a wave of its own");
    assert!(valley.api.get(&key()).is_some(), "what is kept stays");
}

/// Deletes the mill as if that was so many minutes ago, and has it reconciled.
fn going_since(valley: &Valley, minutes: i64) {
    let since = jiff::Timestamp::now() - jiff::SignedDuration::from_mins(minutes);
    let mut going = mill(None);
    going["metadata"]["deletionTimestamp"] = since.to_string().into();
    going["metadata"]["labels"] = json!({"minutes": minutes.to_string()});
    valley.api.put(&going);
}

/// A Job of the mill with a container that runs, and its pod.
fn running_job(valley: &Valley) -> [Value; 2] {
    let metadata = valley.api.get(&part("stone")).unwrap()["metadata"].clone();
    let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "grind", "namespace": "valley",
        "labels": metadata["labels"], "annotations": metadata["annotations"],
        "ownerReferences": metadata["ownerReferences"]}});
    let state = json!({"name": "grind", "image": "mill:1", "imageID": "", "ready": true, "restartCount": 0,
        "state": {"running": {}}});
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "grind-x", "namespace": "valley",
        "labels": {"batch.kubernetes.io/job-name": "grind"}}, "status": {"containerStatuses": [state]}});
    [job, pod]
}

#[tokio::test]
async fn a_job_that_runs_is_waited_for_before_any_child_is_deleted() {
    let valley = Valley::thriving().await;
    let [mut job, pod] = running_job(&valley);
    valley.api.put(&job);
    valley.api.put(&pod);
    valley.api.delete(&mill(None));
    let waits = |api: &FakeApi| {
        let status = api.get(&mill(None)).unwrap()["status"].clone();
        status["conditions"][0]["reason"] == "Deleting" && status["waitingFor"][0]["object"] == "job/grind"
    };
    valley.api.wait_until("the deletion waits for the Job", waits).await;
    for child in [part("stone"), job.clone()] {
        assert!(valley.api.get(&child).unwrap()["metadata"]["deletionTimestamp"].is_null(), "{child}");
    }
    job["status"] = json!({"conditions": [{"type": "Complete", "status": "True"}]});
    valley.api.put(&job);
    valley.api.wait_until("the mill is gone", |api| api.get(&mill(None)).is_none()).await;
    assert!(valley.api.get(&part("stone")).is_none());
}

#[tokio::test]
async fn a_job_that_runs_too_long_is_interrupted_and_named() {
    let valley = Valley::thriving().await;
    let [job, pod] = running_job(&valley);
    valley.api.put(&job);
    valley.api.put(&pod);
    going_since(&valley, 31);
    valley.api.wait_until("the mill is gone", |api| api.get(&mill(None)).is_none()).await;
    let notes: Vec<Value> =
        valley.api.all("events.k8s.io/v1", "Event").iter().map(|event| event["note"].clone()).collect();
    assert!(
        notes.contains(&json!("these Jobs were still running and are interrupted: job/valley/grind")),
        "{notes:#?}"
    );
}

#[tokio::test]
async fn each_wave_has_its_own_time_and_what_garbage_collection_takes_is_not_called_left_behind() {
    let valley = Valley::thriving().await;
    let mut stuck = valley.api.get(&part("stone")).unwrap();
    stuck["metadata"]["finalizers"] = json!(["someone.example.org/else"]);
    valley.api.put(&stuck);
    let metadata = &stuck["metadata"];
    let run = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {
        "name": "grind", "namespace": "valley", "finalizers": metadata["finalizers"], "labels": metadata["labels"],
        "annotations": metadata["annotations"], "ownerReferences": metadata["ownerReferences"]}});
    valley.api.put(&run);
    // Running Jobs had their ten minutes, the first wave too, and the Deployments of the second have nine left.
    going_since(&valley, 21);
    let waits_for = |api: &FakeApi| api.get(&mill(None)).unwrap()["status"]["waitingFor"][0]["object"].clone();
    valley.api.wait_until("the second wave is waited for", |api| waits_for(api) == "deployment/stone").await;
    assert!(valley.api.get(&run).unwrap()["metadata"]["deletionTimestamp"].is_string());
    going_since(&valley, 31);
    valley.api.wait_until("the mill is gone", |api| api.get(&mill(None)).is_none()).await;
    let notes: Vec<Value> =
        valley.api.all("events.k8s.io/v1", "Event").iter().map(|event| event["note"].clone()).collect();
    let note = "garbage collection deletes these: job/valley/grind, deployment/valley/stone";
    assert!(notes.contains(&json!(note)), "{notes:#?}");
}
