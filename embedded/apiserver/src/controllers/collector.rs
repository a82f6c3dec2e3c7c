//! The garbage collector: what is owned goes with its last owner, in the background or before it, or is set free.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde_json::Value;

use super::{CONTROLLERS, Change, drop_finalizer, edit};
use crate::object::{finalizers, is_going, meta, of_entry};
use crate::registry::Served;
use crate::server::Server;
use crate::verbs::{DeleteOptions, delete_object};

/// Held while dependents go first.
const FOREGROUND: &str = "foregroundDeletion";
/// Held while dependents are set free.
const ORPHAN: &str = "orphan";

/// An object that is there.
struct Node {
    served: Arc<Served>,
    key: String,
    owners: Vec<String>,
}

/// Who owns whom, by uid.
#[derive(Default)]
pub(super) struct Collector {
    nodes: HashMap<String, Node>,
    dependents: HashMap<String, HashSet<String>>,
}

fn owners(object: &Value) -> Vec<String> {
    let references = object["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    references.filter_map(|owner| owner["uid"].as_str()).map(ToOwned::to_owned).collect()
}

impl Collector {
    /// Takes note of a change.
    pub(super) fn learn(&mut self, change: &Change) {
        let uid = meta(&change.object, "uid").to_owned();
        if let Some(before) = self.nodes.remove(&uid) {
            for owner in before.owners {
                if let Some(dependents) = self.dependents.get_mut(&owner) {
                    dependents.remove(&uid);
                }
            }
        }
        if change.gone {
            return;
        }
        let owners = owners(&change.object);
        for owner in &owners {
            self.dependents.entry(owner.clone()).or_default().insert(uid.clone());
        }
        self.nodes.insert(uid, Node { served: change.served.clone(), key: change.key.clone(), owners });
    }

    /// Does what a change asks for.
    pub(super) async fn reconcile(&mut self, server: &Arc<Server>, change: &Change) {
        let uid = meta(&change.object, "uid").to_owned();
        if change.gone {
            let dependents: Vec<String> = self.dependents.remove(&uid).into_iter().flatten().collect();
            for dependent in dependents {
                self.check(server, &dependent).await;
            }
            // An owner may have waited for this one.
            for owner in owners(&change.object) {
                self.let_go(server, &owner).await;
            }
            return;
        }
        if !owners(&change.object).is_empty() {
            self.check(server, &uid).await;
        }
        if is_going(&change.object) {
            self.let_go(server, &uid).await;
        }
    }

    /// Deletes an object none of whose owners is there, and drops the references to those that are not.
    async fn check(&self, server: &Arc<Server>, uid: &str) {
        let Some(node) = self.nodes.get(uid) else { return };
        let Some(entry) = server.store().get(&node.key) else { return };
        let Ok(object) = of_entry(&node.served.resource, &entry) else { return };
        if meta(&object, "uid") != uid || is_going(&object) {
            return;
        }
        let named = owners(&object);
        let missing: Vec<&String> = named.iter().filter(|owner| !self.nodes.contains_key(*owner)).collect();
        if missing.is_empty() {
            return;
        }
        let done = if missing.len() == named.len() {
            let options = DeleteOptions { uid: Some(uid.to_owned()), ..DeleteOptions::default() };
            delete_object(server, &node.served, &node.key, &options).await.map(drop)
        } else {
            edit(server, CONTROLLERS, &node.served, &node.key, |object| {
                forget_owners(object, |owner| missing.iter().any(|gone| *gone == owner))
            })
            .await
        };
        if let Err(error) = done.or_else(|error| if error.reason == "NotFound" { Ok(()) } else { Err(error) }) {
            tracing::warn!(key = node.key, error = error.message, "an object without owners cannot be deleted");
        }
    }

    /// Works off the finalizers of an object that is going.
    async fn let_go(&self, server: &Arc<Server>, uid: &str) {
        let Some(node) = self.nodes.get(uid) else { return };
        let Some(object) = server.store().get(&node.key).and_then(|entry| of_entry(&node.served.resource, &entry).ok())
        else {
            return;
        };
        if !is_going(&object) {
            return;
        }
        let held = finalizers(&object);
        let dependents: Vec<&Node> =
            self.dependents.get(uid).into_iter().flatten().filter_map(|uid| self.nodes.get(uid)).collect();
        if held.contains(&ORPHAN) {
            for dependent in &dependents {
                let freed = edit(server, CONTROLLERS, &dependent.served, &dependent.key, |object| {
                    forget_owners(object, |owner| owner == uid)
                })
                .await;
                if let Err(error) = freed {
                    tracing::warn!(
                        key = dependent.key,
                        error = error.message,
                        "an object cannot be set free of its owner"
                    );
                    return;
                }
            }
            let _ = edit(server, CONTROLLERS, &node.served, &node.key, |object| drop_finalizer(object, ORPHAN)).await;
        } else if held.contains(&FOREGROUND) {
            let mut blocked = false;
            for dependent in &dependents {
                blocked |= self.delete_first(server, dependent, uid).await;
            }
            if !blocked {
                let _ = edit(server, CONTROLLERS, &node.served, &node.key, |object| drop_finalizer(object, FOREGROUND))
                    .await;
            }
        }
    }

    /// Deletes a dependent before its owner. True: the owner has to wait for it.
    async fn delete_first(&self, server: &Arc<Server>, dependent: &Node, owner: &str) -> bool {
        let Some(entry) = server.store().get(&dependent.key) else { return false };
        let Ok(object) = of_entry(&dependent.served.resource, &entry) else { return false };
        let references = object["metadata"]["ownerReferences"].as_array().into_iter().flatten();
        let reference = references.clone().find(|reference| reference["uid"] == owner);
        let Some(reference) = reference else { return false };
        // Another owner that stays keeps it.
        let others = references.filter_map(|reference| reference["uid"].as_str()).filter(|uid| *uid != owner);
        if others.clone().any(|uid| self.nodes.contains_key(uid)) {
            let _ = edit(server, CONTROLLERS, &dependent.served, &dependent.key, |object| {
                forget_owners(object, |uid| uid == owner)
            })
            .await;
            return false;
        }
        if !is_going(&object) {
            let has_dependents = self.dependents.get(meta(&object, "uid")).is_some_and(|own| !own.is_empty());
            let options = DeleteOptions {
                uid: Some(meta(&object, "uid").to_owned()),
                propagation: has_dependents.then(|| "Foreground".to_owned()),
                ..DeleteOptions::default()
            };
            if let Err(error) = delete_object(server, &dependent.served, &dependent.key, &options).await {
                tracing::debug!(key = dependent.key, error = error.message, "a dependent is gone already");
            }
        }
        // In a circle, each would wait for the others for ever.
        let waits = reference["blockOwnerDeletion"] == true && !self.depends_on(owner, meta(&object, "uid"));
        waits && server.store().get(&dependent.key).is_some()
    }

    /// Whether one object depends on another, directly or by way of others.
    fn depends_on(&self, uid: &str, other: &str) -> bool {
        let (mut seen, mut next) = (HashSet::new(), vec![other]);
        while let Some(owner) = next.pop() {
            for dependent in self.dependents.get(owner).into_iter().flatten() {
                if dependent == uid {
                    return true;
                }
                if seen.insert(dependent.as_str()) {
                    next.push(dependent);
                }
            }
        }
        false
    }
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
