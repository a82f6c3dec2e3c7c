//! Who owns whom, by uid, as far as the changes that were seen tell.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;

use super::Change;
use crate::registry::Served;

/// An object that is there.
#[derive(Clone)]
pub(super) struct Node {
    pub(super) served: Arc<Served>,
    pub(super) key: String,
    owners: Vec<String>,
}

/// How many owners that are gone are remembered.
const MOST_GONE: usize = 10_000;

/// Who owns whom.
#[derive(Default)]
pub(super) struct Graph(Mutex<Known>);

#[derive(Default)]
struct Known {
    nodes: HashMap<String, Node>,
    uids: HashMap<String, String>,
    dependents: HashMap<String, HashSet<String>>,
    /// Owners that were seen to go while something depended on them, the latest last, and whether they were in a namespace.
    gone: VecDeque<(String, bool)>,
}

/// The uids of an object's owners.
pub(super) fn owners(object: &Value) -> Vec<String> {
    let references = object["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    references.filter_map(|owner| owner["uid"].as_str()).map(ToOwned::to_owned).collect()
}

impl Known {
    /// Forgets the object with that key. Returns its uid and what it was.
    fn remove(&mut self, key: &str) -> Option<(String, Node)> {
        let uid = self.uids.remove(key)?;
        let node = self.nodes.remove(&uid)?;
        for owner in &node.owners {
            if let Some(dependents) = self.dependents.get_mut(owner) {
                dependents.remove(&uid);
            }
        }
        Some((uid, node))
    }
}

impl Graph {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets everything but what is gone for good.
    pub(super) fn clear(&self) {
        let mut known = self.known();
        let gone = std::mem::take(&mut known.gone);
        *known = Known { gone, ..Known::default() };
    }

    /// Takes note of an object that is there. Returns its uid if there may be something to do about it.
    pub(super) fn learn(&self, change: &Change) -> Option<String> {
        let mut known = self.known();
        known.remove(&change.key);
        let metadata = &change.head.metadata;
        let uid = metadata.uid.clone();
        let owners: Vec<String> = metadata.owner_references.iter().map(|owner| owner.uid.clone()).collect();
        for owner in &owners {
            known.dependents.entry(owner.clone()).or_default().insert(uid.clone());
        }
        let concerned = !owners.is_empty() || change.head.is_going();
        known.uids.insert(change.key.clone(), uid.clone());
        known.nodes.insert(uid.clone(), Node { served: change.served.clone(), key: change.key.clone(), owners });
        concerned.then_some(uid)
    }

    /// Takes note that an object is gone. Returns those that depended on it, and those that may have waited for it.
    pub(super) fn forget(&self, key: &str) -> Vec<String> {
        let mut known = self.known();
        let Some((uid, node)) = known.remove(key) else { return Vec::new() };
        let dependents = known.dependents.remove(&uid).unwrap_or_default();
        if !dependents.is_empty() {
            if known.gone.len() >= MOST_GONE {
                known.gone.pop_front();
            }
            known.gone.push_back((uid, node.served.resource.namespaced));
        }
        dependents.into_iter().chain(node.owners).collect()
    }

    /// Of an owner that was seen to go, whether it was in a namespace. No object ever has its uid again.
    pub(super) fn gone(&self, uid: &str) -> Option<bool> {
        self.known().gone.iter().rev().find(|(gone, _)| gone == uid).map(|(_, was_namespaced)| *was_namespaced)
    }

    pub(super) fn node(&self, uid: &str) -> Option<Node> {
        self.known().nodes.get(uid).cloned()
    }

    /// What depends on an object.
    pub(super) fn dependents(&self, uid: &str) -> Vec<Node> {
        let known = self.known();
        let dependents = known.dependents.get(uid).into_iter().flatten();
        dependents.filter_map(|uid| known.nodes.get(uid)).cloned().collect()
    }

    /// Whether one object depends on another, directly or by way of others.
    pub(super) fn depends_on(&self, uid: &str, other: &str) -> bool {
        let known = self.known();
        let (mut seen, mut next) = (HashSet::new(), vec![other]);
        while let Some(owner) = next.pop() {
            for dependent in known.dependents.get(owner).into_iter().flatten() {
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
