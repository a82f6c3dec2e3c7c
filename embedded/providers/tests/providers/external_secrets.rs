//! SecretStore, ClusterSecretStore, ExternalSecret and PushSecret, against the store of this crate.

use std::path::Path;
use std::sync::Arc;

use c5c3_api::ext::external_secrets::{ClusterSecretStore, ExternalSecret, PushSecret, SecretStore};
use c5c3_providers::store::Store;
use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use kube::api::{Api, DeleteParams, PostParams};
use secrecy::ExposeSecret;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::stage::{Stage, of};

/// A store that is served on this machine.
pub struct Served {
    pub url: String,
    pub token: String,
    _stop: DropGuard,
}

impl Served {
    /// Serves the store of a folder.
    pub async fn start(folder: &Path, stage: &Stage) -> Self {
        let store = Arc::new(Store::open(folder).expect("a store"));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let (token, stop) = (store.root_token().expose_secret().to_owned(), CancellationToken::new());
        tokio::spawn(store.serve(listener, None, stage.client.clone(), stop.clone()));
        Self { url, token, _stop: stop.drop_guard() }
    }
}

fn object(version: &str, kind: &str, name: &str, spec: &Value) -> Value {
    let group = format!("external-secrets.io/{version}");
    json!({"apiVersion": group, "kind": kind, "metadata": {"name": name}, "spec": spec})
}

/// A stage with a SecretStore `cave` that logs in with a token.
async fn with_store() -> (Stage, Served, tempfile::TempDir) {
    let (stage, folder) = (Stage::set().await, tempfile::tempdir().unwrap());
    let served = Served::start(folder.path(), &stage).await;
    stage.create::<Secret>(json!({"metadata": {"name": "key"}, "stringData": {"token": served.token}})).await;
    let spec = json!({"provider": {"vault": {
        "server": served.url, "path": "kv-v2", "auth": {"tokenSecretRef": {"name": "key", "key": "token"}},
    }}});
    stage.create::<SecretStore>(object("v1", "SecretStore", "cave", &spec)).await;
    stage.ready::<SecretStore>("cave").await;
    (stage, served, folder)
}

fn push(name: &str, more: &Value) -> Value {
    let mut spec = json!({
        "secretStoreRefs": [{"name": "cave", "kind": "SecretStore"}],
        "selector": {"secret": {"name": "source"}},
        "data": [{"match": {"remoteRef": {"remoteKey": "openstack/riddle"}}}],
    });
    for (field, value) in more.as_object().expect("fields") {
        spec[field] = value.clone();
    }
    object("v1alpha1", "PushSecret", name, &spec)
}

fn external(more: &Value) -> Value {
    let mut spec = json!({
        "secretStoreRef": {"name": "cave", "kind": "SecretStore"},
        "refreshInterval": "1s",
        "dataFrom": [{"extract": {"key": "openstack/riddle"}}],
    });
    for (field, value) in more.as_object().expect("fields") {
        spec[field] = value.clone();
    }
    object("v1", "ExternalSecret", "copy", &spec)
}

fn holds(key: &'static str, value: &'static str) -> impl Fn(Option<&Secret>) -> bool {
    move |secret: Option<&Secret>| {
        let found = secret.and_then(|secret| secret.data.as_ref()?.get(key));
        found.is_some_and(|found| found.0 == value.as_bytes())
    }
}

#[tokio::test]
async fn what_is_pushed_is_read_again_and_changes_follow() {
    let (stage, _served, _folder) = with_store().await;
    stage
        .create::<Secret>(json!({"metadata": {"name": "source"}, "stringData": {"word": "owl", "answer": "42"}}))
        .await;
    stage.create::<PushSecret>(push("out", &json!({"refreshInterval": "1s"}))).await;
    stage.ready::<PushSecret>("out").await;
    let template = json!({
        "type": "Opaque", "metadata": {"labels": {"colour": "red"}},
        "data": {"sentence": "the {{ .word }} says {{ .answer }}"},
    });
    stage.create::<ExternalSecret>(external(&json!({"target": {"template": template}}))).await;
    let copy: ExternalSecret = stage.ready("copy").await;
    assert_eq!(copy.status.unwrap().binding.unwrap().name, "copy");
    stage.eventually::<Secret>("copy", holds("sentence", "the owl says 42")).await;
    let secret = stage.api::<Secret>().get("copy").await.unwrap();
    assert_eq!(secret.metadata.labels.unwrap()["colour"], "red");
    assert_eq!(secret.metadata.owner_references.unwrap()[0].kind, "ExternalSecret");

    stage.change::<Secret>("source", json!({"stringData": {"word": "cat"}})).await;
    stage.eventually::<Secret>("copy", holds("sentence", "the cat says 42")).await;
    // Somebody meddles, somebody deletes.
    stage.change::<Secret>("copy", json!({"stringData": {"sentence": "nothing"}})).await;
    stage.eventually::<Secret>("copy", holds("sentence", "the cat says 42")).await;
    stage.api::<Secret>().delete("copy", &DeleteParams::default()).await.unwrap();
    stage.eventually::<Secret>("copy", holds("sentence", "the cat says 42")).await;
    stage.delete::<ExternalSecret>("copy").await;
    stage.eventually::<Secret>("copy", |secret: Option<&Secret>| secret.is_none()).await;
}

#[tokio::test]
async fn single_properties_are_pushed_beside_others_and_taken_back() {
    let (stage, served, folder) = with_store().await;
    stage
        .create::<Secret>(json!({"metadata": {"name": "source"}, "stringData": {"word": "owl", "answer": "42"}}))
        .await;
    stage.create::<PushSecret>(push("whole", &json!({}))).await;
    stage.ready::<PushSecret>("whole").await;
    let one = json!({
        "deletionPolicy": "Delete",
        "data": [{"match": {"secretKey": "word", "remoteRef": {"remoteKey": "openstack/riddle", "property": "bird"}}}],
    });
    stage.create::<PushSecret>(push("one", &one)).await;
    stage.ready::<PushSecret>("one").await;
    let data = json!({"dataFrom": [], "data": [
        {"secretKey": "bird", "remoteRef": {"key": "openstack/riddle", "property": "bird"}},
        {"secretKey": "all", "remoteRef": {"key": "openstack/riddle"}},
    ]});
    stage.create::<ExternalSecret>(external(&data)).await;
    stage.ready::<ExternalSecret>("copy").await;
    let copy = stage.secret("copy").await;
    assert_eq!(copy["bird"], "owl");
    assert_eq!(
        serde_json::from_str::<Value>(&copy["all"]).unwrap(),
        json!({"word": "owl", "answer": "42", "bird": "owl"})
    );

    stage.delete::<PushSecret>("one").await;
    let why = stage.not_ready::<ExternalSecret>("copy", "SecretSyncedError").await;
    assert!(why.contains("openstack/riddle, property bird"), "{why}");
    assert_eq!(stage.secret("copy").await["bird"], "owl", "what there was stays");

    // All is on the disk: another server with the same folder knows it.
    drop(served);
    let again = Served::start(folder.path(), &stage).await;
    let patch = json!({"spec": {"provider": {"vault": {"server": again.url}}}});
    stage.change::<SecretStore>("cave", patch).await;
    stage
        .change::<ExternalSecret>(
            "copy",
            json!({"spec": {"data": [
                {"secretKey": "word", "remoteRef": {"key": "openstack/riddle", "property": "word"}},
            ]}}),
        )
        .await;
    stage.ready::<ExternalSecret>("copy").await;
    stage.eventually::<Secret>("copy", holds("word", "owl")).await;
}

#[tokio::test]
async fn a_service_account_logs_in_by_its_role() {
    let (stage, served, _folder) = with_store().await;
    let home = stage.cluster.namespace_named("external-secrets").await.unwrap();
    let account: ServiceAccount = of(json!({"metadata": {"name": "external-secrets"}}));
    Api::namespaced(stage.client.clone(), &home).create(&PostParams::default(), &account).await.unwrap();
    let store = |name: &str, role: &str| -> ClusterSecretStore {
        of(object(
            "v1",
            "ClusterSecretStore",
            name,
            &json!({"provider": {"vault": {
                "server": served.url, "path": "kv-v2", "auth": {"kubernetes": {
                    "mountPath": "kubernetes", "role": role,
                    "serviceAccountRef": {"name": "external-secrets", "namespace": home},
                }},
            }}}),
        ))
    };
    let stores = Api::<ClusterSecretStore>::all(stage.client.clone());
    stores.create(&PostParams::default(), &store("cluster-cave", "eso-control-plane")).await.unwrap();
    stores.create(&PostParams::default(), &store("closed", "somebody-else")).await.unwrap();
    stage.create::<Secret>(json!({"metadata": {"name": "source"}, "stringData": {"word": "owl"}})).await;
    let by = |name: &str| json!({"secretStoreRefs": [{"name": name, "kind": "ClusterSecretStore"}]});
    stage.create::<PushSecret>(push("out", &by("cluster-cave"))).await;
    stage.ready::<PushSecret>("out").await;
    stage.create::<PushSecret>(push("shut-out", &by("closed"))).await;
    let why = stage.not_ready::<PushSecret>("shut-out", "Errored").await;
    assert!(why.contains("invalid role name"), "{why}");
}

#[tokio::test]
async fn what_cannot_be_had_is_named_and_no_secret_is() {
    let (stage, served, _folder) = with_store().await;
    stage.change::<Secret>("key", json!({"stringData": {"token": "s.wrong"}})).await;
    stage.change::<SecretStore>("cave", json!({"metadata": {"annotations": {"look": "again"}}})).await;
    let why = stage.not_ready::<SecretStore>("cave", "InvalidProviderConfig").await;
    assert!(why.contains("403") && !why.contains("s.wrong"), "{why}");
    stage.change::<Secret>("key", json!({"stringData": {"token": served.token}})).await;
    stage.ready::<SecretStore>("cave").await;
    let from = json!({"dataFrom": [{"find": {"name": {"regexp": ".*"}}}]});
    stage.create::<ExternalSecret>(external(&from)).await;
    let why = stage.not_ready::<ExternalSecret>("copy", "SecretSyncedError").await;
    assert!(why.starts_with("spec.dataFrom"), "{why}");
    stage.create::<PushSecret>(push("out", &json!({}))).await;
    let why = stage.not_ready::<PushSecret>("out", "Errored").await;
    assert!(why.contains("Secret source"), "{why}");
}
