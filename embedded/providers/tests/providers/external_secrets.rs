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
    // Someone meddles, someone deletes.
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

/// ClusterSecretStores by mount and role of a store. Those of `hypervisor` name a service account; the others leave it to
/// External Secrets to log in as itself.
async fn with_roles(stage: &Stage, served: &Served, roles: &[(&str, &str)]) {
    let home = stage.cluster.namespace_named("external-secrets").await.unwrap();
    let account: ServiceAccount = of(json!({"metadata": {"name": "external-secrets"}}));
    Api::namespaced(stage.client.clone(), &home).create(&PostParams::default(), &account).await.unwrap();
    let stores = Api::<ClusterSecretStore>::all(stage.client.clone());
    for (mount, role) in roles {
        let account = (*mount == "hypervisor").then(|| json!({"name": "external-secrets", "namespace": home}));
        let spec = json!({"provider": {"vault": {
            "server": served.url, "path": "kv-v2", "auth": {"kubernetes": {
                "mountPath": format!("kubernetes/{mount}"), "role": role, "serviceAccountRef": account,
            }},
        }}});
        let store: ClusterSecretStore = of(object("v1", "ClusterSecretStore", mount, &spec));
        stores.create(&PostParams::default(), &store).await.unwrap();
    }
}

/// A push of all of `source` through a ClusterSecretStore.
fn push_by(store: &str, key: &str) -> Value {
    let store = json!([{"name": store, "kind": "ClusterSecretStore"}]);
    json!({"secretStoreRefs": store, "data": [{"match": {"remoteRef": {"remoteKey": key}}}]})
}

/// An ExternalSecret of all that a ClusterSecretStore has at a key.
fn external_by(name: &str, store: &str, key: &str) -> Value {
    let from = json!({"secretStoreRef": {"name": store, "kind": "ClusterSecretStore"}, "dataFrom": [{"extract": {"key": key}}]});
    let mut external = external(&from);
    external["metadata"]["name"] = json!(name);
    external
}

#[tokio::test]
async fn a_service_account_logs_in_by_its_role_and_may_do_what_that_may() {
    let (stage, served, _folder) = with_store().await;
    let roles = [("control-plane", "eso-control-plane"), ("hypervisor", "eso-hypervisor"), ("storage", "nothing")];
    with_roles(&stage, &served, &roles).await;
    stage.create::<Secret>(json!({"metadata": {"name": "source"}, "stringData": {"word": "owl"}})).await;

    for (name, key) in [("credential", "openstack/nova/app-credential"), ("compute", "openstack/nova/compute-config")] {
        stage.create::<PushSecret>(push(name, &push_by("control-plane", key))).await;
        stage.ready::<PushSecret>(name).await;
    }
    // The bootstrap secrets are for people to write.
    stage.create::<PushSecret>(push("admin", &push_by("control-plane", "bootstrap/keystone-admin"))).await;
    let why = stage.not_ready::<PushSecret>("admin", "Errored").await;
    assert!(why.contains("403"), "{why}");
    stage.create::<PushSecret>(push("shut-out", &push_by("storage", "ceph/client-nova"))).await;
    let why = stage.not_ready::<PushSecret>("shut-out", "Errored").await;
    assert!(why.contains("invalid role name"), "{why}");

    let by_root = json!({"data": [{"match": {"remoteRef": {"remoteKey": "bootstrap/keystone-admin"}}}]});
    stage.create::<PushSecret>(push("by-root", &by_root)).await;
    stage.ready::<PushSecret>("by-root").await;
    let copy = external_by("compute", "hypervisor", "openstack/nova/compute-config");
    stage.create::<ExternalSecret>(copy).await;
    stage.eventually::<Secret>("compute", holds("word", "owl")).await;
    for (name, key) in [("admin", "bootstrap/keystone-admin"), ("credential", "openstack/nova/app-credential")] {
        stage.create::<ExternalSecret>(external_by(name, "hypervisor", key)).await;
        let why = stage.not_ready::<ExternalSecret>(name, "SecretSyncedError").await;
        assert!(why.contains("403"), "{key}: {why}");
    }
    stage.create::<ExternalSecret>(external_by("bootstrap", "control-plane", "bootstrap/keystone-admin")).await;
    stage.eventually::<Secret>("bootstrap", holds("word", "owl")).await;
}

/// The documents write keys as the HTTP API has them; in the engine they are where relative keys are.
#[tokio::test]
async fn a_key_with_its_mount_in_front_is_the_same_secret() {
    let (stage, _served, _folder) = with_store().await;
    stage.create::<Secret>(json!({"metadata": {"name": "source"}, "stringData": {"clouds.yaml": "owl"}})).await;
    let property = |key: &str| {
        let at = json!({"remoteKey": key, "property": "clouds.yaml"});
        json!({"deletionPolicy": "Delete", "data": [{"match": {"secretKey": "clouds.yaml", "remoteRef": at}}]})
    };
    let full = "kv-v2/data/openstack/k-orc/app-credential";
    stage.create::<PushSecret>(push("out", &property(full))).await;
    stage.ready::<PushSecret>("out").await;
    for (name, key) in [("full", full), ("relative", "openstack/k-orc/app-credential")] {
        let mut copy = external(&json!({"dataFrom": [{"extract": {"key": key}}]}));
        copy["metadata"]["name"] = json!(name);
        stage.create::<ExternalSecret>(copy).await;
        stage.eventually::<Secret>(name, holds("clouds.yaml", "owl")).await;
    }
    stage.delete::<PushSecret>("out").await;
    let why = stage.not_ready::<ExternalSecret>("relative", "SecretSyncedError").await;
    assert!(why.contains("is not in the store"), "{why}");
}

/// K-ORC's credential by the manifests of `deploy`, through the store with its own policies.
#[tokio::test]
async fn the_credential_of_k_orc_reaches_both_namespaces() {
    let (stage, served, _folder) = with_store().await;
    with_roles(&stage, &served, &[("control-plane", "eso-control-plane")]).await;
    for namespace in ["openstack", "orc-system"] {
        stage.cluster.namespace_named(namespace).await.unwrap();
    }
    let source =
        json!({"metadata": {"name": "k-orc-app-credential"}, "stringData": {"clouds.yaml": "owl", "other": "x"}});
    let secrets = |namespace: &str| Api::<Secret>::namespaced(stage.client.clone(), namespace);
    secrets("openstack").create(&PostParams::default(), &of(source)).await.unwrap();
    let by_hand = include_str!("../../../../deploy/external-secrets/k-orc-by-hand.yaml");
    let manifests = [by_hand, include_str!("../../../../deploy/external-secrets/k-orc.yaml")];
    for document in manifests.iter().flat_map(|file| file.split("\n---\n")) {
        // The store of this stage has another name.
        let text = document.replace("openbao-cluster-store", "control-plane");
        let object: kube::api::DynamicObject = serde_saphyr::from_str(&text).unwrap();
        let kind = object.types.clone().unwrap();
        let gvk = kube::core::GroupVersionKind::try_from(kind).unwrap();
        let resource = kube::core::ApiResource::from_gvk(&gvk);
        let namespace = object.metadata.namespace.clone().unwrap();
        let api = Api::<kube::api::DynamicObject>::namespaced_with(stage.client.clone(), &namespace, &resource);
        api.create(&PostParams::default(), &object).await.unwrap();
    }
    for namespace in ["openstack", "orc-system"] {
        let found =
            kube::runtime::wait::await_condition(secrets(namespace), "k-orc-clouds-yaml", holds("clouds.yaml", "owl"));
        tokio::time::timeout(std::time::Duration::from_secs(30), found).await.expect(namespace).unwrap();
    }
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
