//! The garbage collector: what is owned goes with its last owner, in the background or before it, or is set free.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::graph::{Graph, Node, owners};
use super::{CONTROLLERS, create, drop_finalizer, edit};
use crate::object::{finalizers, is_going, meta, of_entry, timestamp};
use crate::registry::Served;
use crate::server::Server;
use crate::status::{ApiError, Reason};
use crate::verbs::{DeleteOptions, FOREGROUND, ORPHAN, delete_as};

/// As whom it deletes.
const ACCOUNT: &str = "generic-garbage-collector";

/// Does what there is to do about an object: delete it, or let it go.
pub(super) async fn reconcile(server: &Arc<Server>, graph: &Graph, uid: &str) -> Result<(), ApiError> {
    let Some(node) = graph.node(uid) else { return Ok(()) };
    let Some(object) = read(server, &node)?.filter(|object| meta(object, "uid") == uid) else { return Ok(()) };
    if is_going(&object) {
        let_go(server, graph, &node, &object).await
    } else {
        check(server, graph, &node, &object).await
    }
}

fn read(server: &Server, node: &Node) -> Result<Option<Value>, ApiError> {
    server.store().get(&node.key).map(|entry| of_entry(&node.served.resource, &entry)).transpose()
}

/// Whether an object in no namespace names an owner in one. Which namespace, the reference does not say, so the owner
/// cannot be looked for, and the object is never collected.
fn is_misplaced(owner: &Served, dependent: &Value) -> bool {
    owner.resource.namespaced && meta(dependent, "namespace").is_empty()
}

/// Whether the owner that a reference names is there: by its name, and with that uid. An owner of a kind that is not
/// served is taken to be there, unless it was seen to go: with a CustomResourceDefinition go its objects, and what they
/// own has to go when their kind is served no more.
fn is_there(server: &Server, graph: &Graph, reference: &Value, dependent: &Value) -> bool {
    let text = |field: &str| reference[field].as_str().unwrap_or_default();
    if let Some(was_namespaced) = graph.gone(text("uid")) {
        // As of one that is served: a reference from no namespace into one leads nowhere, and nothing follows from it.
        return was_namespaced && meta(dependent, "namespace").is_empty();
    }
    let Some(served) = server.registry().of_kind(text("apiVersion"), text("kind")) else { return true };
    if is_misplaced(&served, dependent) {
        return true;
    }
    let namespace = Some(meta(dependent, "namespace")).filter(|_| served.resource.namespaced);
    let found = server.store().get(&served.key(namespace, text("name")));
    let found = found.and_then(|entry| of_entry(&served.resource, &entry).ok());
    found.is_some_and(|owner| meta(&owner, "uid") == text("uid"))
}

/// Deletes an object none of whose owners is there, and drops the references to those that are not.
async fn check(server: &Arc<Server>, graph: &Graph, node: &Node, object: &Value) -> Result<(), ApiError> {
    let references = object["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    for reference in references.clone() {
        warn_if_misplaced(server, node, object, reference).await?;
    }
    let missing: Vec<&str> = references
        .filter(|reference| !is_there(server, graph, reference, object))
        .filter_map(|reference| reference["uid"].as_str())
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    if missing.len() < owners(object).len() {
        return edit(server, CONTROLLERS, &node.served, &node.key, |object| {
            forget_owners(object, |owner| missing.contains(&owner))
        })
        .await;
    }
    delete(server, node, object, None).await
}

/// Tells whoever looks at an object that one of its references to owners does nothing.
async fn warn_if_misplaced(
    server: &Arc<Server>,
    node: &Node,
    object: &Value,
    reference: &Value,
) -> Result<(), ApiError> {
    let text = |field: &str| reference[field].as_str().unwrap_or_default();
    let owner = server.registry().of_kind(text("apiVersion"), text("kind"));
    if !owner.is_some_and(|owner| is_misplaced(&owner, object)) {
        return Ok(());
    }
    let (name, uid, resource) = (meta(object, "name"), meta(object, "uid"), &node.served.resource);
    let now = timestamp(Timestamp::now());
    let message = format!(
        "ownerRef [{}/{}, namespace: , name: {}, uid: {}] does not exist in namespace \"\"",
        text("apiVersion"),
        text("kind"),
        text("name"),
        text("uid")
    );
    // One event of each reference, whose name tells whether it has been written.
    let event = json!({
        "apiVersion": "v1", "kind": "Event",
        "metadata": {"name": format!("{name}.{}", text("uid")), "namespace": "default"},
        "involvedObject": {"apiVersion": resource.api_version(), "kind": resource.kind, "name": name, "uid": uid},
        "type": "Warning", "reason": "OwnerRefInvalidNamespace", "message": message,
        "source": {"component": "garbage-collector-controller"}, "reportingComponent": "garbage-collector-controller",
        "count": 1, "firstTimestamp": now, "lastTimestamp": now,
    });
    create(server, CONTROLLERS, event).await
}

async fn delete(server: &Arc<Server>, node: &Node, object: &Value, policy: Option<&str>) -> Result<(), ApiError> {
    let options = DeleteOptions {
        uid: Some(meta(object, "uid").to_owned()),
        propagation: policy.map(ToOwned::to_owned),
        ..DeleteOptions::default()
    };
    match delete_as(server, &node.served, &node.key, &options, ACCOUNT).await {
        // Another of the same name is none of ours.
        Err(error) if matches!(error.reason, Reason::NotFound | Reason::Conflict) => Ok(()),
        other => other.map(drop),
    }
}

/// Works off the finalizers of an object that is going.
async fn let_go(server: &Arc<Server>, graph: &Graph, node: &Node, object: &Value) -> Result<(), ApiError> {
    let uid = meta(object, "uid");
    let held = finalizers(object);
    if held.contains(&ORPHAN) {
        for dependent in graph.dependents(uid) {
            edit(server, CONTROLLERS, &dependent.served, &dependent.key, |object| {
                forget_owners(object, |owner| owner == uid)
            })
            .await?;
        }
        return edit(server, CONTROLLERS, &node.served, &node.key, |object| drop_finalizer(object, ORPHAN)).await;
    }
    if !held.contains(&FOREGROUND) {
        return Ok(());
    }
    let mut blocked = false;
    for dependent in graph.dependents(uid) {
        blocked |= delete_first(server, graph, &dependent, (node, uid)).await?;
    }
    if blocked {
        return Ok(());
    }
    edit(server, CONTROLLERS, &node.served, &node.key, |object| drop_finalizer(object, FOREGROUND)).await
}

/// Deletes a dependent before its owner. True: the owner has to wait for it.
async fn delete_first(
    server: &Arc<Server>,
    graph: &Graph,
    dependent: &Node,
    (owner_node, owner): (&Node, &str),
) -> Result<bool, ApiError> {
    let Some(object) = read(server, dependent)? else { return Ok(false) };
    let references = object["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    let Some(reference) = references.clone().find(|reference| reference["uid"] == owner) else { return Ok(false) };
    if is_misplaced(&owner_node.served, &object) {
        return Ok(false);
    }
    // Another owner that stays keeps it.
    if references.clone().any(|other| other["uid"] != owner && is_there(server, graph, other, &object)) {
        edit(server, CONTROLLERS, &dependent.served, &dependent.key, |object| {
            forget_owners(object, |uid| uid == owner)
        })
        .await?;
        return Ok(false);
    }
    let uid = meta(&object, "uid");
    if !is_going(&object) {
        let policy = (!graph.dependents(uid).is_empty()).then_some("Foreground");
        delete(server, dependent, &object, policy).await?;
    }
    // In a circle, each would wait for the others for ever.
    let waits = reference["blockOwnerDeletion"] == true && !graph.depends_on(owner, uid);
    Ok(waits && server.store().get(&dependent.key).is_some())
}

/// Drops the references to some owners. False: there are none.
fn forget_owners(object: &mut Value, gone: impl Fn(&str) -> bool) -> bool {
    let Some(references) = object["metadata"]["ownerReferences"].as_array_mut() else { return false };
    let before = references.len();
    references.retain(|owner| !owner["uid"].as_str().is_some_and(&gone));
    let changed = references.len() != before;
    if references.is_empty() {
        object["metadata"].as_object_mut().map(|meta| meta.remove("ownerReferences"));
    }
    changed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controllers::Change;
    use crate::{Config, Storage};

    fn change(server: &Server, object: &Value, key: &str) -> Change {
        Change::read(server, key, Some(&crate::object::bytes(object)), None).unwrap()
    }

    #[tokio::test]
    async fn an_owner_whose_kind_is_served_no_more_is_gone_if_it_was_seen_to_go() {
        let server = Server::start(Config::new(Storage::Memory)).await.unwrap();
        let graph = Graph::default();
        let reference = json!({"apiVersion": "river.example/v1", "kind": "Otter", "name": "a", "uid": "otter"});
        let owned = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {
            "name": "owned", "namespace": "default", "uid": "map", "ownerReferences": [reference],
        }});
        graph.learn(&change(&server, &owned, "/configmaps/default/owned"));
        assert!(is_there(&server, &graph, &reference, &owned), "it may be there");

        // As it was seen while its kind was served: only where it was and who it is matter.
        let otter = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "uid": "otter"}});
        graph.learn(&change(&server, &otter, "/river.example/otters/default/a"));
        assert_eq!(graph.forget("/river.example/otters/default/a"), ["map"]);
        assert!(!is_there(&server, &graph, &reference, &owned));
        let in_no_namespace = json!({"metadata": {"name": "stays"}});
        assert!(is_there(&server, &graph, &reference, &in_no_namespace), "it is never collected");
        graph.clear();
        assert!(!is_there(&server, &graph, &reference, &owned), "also when the watch starts over");
        server.stop().await;
    }
}
