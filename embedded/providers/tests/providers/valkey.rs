//! Valkey.

use c5c3_api::blocks::Condition;
use c5c3_api::ext::cert_manager::Issuer;
use c5c3_api::ext::valkey::Valkey;
use c5c3_harness::Fault;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{Secret, Service};
use kube::ResourceExt;
use kube::api::ListParams;
use serde_json::{Value, json};

use crate::stage::Stage;

#[expect(clippy::needless_pass_by_value, reason = "a test writes it down where it is used")]
fn valkey(spec: Value) -> Value {
    json!({"apiVersion": "cache.cs.sap.com/v1alpha1", "kind": "Valkey", "metadata": {"name": "larder"}, "spec": spec})
}

async fn services(stage: &Stage) -> Vec<String> {
    let services = stage.api::<Service>().list(&ListParams::default()).await.unwrap();
    services.iter().map(ResourceExt::name_any).filter(|name| name.starts_with("valkey")).collect()
}

#[tokio::test]
async fn with_sentinel_clients_are_told_of_the_sentinels_and_of_the_name_of_the_primary() {
    let stage = Stage::set().await;
    stage.create::<Valkey>(valkey(json!({"replicas": 3, "sentinel": {"enabled": true}}))).await;
    stage.ready::<Valkey>("larder").await;
    let mut binding = stage.secret("valkey-larder-binding").await;
    let password = binding.remove("password").unwrap();
    assert_eq!(stage.secret("valkey-larder").await["valkey-password"], password);
    let host = "valkey-larder.default.svc.cluster.local";
    let told = [
        ("host", host),
        ("port", "6379"),
        ("primaryName", "myprimary"),
        ("sentinelEnabled", "true"),
        ("sentinelHost", host),
        ("sentinelPort", "26379"),
        ("tlsEnabled", "false"),
    ];
    assert_eq!(binding, told.map(|(key, value)| (key.to_owned(), value.to_owned())).into());
    assert_eq!(services(&stage).await, ["valkey-larder", "valkey-larder-headless"]);
    let members = stage.api::<StatefulSet>().get("valkey-larder-node").await.unwrap().spec.unwrap();
    assert_eq!((members.replicas, members.template.spec.unwrap().containers.len()), (Some(3), 2));
}

#[tokio::test]
async fn without_sentinel_the_primary_and_its_replicas_have_services_of_their_own() {
    let stage = Stage::set().await;
    stage.cluster.inject(Fault::lose_answer().to("patch", "/secrets/valkey-larder"));
    stage.cluster.inject(Fault::answer(500).to("patch", "/valkeys").times(2));
    stage.create::<Valkey>(valkey(json!({"replicas": 2, "binding": {"secretName": "key"}}))).await;
    stage.ready::<Valkey>("larder").await;
    let binding = stage.secret("key").await;
    assert_eq!(binding["primaryHost"], "valkey-larder-primary.default.svc.cluster.local");
    assert_eq!(binding["replicaHost"], "valkey-larder-replicas.default.svc.cluster.local");
    assert_eq!(binding["password"], stage.secret("valkey-larder").await["valkey-password"]);
    assert_eq!(services(&stage).await, ["valkey-larder-headless", "valkey-larder-primary", "valkey-larder-replicas"]);
    stage.delete::<Valkey>("larder").await;
    stage.eventually::<Secret>("key", |secret: Option<&Secret>| secret.is_none()).await;
}

#[tokio::test]
async fn what_cannot_be_had_is_refused_and_what_runs_goes_on() {
    let stage = Stage::set().await;
    stage.create::<Valkey>(valkey(json!({}))).await;
    stage.ready::<Valkey>("larder").await;
    stage.change::<Valkey>("larder", json!({"spec": {"binding": {"template": "{{ .host }}"}}})).await;
    let why = stage.not_ready::<Valkey>("larder", "Error").await;
    assert!(why.starts_with("spec.binding.template"), "{why}");
    let members = stage.api::<StatefulSet>().get("valkey-larder-primary").await.unwrap();
    assert_eq!(members.spec.unwrap().replicas, Some(1));
}

#[tokio::test]
async fn metrics_that_are_not_provided_are_told_by_name_beside_a_server_that_is_ready() {
    let stage = Stage::set().await;
    stage.create::<Valkey>(valkey(json!({"metrics": {"enabled": true}}))).await;
    stage.ready::<Valkey>("larder").await;
    let metrics = |valkey: Option<&Valkey>| {
        let conditions = &valkey?.status.as_ref()?.conditions;
        conditions.iter().find(|condition| condition.r#type == "MetricsReady").cloned()
    };
    let refused = |metrics: Condition| {
        metrics.reason.as_deref() == Some("NotProvided")
            && metrics.message.is_some_and(|why| why.starts_with("spec.metrics: "))
    };
    stage.eventually("larder", |valkey: Option<&Valkey>| metrics(valkey).is_some_and(refused)).await;
    stage.change::<Valkey>("larder", json!({"spec": {"metrics": {"enabled": false}}})).await;
    stage.eventually("larder", |valkey: Option<&Valkey>| valkey.is_some() && metrics(valkey).is_none()).await;
    stage.ready::<Valkey>("larder").await;
}

#[tokio::test]
async fn a_certificate_comes_from_the_issuer_and_clients_are_told_whom_to_trust() {
    let stage = Stage::set().await;
    let tls = json!({"enabled": true, "certManager": {"issuer": {"kind": "Issuer", "name": "stamp"}}});
    stage.create::<Valkey>(valkey(json!({"tls": tls}))).await;
    let why = stage.not_ready::<Valkey>("larder", "Processing").await;
    assert!(why.contains("valkey-larder-tls"), "{why}");
    assert!(stage.api::<StatefulSet>().get_opt("valkey-larder-primary").await.unwrap().is_none());

    let issuer = json!({"apiVersion": "cert-manager.io/v1", "kind": "Issuer", "metadata": {"name": "stamp"},
        "spec": {"selfSigned": {}}});
    stage.create::<Issuer>(issuer).await;
    stage.ready::<Valkey>("larder").await;
    let binding = stage.secret("valkey-larder-binding").await;
    assert_eq!(binding["tlsEnabled"], "true");
    assert_eq!(binding["caData"], stage.secret("valkey-larder-tls").await["ca.crt"]);
}

#[tokio::test]
async fn a_server_that_gets_tls_later_has_another_certificate_and_starts_anew() {
    let stage = Stage::set().await;
    stage.create::<Valkey>(valkey(json!({}))).await;
    stage.ready::<Valkey>("larder").await;
    stage.change::<Valkey>("larder", json!({"spec": {"tls": {"enabled": true}}})).await;
    stage.ready::<Valkey>("larder").await;
    assert_eq!(
        stage.secret("valkey-larder-binding").await["caData"],
        stage.secret("valkey-larder-crt").await["ca.crt"]
    );
    let members = stage.api::<StatefulSet>().get("valkey-larder-primary").await.unwrap().spec.unwrap();
    let annotations = members.template.metadata.unwrap().annotations.unwrap();
    assert!(annotations.contains_key("c5c3.io/certificate"), "{annotations:?}");
}
