//! The issuer of certificates that production ControlPlanes name, `letsencrypt-prod`. On one machine an authority of the
//! cluster's own signs in its place, so that the same ControlPlane comes up here.

use std::time::Duration;

use kube::api::{DynamicObject, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

/// How long to wait before the next attempt: the kinds are installed while this runs.
const RETRY: Duration = Duration::from_secs(1);

/// The namespace of the Secrets of ClusterIssuers.
const HOME: &str = "cert-manager";

/// Makes the issuer and its authority, and ends with `stop`. Objects that exist already stay as they are, so that people can
/// use an issuer of their own by the same name.
pub(crate) async fn provide(client: Client, stop: CancellationToken) {
    for object in objects() {
        while let Err(error) = create(&client, &object).await {
            tracing::debug!(%error, kind = %object["kind"], "an issuer is not made yet");
            if stop.run_until_cancelled(tokio::time::sleep(RETRY)).await.is_none() {
                return;
            }
        }
    }
    stop.cancelled().await;
}

async fn create(client: &Client, object: &Value) -> Result<(), kube::Error> {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let version = text("/apiVersion");
    let (group, version) = version.split_once('/').unwrap_or(("", version));
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, text("/kind")));
    let api: Api<DynamicObject> = match object.pointer("/metadata/namespace").and_then(Value::as_str) {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    };
    let object = serde_json::from_value(object.clone()).map_err(kube::Error::SerdeError)?;
    match api.create(&PostParams::default(), &object).await {
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
        created => created.map(drop),
    }
}

fn objects() -> [Value; 4] {
    let kind = |kind: &str, metadata: Value, spec: Value| json!({"apiVersion": "cert-manager.io/v1", "kind": kind, "metadata": metadata, "spec": spec});
    [
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": HOME}}),
        kind("ClusterIssuer", json!({"name": "embedded-root"}), json!({"selfSigned": {}})),
        kind(
            "Certificate",
            json!({"name": "embedded-authority", "namespace": HOME}),
            json!({
                "isCA": true,
                "commonName": "CobaltCore embedded authority",
                "duration": "87600h",
                "secretName": "embedded-authority",
                "privateKey": {"algorithm": "ECDSA", "size": 256},
                "issuerRef": {"group": "cert-manager.io", "kind": "ClusterIssuer", "name": "embedded-root"},
            }),
        ),
        kind("ClusterIssuer", json!({"name": "letsencrypt-prod"}), json!({"ca": {"secretName": "embedded-authority"}})),
    ]
}
