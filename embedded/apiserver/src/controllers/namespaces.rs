//! Namespaces: what each has from the start, and how it goes.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::{CONTROLLERS, Change, create, edit, set_condition};
use crate::object::{Head, finalizers, is_going, of_entry};
use crate::registry::Served;
use crate::server::Server;
use crate::status::{ApiError, Reason};
use crate::verbs::{DeleteOptions, Deleted, delete_as};

/// The ConfigMap that pods find the server's authority in.
const ROOT_CA: &str = "kube-root-ca.crt";

/// As whom it empties them.
const ACCOUNT: &str = "namespace-controller";

/// Furnishes a namespace, or empties it.
pub(super) async fn reconcile(server: &Arc<Server>, name: &str) -> Result<(), ApiError> {
    let Some(served) = server.registry().find("", "v1", "namespaces") else { return Ok(()) };
    let key = served.key(None, name);
    let Some(entry) = server.store().get(&key) else { return Ok(()) };
    if is_going(&of_entry(&served.resource, &entry)?) {
        return empty(server, &served, &key, name).await;
    }
    label(server, &served, &key, name).await?;
    furnish(server, name).await
}

/// Whether something went or was changed that its namespace must have, or something went that it waited to see go.
pub(super) fn is_missed(server: &Server, change: &Change) -> bool {
    let (name, namespace) = (&change.head.metadata.name, &change.head.metadata.namespace);
    if !namespace.is_empty() && change.served.resource.is("", "ConfigMap") && name == ROOT_CA {
        return true;
    }
    if namespace.is_empty() || !change.gone {
        return false;
    }
    let must_be_there = change.served.resource.is("", "ServiceAccount") && name == "default";
    let is_going = || {
        let served = server.registry().find("", "v1", "namespaces")?;
        let entry = server.store().get(&served.key(None, namespace))?;
        Head::read(&entry.value).ok().map(|namespace| namespace.is_going())
    };
    must_be_there || is_going().unwrap_or(false)
}

/// Every namespace carries its name as a label, so that selectors can name it.
async fn label(server: &Arc<Server>, served: &Arc<Served>, key: &str, name: &str) -> Result<(), ApiError> {
    edit(server, CONTROLLERS, served, key, |namespace| {
        let labels = &mut namespace["metadata"]["labels"];
        if labels["kubernetes.io/metadata.name"] == name {
            return false;
        }
        labels["kubernetes.io/metadata.name"] = name.into();
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
    create(server, CONTROLLERS, authority.clone()).await?;
    // The authority is another one after a renewal, and pods trust what stands here.
    let served = server.registry().find("", "v1", "configmaps").ok_or_else(ApiError::no_such_path)?;
    edit(server, CONTROLLERS, &served, &served.key(Some(namespace), ROOT_CA), |stored| {
        let differs = stored["data"] != authority["data"] && !is_going(stored);
        if differs {
            stored["data"] = authority["data"].clone();
        }
        differs
    })
    .await
}

/// What is in the way of a namespace that is to go.
#[derive(Default)]
struct Left {
    /// What something holds, and of what resource it is.
    held: Vec<(String, Value)>,
    /// Why others cannot be deleted.
    failures: Vec<ApiError>,
}

/// Deletes everything in a namespace, pods before what they may need, and lets it go when nothing is left.
async fn empty(server: &Arc<Server>, namespaces: &Arc<Served>, key: &str, name: &str) -> Result<(), ApiError> {
    let inside = server.registry().stored().into_iter().filter(|served| served.resource.namespaced);
    let (pods, others): (Vec<_>, Vec<_>) =
        inside.partition(|served| served.resource.group.is_empty() && served.resource.kind == "Pod");
    let mut left = Left::default();
    delete_all(server, &pods, name, &mut left).await;
    if left.held.is_empty() && left.failures.is_empty() {
        delete_all(server, &others, name, &mut left).await;
    }
    edit(server, CONTROLLERS, namespaces, key, |namespace| {
        let before = namespace.clone();
        report(namespace, &left);
        if left.held.is_empty() && left.failures.is_empty() {
            let held = namespace["spec"]["finalizers"].as_array().cloned().unwrap_or_default();
            let kept: Vec<Value> = held.into_iter().filter(|finalizer| *finalizer != "kubernetes").collect();
            namespace["spec"]["finalizers"] = kept.into();
        }
        *namespace != before
    })
    .await?;
    left.failures.into_iter().next().map_or(Ok(()), Err)
}

/// Deletes all objects of these kinds. What cannot be deleted keeps none of the others.
async fn delete_all(server: &Arc<Server>, kinds: &[Arc<Served>], namespace: &str, left: &mut Left) {
    for served in kinds {
        for entry in server.store().list(&served.prefix(Some(namespace))).iter() {
            match delete_as(server, served, &entry.key, &DeleteOptions::default(), ACCOUNT).await {
                Ok(Deleted::Gone(_)) => {}
                Ok(Deleted::Going(object)) => {
                    let resource = format!("{}.{}", served.resource.plural, served.resource.group);
                    left.held.push((resource, object));
                }
                Err(error) if error.reason == Reason::NotFound => {}
                Err(error) => left.failures.push(error),
            }
        }
    }
}

/// Says in the status what a namespace is waiting for.
fn report(namespace: &mut Value, left: &Left) {
    let kinds = counted(left.held.iter().map(|(resource, _)| resource.as_str()), "has");
    let held = counted(left.held.iter().flat_map(|(_, object)| finalizers(object)), "in");
    let failed = left.failures.iter().map(|error| error.message.as_str()).collect::<Vec<_>>().join(", ");
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
    let all_but = format!("Failed to delete all resource types, {} remaining", left.failures.len());
    let failing = ("ContentDeletionFailed", all_but.as_str());
    say("NamespaceDeletionContentFailure", &failed, deleted, failing);
    let remain = ("SomeResourcesRemain", "Some resources are remaining");
    say("NamespaceContentRemaining", &kinds, ("ContentRemoved", "All content successfully removed"), remain);
    let finished = ("ContentHasNoFinalizers", "All content-preserving finalizers finished");
    let hold = ("SomeFinalizersRemain", "Some content in the namespace has finalizers remaining");
    say("NamespaceFinalizersRemaining", &held, finished, hold);
}

fn counted<'a>(names: impl Iterator<Item = &'a str>, verb: &str) -> String {
    let mut counts = BTreeMap::<&str, usize>::new();
    names.for_each(|name| *counts.entry(name).or_default() += 1);
    let said = counts.iter().map(|(name, count)| format!("{name} {verb} {count} resource instances"));
    said.collect::<Vec<_>>().join(", ")
}
