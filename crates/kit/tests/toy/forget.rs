//! What is remembered of an object that goes while it is reconciled.

use std::time::Duration;

use c5c3_kit::http::Readiness;
use c5c3_kit::metrics::Metrics;
use c5c3_kit::run::RunOptions;
use c5c3_kit::testing::FakeApi;
use c5c3_kit::{Controller, Inputs, KindRef, Operator, Plan, Ref, Settings, Verdict, Wait};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{CustomResource, ResourceExt};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

#[derive(CustomResource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[kube(group = "toy.example.org", version = "v1", kind = "Ghost", plural = "ghosts", namespaced)]
struct GhostSpec {}

/// Each Ghost is deleted as soon as it is reconciled.
struct Ghosts {
    api: FakeApi,
}

impl Controller for Ghosts {
    type Kind = Ghost;
    type Valid = ();
    const NAME: &'static str = "ghost";
    const CONDITIONS: &'static [&'static str] = &["Seen"];

    fn children(&self) -> Vec<KindRef> {
        vec![KindRef::of::<ConfigMap>()]
    }

    fn needs(&self, inputs: &Inputs<Ghost>) -> Vec<Ref> {
        self.api.delete(&ghost());
        vec![lamp(&inputs.object)]
    }

    fn validate(&self, inputs: &Inputs<Ghost>) -> Verdict<()> {
        Verdict::Wait(vec![Wait::on(&lamp(&inputs.object))])
    }

    fn plan(&self, (): &(), _: &Inputs<Ghost>) -> Plan {
        Plan::new()
    }
}

fn lamp(ghost: &Ghost) -> Ref {
    Ref::namespaced::<ConfigMap>(ghost.namespace().unwrap(), "lamp")
}

fn ghost() -> Value {
    json!({"apiVersion": "toy.example.org/v1", "kind": "Ghost", "metadata": {"name": "boo", "namespace": "attic"}, "spec": {}})
}

#[tokio::test]
async fn nothing_is_remembered_of_an_object_that_went_during_its_reconcile() {
    let (api, metrics) = (FakeApi::default(), Metrics::default());
    let (client, own_api, own_metrics) = (api.client(), api.clone(), metrics.clone());
    let task = tokio::spawn(async move {
        let operator = Operator::new("ghost-operator").controller(move || Ghosts { api: own_api.clone() });
        let settings =
            Settings { options: RunOptions { debounce: Duration::ZERO, ..RunOptions::default() }, election: None };
        operator.run(client, settings, own_metrics, Readiness::default(), CancellationToken::new()).await;
    });
    api.put(&ghost());
    let reconciled = |_: &FakeApi| metrics.text().contains(r#"c5c3_reconciles_total{controller="ghost"} 1"#);
    api.wait_until("it was reconciled to the end", reconciled).await;
    api.wait_until("it is forgotten", |_| !metrics.text().contains(r#"name="boo""#)).await;
    // Watches that broke are opened again, unless no object refers to theirs any more.
    api.take_reads();
    api.drop_watches();
    let mut reads = Vec::new();
    api.wait_until("others are watched again", |api| {
        reads.extend(api.take_reads());
        reads.iter().any(|read| read.starts_with("WATCH") && read.contains("/ghosts"))
    })
    .await;
    assert!(!reads.iter().any(|read| read.contains("lamp")), "{reads:?}");
    task.abort();
}
