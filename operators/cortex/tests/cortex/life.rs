//! A Cortex on a whole API server. The scheduler's part is the test's: it says that a pipeline is ready.

use std::time::Duration;

use c5c3_api::cortex::{Cortex, Pipeline};
use c5c3_harness::TestCluster;
use c5c3_kit::Settings;
use c5c3_kit::http::Readiness;
use c5c3_kit::metrics::Metrics;
use c5c3_kit::run::RunOptions;
use c5c3_operator_cortex::{TOKEN, operator};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::runtime::wait::{Condition, await_condition};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

const PATIENCE: Duration = Duration::from_mins(2);

async fn until<K>(api: &Api<K>, name: &str, what: impl Condition<K>) -> Option<K>
where
    K: Resource<DynamicType = ()> + DeserializeOwned + Clone + std::fmt::Debug + Send + 'static,
{
    let found = tokio::time::timeout(PATIENCE, Box::pin(await_condition(api.clone(), name, what))).await;
    let Ok(found) = found else { panic!("{name}: not in time: {:#?}", api.get(name).await.ok()) };
    found.unwrap()
}

fn says(kind: &'static str, reason: &'static str) -> impl Condition<Cortex> {
    move |object: Option<&Cortex>| {
        let status = object.and_then(|object| object.status.as_ref());
        status.is_some_and(|status| {
            status.conditions.iter().any(|told| told.r#type == kind && told.reason.as_deref() == Some(reason))
        })
    }
}

fn tells(kind: &'static str, part: &'static str) -> impl Condition<Cortex> {
    move |object: Option<&Cortex>| {
        let conditions = object.and_then(|object| object.status.as_ref()).map(|status| &status.conditions);
        let told = conditions.into_iter().flatten().find(|told| told.r#type == kind);
        told.and_then(|told| told.message.as_ref()).is_some_and(|message| message.contains(part))
    }
}

fn active(names: &'static [&'static str]) -> impl Condition<Cortex> {
    move |object: Option<&Cortex>| {
        object.and_then(|object| object.status.as_ref()).is_some_and(|status| status.active_pipelines == names)
    }
}

async fn patch_status<K: Resource + DeserializeOwned>(api: &Api<K>, name: &str, status: &Value) {
    let patch = Patch::Merge(json!({ "status": status }));
    api.patch_status(name, &PatchParams::default(), &patch).await.unwrap();
}

/// With the rights that the operator says it needs, and no others.
#[tokio::test(flavor = "multi_thread")]
async fn a_cortex_comes_up_says_what_is_wrong_and_leaves_nothing() {
    let cluster = TestCluster::in_process().await.unwrap();
    for kind in c5c3_api::all().iter().filter(|kind| ["cortex.c5c3.io", "hypervisor.c5c3.io"].contains(&kind.group())) {
        cluster.install(&kind.crd()).await.unwrap();
    }
    cluster.namespace_named("cloud").await.unwrap();
    let access = operator(false).access().clone();
    let limited = cluster.limited("few-rights", "cloud", access.in_namespaces(), access.in_cluster()).await.unwrap();
    let (operated, stop) = (limited.client.clone(), CancellationToken::new());
    let _stop = stop.clone().drop_guard();
    tokio::spawn(async move {
        let (debounce, first_retry) = (Duration::ZERO, Duration::from_millis(5));
        let options = RunOptions { namespace: Some("cloud".into()), debounce, first_retry, ..RunOptions::default() };
        let settings = Settings { options, election: None };
        operator(false).run(operated, settings, Metrics::default(), Readiness::default(), stop).await;
    });

    let client = cluster.client();
    let cortexes: Api<Cortex> = Api::namespaced(client.clone(), "cloud");
    let steps = json!({"filters": [{"name": "ComputeFilter"}]});
    let object = json!({"apiVersion": "cortex.c5c3.io/v1alpha1", "kind": "Cortex", "metadata": {"name": "cortex"},
        "spec": {"pipelines": {"nova": steps}}});
    cortexes.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), "cloud");
    let deployment =
        until(&deployments, "cortex-scheduler", |found: Option<&Deployment>| found.is_some()).await.unwrap();
    let pods = json!({"observedGeneration": deployment.metadata.generation, "replicas": 2, "updatedReplicas": 2,
        "readyReplicas": 1, "availableReplicas": 1, "unavailableReplicas": 1});
    patch_status(&deployments, "cortex-scheduler", &pods).await;
    until(&cortexes, "cortex", says("DeploymentReady", "SchedulerReady")).await;

    let pipelines: Api<Pipeline> = Api::namespaced(client.clone(), "cloud");
    until(&pipelines, "nova", |found: Option<&Pipeline>| found.is_some()).await;
    let ready = json!({"type": "Ready", "status": "True", "reason": "PipelineReady", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 1});
    patch_status(&pipelines, "nova", &json!({"conditions": [ready], "observedGeneration": 1})).await;
    until(&cortexes, "cortex", says("Ready", "Ready")).await;
    until(&cortexes, "cortex", active(&["nova"])).await;

    // It is answered, and told that nothing of this version asks.
    let volumes = json!({"spec": {"pipelines": {"cinder": {"enabled": true}}}});
    cortexes.patch("cortex", &PatchParams::default(), &Patch::Merge(&volumes)).await.unwrap();
    until(&cortexes, "cortex", tells("PipelinesReady", "decides for nova and cinder; Cinder has no client for it"))
        .await;
    until(&cortexes, "cortex", active(&["nova", "cinder"])).await;
    until(&cortexes, "cortex", says("Ready", "Ready")).await;

    let wrong = json!({"spec": {"pipelines": {"nova": {"filters": [{"name": "ComputFilter"}]}}}});
    cortexes.patch("cortex", &PatchParams::default(), &Patch::Merge(&wrong)).await.unwrap();
    let told = until(&cortexes, "cortex", says("PipelinesReady", "StepsInvalid")).await.unwrap().status.unwrap();
    let message = told.conditions.into_iter().find(|told| told.r#type == "PipelinesReady").unwrap().message.unwrap();
    assert!(message.contains("did you mean ComputeFilter?"), "{message}");
    assert_eq!(pipelines.get("nova").await.unwrap().spec.filters[0].name, "ComputeFilter", "the last good one stays");

    let token: Secret = Api::namespaced(client.clone(), "cloud").get("cortex-token").await.unwrap();
    assert_eq!(token.data.unwrap()[TOKEN].0.len(), 32);
    assert_eq!(limited.refused(), Vec::<String>::new());
    cortexes.delete("cortex", &DeleteParams::default()).await.unwrap();
    until(&cortexes, "cortex", |found: Option<&Cortex>| found.is_none()).await;
    let roles: Api<ClusterRole> = Api::all(client);
    until(&roles, "cloud-cortex-scheduler", |found: Option<&ClusterRole>| found.is_none()).await;
}
