//! A credential on its way through a store.

use std::sync::Arc;

use c5c3_api::ext::external_secrets::{ClusterSecretStore, ExternalSecret, PushSecret};
use c5c3_providers::store::Store;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, Patch, PatchParams, PostParams};
use secrecy::ExposeSecret;
use serde_json::json;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::site::{Site, TARGET, consumers};

#[tokio::test]
async fn a_credential_goes_through_a_store_and_a_store_that_is_down_is_named() {
    let mut site = Site::open().await;
    let client = site.cluster.client();
    for definition in c5c3_providers::all_definitions() {
        site.cluster.install(&definition).await.unwrap();
    }
    let (folder, stop) = (tempfile::tempdir().unwrap(), CancellationToken::new());
    let store = Arc::new(Store::open(folder.path()).unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let token = store.root_token().expose_secret().to_owned();
    tokio::spawn(store.serve(listener, None, client.clone(), stop.clone()));
    tokio::spawn(c5c3_providers::run(client.clone(), Vec::new(), stop.clone()));
    site.create::<Secret>(json!({"metadata": {"name": "key"}, "stringData": {"token": token}})).await;
    let namespace = site.cluster.namespace().to_owned();
    let vault = |server: &str| {
        json!({"spec": {"provider": {"vault": {"server": server, "path": "kv-v2",
            "auth": {"tokenSecretRef": {"name": "key", "key": "token", "namespace": namespace}}}}}})
    };
    let mut object = vault(&url);
    object["metadata"] = json!({"name": "openbao-cluster-store"});
    object["apiVersion"] = "external-secrets.io/v1".into();
    object["kind"] = "ClusterSecretStore".into();
    let stores: Api<ClusterSecretStore> = Api::all(client.clone());
    stores.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();

    site.start();
    site.serve().await;
    site.rotate(consumers()).await;
    site.idle_with(1).await;
    let first = site.delivered().await.unwrap();
    let secret = site.api::<Secret>().get(TARGET).await.unwrap();
    assert_eq!(secret.metadata.owner_references.unwrap()[0].kind, "ExternalSecret");
    assert_eq!(site.api::<PushSecret>().get("heron-app-credential").await.unwrap().spec.secret_store_refs.len(), 1);
    assert!(site.api::<ExternalSecret>().get(TARGET).await.is_ok());

    let params = PatchParams::default();
    stores.patch("openbao-cluster-store", &params, &Patch::Merge(vault("http://127.0.0.1:9"))).await.unwrap();
    site.request("1").await;
    let status = site
        .until("the store or the push is named", |status| {
            let message = status["steps"][1]["message"].as_str().unwrap_or_default();
            status["phase"] == "Delivering"
                && (message.starts_with("clustersecretstore/openbao-cluster-store is not Ready")
                    || message.starts_with("pushsecret/heron-app-credential is not Ready"))
        })
        .await;
    assert_eq!(status["currentCredential"]["id"], json!(first));
    assert_eq!(site.delivered().await, Some(first.clone()), "services go on with the one before");
    stores.patch("openbao-cluster-store", &params, &Patch::Merge(vault(&url))).await.unwrap();
    site.idle_with(2).await;
    assert_eq!(site.ids(), [site.delivered().await.unwrap()]);
    assert_ne!(site.ids()[0], first);
    stop.cancel();
}
