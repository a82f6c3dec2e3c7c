//! Namespaces: what each has from the start, and how it goes.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::{CONTROLLERS, Change, create, edit, set_condition};
use crate::object::{finalizers, is_going, meta, of_entry};
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
    edit(server, CONTROLLERS, &change.served, &change.key, |namespace| {
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
    create(server, CONTROLLERS, account).await?;
    let authority = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "data": {"ca.crt": server.pki().ca_pem()},
        "metadata": {"name": ROOT_CA, "namespace": namespace,
                     "annotations": {"kubernetes.io/description": "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes clusters."}},
    });
    create(server, CONTROLLERS, authority).await
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

/// Deletes everything in a namespace, pods before what they may need, and lets it go when nothing is left.
async fn empty(server: &Arc<Server>, namespaces: &Arc<Served>, key: &str, name: &str) -> Result<(), ApiError> {
    let inside = server.registry().stored().into_iter().filter(|served| served.resource.namespaced);
    let (pods, others): (Vec<_>, Vec<_>) =
        inside.partition(|served| served.resource.group.is_empty() && served.resource.kind == "Pod");
    let mut left = delete_all(server, &pods, name).await?;
    if left.is_empty() {
        left = delete_all(server, &others, name).await?;
    }
    edit(server, CONTROLLERS, namespaces, key, |namespace| {
        let before = namespace.clone();
        report(namespace, &left);
        if left.is_empty() {
            let held = namespace["spec"]["finalizers"].as_array().cloned().unwrap_or_default();
            let kept: Vec<Value> = held.into_iter().filter(|finalizer| *finalizer != "kubernetes").collect();
            namespace["spec"]["finalizers"] = kept.into();
        }
        *namespace != before
    })
    .await
}

/// Deletes all objects of these kinds. Returns those that something holds.
async fn delete_all(server: &Arc<Server>, kinds: &[Arc<Served>], namespace: &str) -> Result<Vec<Value>, ApiError> {
    let mut left = Vec::new();
    for served in kinds {
        for entry in server.store().list(&served.prefix(Some(namespace))).iter() {
            match delete_object(server, served, &entry.key, &DeleteOptions::default()).await {
                Ok(answer) if answer["kind"] == "Status" => {}
                Ok(object) => left.push(object),
                Err(error) if error.reason == "NotFound" => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(left)
}

/// Says in the status what a namespace is waiting for.
fn report(namespace: &mut Value, left: &[Value]) {
    let kinds = counted(left.iter().map(|object| object["kind"].as_str().unwrap_or_default()));
    let held = counted(left.iter().flat_map(finalizers));
    let mut say = |condition, waits_for: &str, free: (&str, &str), waits: (&str, &str)| {
        if waits_for.is_empty() {
            set_condition(namespace, condition, "False", free.0, free.1);
        } else {
            set_condition(namespace, condition, "True", waits.0, &format!("{}: {waits_for}", waits.1));
        }
    };
    let never = ("", "");
    let discovered = ("ResourcesDiscovered", "All resources successfully discovered");
    say("NamespaceDeletionDiscoveryFailure", "", discovered, never);
    let parsed = ("ParsedGroupVersions", "All legacy kube types successfully parsed");
    say("NamespaceDeletionGroupVersionParsingFailure", "", parsed, never);
    let deleted = ("ContentDeleted", "All content successfully deleted, may be waiting on finalization");
    say("NamespaceDeletionContentFailure", "", deleted, never);
    let remain = ("SomeResourcesRemain", "Some resources are remaining");
    say("NamespaceContentRemaining", &kinds, ("ContentRemoved", "All content successfully removed"), remain);
    let finished = ("ContentHasNoFinalizers", "All content-preserving finalizers finished");
    let hold = ("SomeFinalizersRemain", "Some content in the namespace has finalizers remaining");
    say("NamespaceFinalizersRemaining", &held, finished, hold);
}

fn counted<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let mut counts = BTreeMap::<&str, usize>::new();
    names.for_each(|name| *counts.entry(name).or_default() += 1);
    let said = counts.iter().map(|(name, count)| format!("{name} in {count} resource instances"));
    said.collect::<Vec<_>>().join(", ")
}
