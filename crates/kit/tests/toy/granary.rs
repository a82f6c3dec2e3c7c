//! A fourth toy: a Granary has a ledger that may outlive it, and its plans can be wrong on demand.

use std::time::Duration;

use c5c3_api::problem;
use c5c3_kit::http::Readiness;
use c5c3_kit::metrics::Metrics;
use c5c3_kit::retention::{Confirmation, Retained};
use c5c3_kit::run::RunOptions;
use c5c3_kit::testing::FakeApi;
use c5c3_kit::{Child, Controller, Inputs, KindRef, Operator, Plan, Ref, Settings, Step, Verdict, Wait};
use k8s_openapi::api::core::v1::{ConfigMap, Secret, Service};
use kube::{CustomResource, ResourceExt};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

#[derive(CustomResource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[kube(group = "toy.example.org", version = "v1", kind = "Granary", plural = "granarys", namespaced)]
#[serde(rename_all = "camelCase")]
pub(crate) struct GranarySpec {
    /// Whether the ledger stays when the Granary goes.
    pub(crate) keeps: bool,
    /// What is wrong with the plan, if anything.
    #[serde(default)]
    pub(crate) flaw: String,
}

pub(crate) struct GranaryController;

impl Controller for GranaryController {
    type Kind = Granary;
    type Valid = ();
    const NAME: &'static str = "granary";
    const CONDITIONS: &'static [&'static str] = &["GranaryReady"];
    const FINALIZER: Option<&'static str> = Some("toy.example.org/granary-cleanup");

    fn children(&self) -> Vec<KindRef> {
        vec![KindRef::of::<Secret>()]
    }

    fn needs(&self, _: &Inputs<Granary>) -> Vec<Ref> {
        Vec::new()
    }

    fn validate(&self, inputs: &Inputs<Granary>) -> Verdict<()> {
        match inputs.object.spec.flaw.as_str() {
            "fire" => Verdict::Invalid(vec![problem("spec.flaw", "it burns", "put it out")].into()),
            _ => Verdict::Valid(()),
        }
    }

    fn plan(&self, (): &(), inputs: &Inputs<Granary>) -> Plan {
        let spec = &inputs.object.spec;
        if spec.flaw == "empty" {
            return Plan::new().step(Step::new("GranaryReady").childless());
        }
        let namespace = if spec.flaw == "place" { "cellar".into() } else { inputs.object.namespace().unwrap() };
        let metadata = json!({"name": "ledger", "namespace": namespace});
        let ledger: Secret = serde_json::from_value(json!({"metadata": metadata})).unwrap();
        let service: Service = serde_json::from_value(json!({"metadata": metadata})).unwrap();
        let ledger = if spec.flaw == "kind" { Child::new(&service) } else { Child::new(&ledger).kept(spec.keeps) };
        Plan::new().step(Step::new("GranaryReady").child(ledger))
    }

    fn retention(&self, object: &Value) -> Vec<Retained> {
        let mouse = Ref::namespaced::<ConfigMap>("valley", "mouse");
        let wait = Wait::on(&mouse).condition("spares the grain");
        let confirmation = Confirmation { object: mouse, unwanted: ("/data/eats", json!("grain")), wait };
        let ledger = Retained::new(Ref::namespaced::<Secret>("valley", "ledger"));
        vec![ledger.kept(object["spec"]["keeps"] == true).confirmed_by(confirmation)]
    }
}

/// A running controller of Granaries.
pub(crate) struct Barn {
    pub(crate) api: FakeApi,
    task: JoinHandle<()>,
}

impl Drop for Barn {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Barn {
    pub(crate) fn start() -> Self {
        let api = FakeApi::default();
        let options =
            RunOptions { debounce: Duration::ZERO, first_retry: Duration::from_millis(2), ..RunOptions::default() };
        let client = api.client();
        let task = tokio::spawn(async move {
            let operator = Operator::new("granary-operator").controller(|| GranaryController);
            let settings = Settings { options, election: None };
            operator.run(client, settings, Metrics::default(), Readiness::default(), CancellationToken::new()).await;
        });
        Self { api, task }
    }

    /// A Granary that is ready.
    pub(crate) async fn ready(keeps: bool) -> Self {
        let barn = Self::start();
        barn.api.put(&granary(keeps, ""));
        barn.until_reason("Ready").await;
        barn
    }

    /// Waits until `Ready` has that reason for the Granary's present generation.
    pub(crate) async fn until_reason(&self, reason: &str) {
        self.api
            .wait_until(&format!("Ready has reason {reason}"), |api| {
                let Some(granary) = api.get(&granary_key()) else { return false };
                let conditions = granary["status"]["conditions"].as_array();
                let ready = conditions.into_iter().flatten().find(|found| found["type"] == "Ready");
                ready.is_some_and(|ready| {
                    ready["reason"] == reason && ready["observedGeneration"] == granary["metadata"]["generation"]
                })
            })
            .await;
    }

    /// Starts a reconcile.
    pub(crate) fn annotate(&self, annotations: &Value) {
        let mut granary = granary_key();
        granary["metadata"]["annotations"] = annotations.clone();
        self.api.put(&granary);
    }

    /// Whether garbage collection takes the ledger when the Granary goes.
    pub(crate) fn is_ledger_owned(&self) -> bool {
        let ledger = self.api.get(&ledger()).expect("the ledger is there");
        ledger["metadata"]["ownerReferences"].as_array().is_some_and(|owners| !owners.is_empty())
    }
}

pub(crate) fn granary_key() -> Value {
    json!({"apiVersion": "toy.example.org/v1", "kind": "Granary", "metadata": {"name": "north", "namespace": "valley"}})
}

pub(crate) fn granary(keeps: bool, flaw: &str) -> Value {
    let mut granary = granary_key();
    granary["spec"] = json!({"keeps": keeps, "flaw": flaw});
    granary
}

pub(crate) fn ledger() -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "ledger", "namespace": "valley"}})
}

/// Another operator's object, which shows what becomes of the grain.
pub(crate) fn mouse(eats: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "mouse", "namespace": "valley"},
        "data": {"eats": eats}})
}
