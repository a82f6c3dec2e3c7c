//! A running toy: the API, the controller on it, and the handles that tests pull.

use std::time::Duration;

use c5c3_kit::http::Readiness;
use c5c3_kit::leader::Election;
use c5c3_kit::metrics::Metrics;
use c5c3_kit::run::RunOptions;
use c5c3_kit::testing::{FakeApi, Write};
use c5c3_kit::{Operator, Settings};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::press::PressController;

pub(crate) struct Bench {
    pub(crate) api: FakeApi,
    pub(crate) metrics: Metrics,
    pub(crate) stop: CancellationToken,
    pub(crate) task: JoinHandle<()>,
}

impl Bench {
    /// A controller on an empty API.
    pub(crate) fn start() -> Self {
        Self::on(FakeApi::default(), None)
    }

    pub(crate) fn on(api: FakeApi, election: Option<Election>) -> Self {
        let options =
            RunOptions { debounce: Duration::ZERO, first_retry: Duration::from_millis(2), ..RunOptions::default() };
        let (metrics, stop) = (Metrics::default(), CancellationToken::new());
        let operator = Operator::new("press-operator").controller(|| PressController);
        let settings = Settings { options, election };
        let (client, token, own_metrics) = (api.client(), stop.clone(), metrics.clone());
        let task = tokio::spawn(async move {
            operator.run(client, settings, own_metrics, Readiness::default(), token).await;
        });
        Self { api, metrics, stop, task }
    }

    /// A Press that has come to `Ready`.
    pub(crate) async fn ready() -> Self {
        let bench = Self::start();
        bench.api.put(&key());
        bench.api.put(&press(3));
        bench.until_reason("WaitingForDeployment").await;
        bench.roll_out();
        bench.until_reason("Ready").await;
        bench.api.take_writes();
        bench
    }

    /// Plays the Deployment controller: all replicas are there.
    pub(crate) fn roll_out(&self) {
        let mut deployment = self.api.get(&deployment()).expect("the deployment is there");
        let generation = deployment["metadata"]["generation"].clone();
        deployment["status"] =
            json!({"observedGeneration": generation, "replicas": 1, "updatedReplicas": 1, "availableReplicas": 1});
        self.api.put(&deployment);
    }

    pub(crate) fn status(&self) -> Value {
        self.api.get(&press(0)).map(|press| press["status"].clone()).unwrap_or_default()
    }

    pub(crate) fn condition(&self, kind: &str) -> Value {
        let status = self.status();
        status["conditions"].as_array().into_iter().flatten().find(|c| c["type"] == kind).cloned().unwrap_or_default()
    }

    /// Waits until `Ready` has that reason for the Press's present generation.
    pub(crate) async fn until_reason(&self, reason: &str) {
        self.api
            .wait_until(&format!("Ready has reason {reason}"), |api| {
                let Some(press) = api.get(&press(0)) else { return false };
                let ready =
                    press["status"]["conditions"].as_array().into_iter().flatten().find(|c| c["type"] == "Ready");
                ready.is_some_and(|ready| {
                    ready["reason"] == reason && ready["observedGeneration"] == press["metadata"]["generation"]
                })
            })
            .await;
    }

    /// How many reconciles have ended: the last thing that each does is to report.
    pub(crate) fn reconciles(&self) -> u64 {
        let counter = r#"c5c3_reconcile_duration_seconds_count{controller="press",step="report"} "#;
        let text = self.metrics.text();
        text.lines().find_map(|line| line.strip_prefix(counter)?.parse().ok()).unwrap_or_default()
    }

    /// The events of a reason, once there are any that `enough` is content with.
    pub(crate) async fn events(&self, reason: &str, enough: impl Fn(&[Value]) -> bool) -> Vec<Value> {
        let mut found = Vec::new();
        self.api
            .wait_until(&format!("there are events of reason {reason}"), |api| {
                found = api.all("events.k8s.io/v1", "Event");
                found.retain(|event| event["reason"] == reason);
                enough(&found)
            })
            .await;
        found
    }

    /// The writes since the last call, without events.
    pub(crate) fn writes(&self) -> Vec<Write> {
        self.api.take_writes().into_iter().filter(|write| !write.path.contains("/events")).collect()
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        self.task.abort();
    }
}

pub(crate) fn press(speed: i64) -> Value {
    let mut press = json!({"apiVersion": "toy.example.org/v1", "kind": "Press", "metadata": {"name": "cider", "namespace": "orchard"}});
    if speed != 0 {
        press["spec"] = json!({"speed": speed, "keySecret": "cider-key"});
    }
    press
}

pub(crate) fn key() -> Value {
    // "c2VzYW1l" is "sesame".
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "cider-key", "namespace": "orchard"}, "data": {"key": "c2VzYW1l"}})
}

pub(crate) fn deployment() -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "cider", "namespace": "orchard"}})
}

pub(crate) fn note() -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "cider-note", "namespace": "cellar"}})
}

/// `METHOD path` of each write.
pub(crate) fn lines(writes: &[Write]) -> Vec<String> {
    writes.iter().map(|write| format!("{} {}", write.method, write.path)).collect()
}
