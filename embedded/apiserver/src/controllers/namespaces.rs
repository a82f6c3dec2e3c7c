//! Namespaces: what each has from the start, and how it goes.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{Change, create, edit};
use crate::object::{is_going, meta, of_entry};
use crate::registry::Served;
use crate::server::Server;
use crate::status::ApiError;
use crate::verbs::{DeleteOptions, delete_object};

/// The ConfigMap that pods find the server's authority in.
const ROOT_CA: &str = "kube-root-ca.crt";

/// Furnishes a namespace, or empties it.
pub(super) async fn reconcile(server: &Arc<Server>, change: &Change) -> Result<(), ApiError> {
    if change.gone {
        return Ok(());
    }
    let name = meta(&change.object, "name");
    if is_going(&change.object) {
        return empty(server, &change.served, &change.key, name).await;
    }
    label(server, change).await?;
    furnish(server, name).await
}

/// Every namespace carries its name as a label, so that selectors can name it.
async fn label(server: &Arc<Server>, change: &Change) -> Result<(), ApiError> {
    let name = meta(&change.object, "name").to_owned();
    edit(server, &change.served, &change.key, |namespace| {
        let labels = &mut namespace["metadata"]["labels"];
        if labels["kubernetes.io/metadata.name"] == name.as_str() {
            return false;
        }
        labels["kubernetes.io/metadata.name"] = name.as_str().into();
        true
    })
    .await
}

async fn furnish(server: &Arc<Server>, namespace: &str) -> Result<(), ApiError> {
    let account =
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": namespace}});
    create(server, "", "v1", "serviceaccounts", account).await?;
    let authority = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "data": {"ca.crt": server.pki().ca_pem()},
        "metadata": {"name": ROOT_CA, "namespace": namespace,
                     "annotations": {"kubernetes.io/description": "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes clusters."}},
    });
    create(server, "", "v1", "configmaps", authority).await
}

/// What is in a namespace changed: what it must have comes back, and an emptied one goes.
pub(super) async fn inhabitant(server: &Arc<Server>, change: &Change) -> Result<(), ApiError> {
    let namespace = meta(&change.object, "namespace");
    if namespace.is_empty() || !change.gone {
        return Ok(());
    }
    let Some(namespaces) = server.registry().find("", "v1", "namespaces") else { return Ok(()) };
    let key = namespaces.key(None, namespace);
    let Some(entry) = server.store().get(&key) else { return Ok(()) };
    let object = of_entry(&namespaces.resource, &entry)?;
    if is_going(&object) {
        return empty(server, &namespaces, &key, namespace).await;
    }
    let must_be_there = matches!(
        (change.served.resource.kind.as_str(), meta(&change.object, "name")),
        ("ServiceAccount", "default") | ("ConfigMap", ROOT_CA)
    );
    if must_be_there { furnish(server, namespace).await } else { Ok(()) }
}

/// Deletes everything in a namespace, and lets it go when nothing is left.
async fn empty(server: &Arc<Server>, namespaces: &Arc<Served>, key: &str, name: &str) -> Result<(), ApiError> {
    let mut left = 0usize;
    for served in server.registry().stored().into_iter().filter(|served| served.resource.namespaced) {
        for entry in server.store().list(&served.prefix(Some(name))).iter() {
            match delete_object(server, &served, &entry.key, &DeleteOptions::default()).await {
                Ok(answer) if answer["kind"] == "Status" => {}
                Ok(_) => left += 1,
                Err(error) if error.reason == "NotFound" => {}
                Err(error) => return Err(error),
            }
        }
    }
    if left > 0 {
        return Ok(());
    }
    edit(server, namespaces, key, |namespace| {
        let held = namespace["spec"]["finalizers"].as_array().cloned().unwrap_or_default();
        let kept: Vec<Value> = held.iter().filter(|finalizer| *finalizer != "kubernetes").cloned().collect();
        let had = kept.len() != held.len();
        namespace["spec"]["finalizers"] = kept.into();
        had
    })
    .await
}
