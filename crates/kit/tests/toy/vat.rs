//! A third toy: a Vat runs a Deployment and looks at its status, refers to Deployments of others, and is asked whether it
//! answers.

use std::time::Duration;

use c5c3_api::problem;
use c5c3_kit::http::Readiness;
use c5c3_kit::metrics::Metrics;
use c5c3_kit::run::RunOptions;
use c5c3_kit::testing::FakeApi;
use c5c3_kit::{Child, Controller, Inputs, KindRef, Operator, Plan, Probe, Ref, Settings, Step, Verdict};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use kube::{CustomResource, ResourceExt};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

#[derive(CustomResource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[kube(group = "toy.example.org", version = "v1", kind = "Vat", plural = "vats", namespaced)]
#[serde(rename_all = "camelCase")]
pub(crate) struct VatSpec {
    /// Deployments that it refers to.
    pub(crate) feeds: Vec<String>,
}

pub(crate) struct VatController;

impl Controller for VatController {
    type Kind = Vat;
    type Valid = ();
    const NAME: &'static str = "vat";
    const CONDITIONS: &'static [&'static str] = &["VatReady"];
    const PROBES: bool = true;

    fn children(&self) -> Vec<KindRef> {
        vec![KindRef::of::<Deployment>(), KindRef::of::<HorizontalPodAutoscaler>()]
    }

    fn observes(&self) -> Vec<KindRef> {
        vec![KindRef::of::<Deployment>()]
    }

    fn needs(&self, inputs: &Inputs<Vat>) -> Vec<Ref> {
        let namespace = inputs.object.namespace().unwrap();
        inputs.object.spec.feeds.iter().map(|name| Ref::namespaced::<Deployment>(&namespace, name)).collect()
    }

    fn probes(&self, inputs: &Inputs<Vat>) -> Vec<Probe> {
        vec![probe(&inputs.object)]
    }

    fn validate(&self, inputs: &Inputs<Vat>) -> Verdict<()> {
        if inputs.object.spec.feeds.iter().any(|feed| feed == "poison") {
            return Verdict::Invalid(vec![problem("spec.feeds", "poison is no food", "leave it out")].into());
        }
        Verdict::Valid(())
    }

    fn plan(&self, (): &(), inputs: &Inputs<Vat>) -> Plan {
        let (name, namespace) = (inputs.object.name_any(), inputs.object.namespace().unwrap());
        let scaler: HorizontalPodAutoscaler = serde_json::from_value(json!({
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"maxReplicas": 3, "scaleTargetRef": {"kind": "Deployment", "name": name}},
        }))
        .unwrap();
        let step = step(&inputs.object).child(Child::new(&scaler));
        let running =
            inputs.own_named::<Deployment>(&name).map(|live| live.data["status"]["availableReplicas"].clone());
        let answers = inputs.answer(&probe(&inputs.object)).is_some_and(Result::is_ok);
        let note = format!("{} feeds", inputs.object.spec.feeds.len());
        let plan = Plan::new().step(step).event("Fed", note);
        plan.status("running", running.unwrap_or_default()).status("answers", answers)
    }

    fn maintain(&self, inputs: &Inputs<Vat>) -> Option<Plan> {
        Some(Plan::new().step(step(&inputs.object)).status("feedsLastValid", inputs.object.spec.feeds.clone()))
    }
}

/// The Deployment alone.
fn step(vat: &Vat) -> Step {
    let (name, namespace) = (vat.name_any(), vat.namespace().unwrap());
    let deployment: Deployment = serde_json::from_value(json!({
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"vat": name}},
                 "template": {"metadata": {"labels": {"vat": name}}}},
    }))
    .unwrap();
    Step::new("VatReady").reasons("Brewing", "Filling").child(Child::new(&deployment))
}

fn probe(vat: &Vat) -> Probe {
    Probe {
        namespace: vat.namespace().unwrap(),
        service: vat.name_any(),
        port: 80,
        tls: false,
        path: "/".into(),
        keeps_text: false,
        interval: Probe::INTERVAL,
    }
}

/// A running controller of Vats.
pub(crate) struct Brewery {
    pub(crate) api: FakeApi,
    pub(crate) metrics: Metrics,
    task: JoinHandle<()>,
}

impl Drop for Brewery {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Brewery {
    pub(crate) fn start(api: FakeApi) -> Self {
        let metrics = Metrics::default();
        let options =
            RunOptions { debounce: Duration::ZERO, first_retry: Duration::from_millis(2), ..RunOptions::default() };
        let (client, own_metrics) = (api.client(), metrics.clone());
        let task = tokio::spawn(async move {
            let operator = Operator::new("vat-operator").controller(|| VatController);
            let settings = Settings { options, election: None };
            operator.run(client, settings, own_metrics, Readiness::default(), CancellationToken::new()).await;
        });
        Self { api, metrics, task }
    }

    /// A Vat that is ready, with nothing left to do.
    pub(crate) async fn ready(feeds: &[&str]) -> Self {
        let brewery = Self::start(FakeApi::default());
        brewery.api.put(&service());
        brewery.api.put(&vat(feeds));
        brewery.api.wait_until("the deployment is there", |api| api.get(&deployment("north")).is_some()).await;
        brewery.roll_out(1);
        brewery.until("it runs", |status| status["running"] == 1 && is_ready(status)).await;
        brewery
    }

    /// Plays the Deployment controller.
    pub(crate) fn roll_out(&self, replicas: i64) {
        let mut found = self.api.get(&deployment("north")).expect("the deployment is there");
        found["status"] = json!({"observedGeneration": found["metadata"]["generation"], "replicas": replicas,
            "updatedReplicas": replicas, "availableReplicas": replicas});
        self.api.put(&found);
    }

    pub(crate) async fn until(&self, what: &str, mut is_so: impl FnMut(&Value) -> bool) {
        self.api.wait_until(what, |api| api.get(&vat_key()).is_some_and(|vat| is_so(&vat["status"]))).await;
    }

    /// How many reconciles have ended.
    pub(crate) fn reconciles(&self) -> u64 {
        let counter = r#"c5c3_reconcile_duration_seconds_count{controller="vat",step="report"} "#;
        self.metrics.text().lines().find_map(|line| line.strip_prefix(counter)?.parse().ok()).unwrap_or_default()
    }

    /// Starts a reconcile, and waits until it has ended.
    pub(crate) async fn reconcile(&self, color: &str) {
        let before = self.reconciles();
        let mut vat = vat_key();
        vat["metadata"]["labels"] = json!({"color": color});
        self.api.put(&vat);
        self.api.wait_until("a reconcile has ended", |_| self.reconciles() > before).await;
    }
}

/// The reason of a condition.
pub(crate) fn reason(status: &Value, condition: &str) -> Value {
    let mut all = status["conditions"].as_array().into_iter().flatten();
    all.find(|found| found["type"] == condition).map(|found| found["reason"].clone()).unwrap_or_default()
}

pub(crate) fn is_ready(status: &Value) -> bool {
    status["conditions"].as_array().into_iter().flatten().any(|c| c["type"] == "Ready" && c["status"] == "True")
}

pub(crate) fn vat_key() -> Value {
    json!({"apiVersion": "toy.example.org/v1", "kind": "Vat", "metadata": {"name": "north", "namespace": "valley"}})
}

pub(crate) fn vat(feeds: &[&str]) -> Value {
    let mut vat = vat_key();
    vat["spec"] = json!({"feeds": feeds});
    vat
}

pub(crate) fn deployment(name: &str) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": "valley"}})
}

pub(crate) fn scaler() -> Value {
    json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "north", "namespace": "valley"}})
}

/// What the API answers with for the service's port.
pub(crate) fn service() -> Value {
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "north:80", "namespace": "valley"}})
}
