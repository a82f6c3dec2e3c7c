//! The objects, their versions and the changes that watches hear of.

use std::collections::BTreeMap;
use std::sync::Mutex;

use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::broadcast;

/// Where an object lives: the path of its collection, and its own namespace and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    /// `/api/v1/secrets`: without the namespace, so that a watch on all of them finds it.
    pub(super) kind: String,
    pub(super) namespace: Option<String>,
    pub(super) name: String,
}

/// A change, as a watch tells it.
#[derive(Clone, Debug)]
pub(super) struct Change {
    pub(super) what: &'static str,
    pub(super) key: Key,
    pub(super) object: Value,
}

pub(super) struct Store {
    state: Mutex<State>,
    changes: broadcast::Sender<Change>,
}

#[derive(Default)]
struct State {
    objects: BTreeMap<Key, Value>,
    version: u64,
    uids: u64,
    history: Vec<Change>,
}

impl Default for Store {
    fn default() -> Self {
        Self { state: Mutex::default(), changes: broadcast::channel(4096).0 }
    }
}

impl Store {
    /// The changes so far and those to come, without a gap between them.
    pub(super) fn changes(&self) -> (Vec<Change>, broadcast::Receiver<Change>) {
        let state = self.state.lock().expect("no one panics with the lock");
        (state.history.clone(), self.changes.subscribe())
    }

    pub(super) fn get(&self, key: &Key) -> Option<Value> {
        self.state.lock().expect("no one panics with the lock").objects.get(key).cloned()
    }

    /// The objects that `matches` wants, and the version of the list.
    pub(super) fn list(&self, matches: impl Fn(&Key, &Value) -> bool) -> (Vec<Value>, u64) {
        let state = self.state.lock().expect("no one panics with the lock");
        let objects =
            state.objects.iter().filter(|(key, object)| matches(key, object)).map(|(_, object)| object.clone());
        (objects.collect(), state.version)
    }

    /// Writes an object. One that says nothing new is left alone; one that was being deleted and has no finalizer left
    /// goes.
    pub(super) fn put(&self, key: &Key, mut object: Value) -> Value {
        let mut state = self.state.lock().expect("no one panics with the lock");
        let before = state.objects.get(key).cloned();
        let unversioned = |object: &Value| {
            let mut object = object.clone();
            if let Some(meta) = object["metadata"].as_object_mut() {
                meta.remove("resourceVersion");
            }
            object
        };
        let meta = object["metadata"].as_object_mut().expect("an object has metadata");
        meta.insert("name".into(), key.name.as_str().into());
        if let Some(namespace) = &key.namespace {
            meta.insert("namespace".into(), namespace.as_str().into());
        }
        match &before {
            None => {
                state.uids += 1;
                meta.entry("uid").or_insert(format!("uid-{}", state.uids).into());
                meta.entry("creationTimestamp").or_insert(Timestamp::now().to_string().into());
                meta.insert("generation".into(), 1.into());
            }
            Some(before) => {
                let generation = before["metadata"]["generation"].as_i64().unwrap_or(1);
                for fixed in ["uid", "creationTimestamp"] {
                    meta.insert(fixed.into(), before["metadata"][fixed].clone());
                }
                let changed = before.get("spec") != object.get("spec");
                object["metadata"]["generation"] = (generation + i64::from(changed)).into();
            }
        }
        if let Some(before) = &before
            && unversioned(before) == unversioned(&object)
        {
            return before.clone();
        }
        state.version += 1;
        object["metadata"]["resourceVersion"] = state.version.to_string().into();
        let finalizers = object["metadata"]["finalizers"].as_array().map_or(0, Vec::len);
        let gone = object["metadata"].get("deletionTimestamp").is_some_and(|time| !time.is_null()) && finalizers == 0;
        let what = match (gone, before.is_some()) {
            (true, _) => "DELETED",
            (false, true) => "MODIFIED",
            (false, false) => "ADDED",
        };
        if gone {
            state.objects.remove(key);
        } else {
            state.objects.insert(key.clone(), object.clone());
        }
        let change = Change { what, key: key.clone(), object: object.clone() };
        state.history.push(change.clone());
        let _ = self.changes.send(change);
        object
    }

    /// Deletes an object, or marks it if it has finalizers.
    pub(super) fn delete(&self, key: &Key) -> Option<Value> {
        let mut object = self.get(key)?;
        if object["metadata"].get("deletionTimestamp").is_none() {
            object["metadata"]["deletionTimestamp"] = Timestamp::now().to_string().into();
        }
        Some(self.put(key, object))
    }
}

/// Merges `patch` into `target` by RFC 7386, and lists of conditions by their type.
pub(super) fn merge(target: &mut Value, patch: &Value) {
    let Some(patch) = patch.as_object() else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    let target = target.as_object_mut().expect("made an object above");
    for (field, value) in patch {
        if value.is_null() {
            target.remove(field);
        } else if field == "conditions" {
            merge_conditions(target.entry(field).or_insert(json!([])), value);
        } else {
            merge(target.entry(field).or_insert(Value::Null), value);
        }
    }
}

fn merge_conditions(target: &mut Value, patch: &Value) {
    if !target.is_array() {
        *target = json!([]);
    }
    let (Some(target), Some(patch)) = (target.as_array_mut(), patch.as_array()) else { return };
    for condition in patch {
        match target.iter_mut().find(|have| have["type"] == condition["type"]) {
            Some(have) => *have = condition.clone(),
            None => target.push(condition.clone()),
        }
    }
}
