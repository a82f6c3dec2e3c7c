//! SecretAggregates on a whole API server: schemas, field owners, garbage collection and all.

use c5c3_api::c5c3::SecretAggregate;
use c5c3_harness::TestCluster;
use c5c3_kit::Settings;
use c5c3_kit::http::Readiness;
use c5c3_kit::metrics::Metrics;
use c5c3_operator_controlplane::operator;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use kube::runtime::wait::{Condition, await_condition};
use serde_json::json;
use tokio_util::sync::CancellationToken;

fn typed<T: serde::de::DeserializeOwned>(value: serde_json::Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn ready_is(reason: &'static str) -> impl Condition<SecretAggregate> {
    move |object: Option<&SecretAggregate>| {
        let conditions = object.and_then(|object| object.status.as_ref()).map(|status| &status.conditions);
        conditions.is_some_and(|all| all.iter().any(|c| c.r#type == "Ready" && c.reason.as_deref() == Some(reason)))
    }
}

#[tokio::test]
async fn an_aggregate_waits_becomes_ready_and_takes_its_target_with_it() {
    let cluster = TestCluster::start().await.unwrap();
    let client = cluster.client();
    cluster.install(&c5c3_api::find("c5c3.io/v1alpha1", "SecretAggregate").unwrap().crd()).await.unwrap();
    let cloud = cluster.namespace_named("cloud").await.unwrap();
    let (own, stop) = (client.clone(), CancellationToken::new());
    let token = stop.clone();
    let task = tokio::spawn(async move {
        operator(false).run(own, Settings::default(), Metrics::default(), Readiness::default(), token).await;
    });

    let aggregates: Api<SecretAggregate> = Api::namespaced(client.clone(), &cloud);
    let secrets: Api<Secret> = Api::namespaced(client.clone(), &cloud);
    let aggregate = typed(json!({
        "apiVersion": "c5c3.io/v1alpha1", "kind": "SecretAggregate", "metadata": {"name": "bundle"},
        "spec": {"sources": [{"secretRef": {"name": "db-root"}, "keys": ["password"]}], "target": {"name": "all"}},
    }));
    aggregates.create(&PostParams::default(), &aggregate).await.unwrap();
    await_condition(aggregates.clone(), "bundle", ready_is("SourceMissing")).await.unwrap();

    let source = typed(json!({"metadata": {"name": "db-root"}, "stringData": {"password": "one", "other": "two"}}));
    secrets.create(&PostParams::default(), &source).await.unwrap();
    await_condition(aggregates.clone(), "bundle", ready_is("AllSourcesAvailable")).await.unwrap();
    let target = secrets.get("all").await.unwrap();
    assert_eq!(target.data.unwrap().keys().collect::<Vec<_>>(), ["password"]);
    let managers: Vec<_> =
        target.metadata.managed_fields.unwrap().into_iter().filter_map(|entry| entry.manager).collect();
    assert_eq!(managers, ["controlplane-operator"]);

    aggregates.delete("bundle", &DeleteParams::background()).await.unwrap();
    await_condition(secrets.clone(), "all", |secret: Option<&Secret>| secret.is_none()).await.unwrap();
    stop.cancel();
    task.await.unwrap();
}
