//! The controllers that an API needs to be usable, fed by one watch over the whole store.

mod bootstrap;
mod collector;
mod definitions;
mod myself;
mod namespaces;
mod roles;

use std::sync::Arc;

use c5c3_fields::{Scope, Writer};
use c5c3_store::{Event, Expect, WriteError};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::object::{asks_the_same, finalizers, meta, meta_mut, of_entry, read, timestamp, write};
use crate::registry::Served;
use crate::server::Server;
use crate::status::ApiError;
use crate::verbs::finish_deletion;

pub(crate) use bootstrap::bootstrap;
pub(crate) use definitions::is_established as names_accepted;
pub(crate) use myself::publish;

use collector::Collector;

/// As whom the server writes what is part of it.
const SERVER: &str = "kube-apiserver";
/// As whom it writes what on a real cluster is the work of controllers beside it.
const CONTROLLERS: &str = "kube-controller-manager";

/// Starts the controllers; they work until the server is stopped.
pub(crate) fn start(server: &Arc<Server>) {
    let server = server.clone();
    tokio::spawn(async move {
        let stop = server.stopped();
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = follow(&server) => {}
            }
        }
    });
}

/// Follows every change from now on. Returns when the watch fell behind; the caller starts over.
async fn follow(server: &Arc<Server>) {
    let snapshot = server.store().list("/");
    let mut collector = Collector::default();
    let mut changed: Vec<Change> = Vec::new();
    for entry in snapshot.iter() {
        if let Some(change) = Change::read(server, &entry.key, Some(&entry.value), None) {
            collector.learn(&change);
            changed.push(change);
        }
    }
    let Ok(mut watch) = server.store().watch("/", snapshot.revision) else { return };
    // One look is for all roles, and there are many from the start.
    let last_role = changed.iter().rposition(is_cluster_role);
    for (index, change) in changed.iter().enumerate() {
        if !is_cluster_role(change) || Some(index) == last_role {
            react(server, &mut collector, change).await;
        }
    }
    while let Some(Ok(event)) = watch.next().await {
        if let Some(change) = Change::of(server, &event) {
            collector.learn(&change);
            react(server, &mut collector, &change).await;
        }
    }
}

fn is_cluster_role(change: &Change) -> bool {
    let resource = &change.served.resource;
    resource.group == "rbac.authorization.k8s.io" && resource.kind == "ClusterRole"
}

async fn react(server: &Arc<Server>, collector: &mut Collector, change: &Change) {
    let kind = (change.served.resource.group.as_str(), change.served.resource.kind.as_str());
    let done = match kind {
        ("apiextensions.k8s.io", "CustomResourceDefinition") => definitions::reconcile(server, change).await,
        _ if is_cluster_role(change) => roles::reconcile(server, change).await,
        ("", "Namespace") => namespaces::reconcile(server, change).await,
        _ => namespaces::inhabitant(server, change).await,
    };
    if let Err(error) = done {
        tracing::warn!(
            key = change.key,
            error = error.message,
            "a controller failed; it tries again with the next change"
        );
    }
    definitions::instance_changed(server, change).await;
    collector.reconcile(server, change).await;
}

/// A change of one object.
pub(crate) struct Change {
    pub(crate) served: Arc<Served>,
    pub(crate) key: String,
    /// The object as it is, or as it was last.
    pub(crate) object: Value,
    /// Whether it is gone.
    pub(crate) gone: bool,
}

impl Change {
    fn of(server: &Server, event: &Event) -> Option<Self> {
        Self::read(server, &event.key, event.value.as_ref(), event.previous.as_ref())
    }

    fn read(server: &Server, key: &str, value: Option<&bytes::Bytes>, previous: Option<&bytes::Bytes>) -> Option<Self> {
        let bytes = value.or(previous)?;
        let object: Value = serde_json::from_slice(bytes).ok()?;
        let served = server.registry().of_kind(object["apiVersion"].as_str()?, object["kind"].as_str()?)?;
        let object = read(&served.resource, bytes).ok()?;
        Some(Self { served, key: key.to_owned(), object, gone: value.is_none() })
    }
}

/// Creates an object that the server itself looks after, unless it is there.
pub(crate) async fn create(server: &Arc<Server>, manager: &str, mut object: Value) -> Result<(), ApiError> {
    let text = |field: &str| object[field].as_str().unwrap_or_default();
    let served = server.registry().of_kind(text("apiVersion"), text("kind")).ok_or_else(ApiError::no_such_path)?;
    let namespace = Some(meta(&object, "namespace").to_owned()).filter(|_| served.resource.namespaced);
    let key = served.key(namespace.as_deref(), meta(&object, "name"));
    if server.store().get(&key).is_some() {
        return Ok(());
    }
    let generation = served.resource.generation;
    let fields = meta_mut(&mut object);
    fields.insert("uid".into(), uuid::Uuid::new_v4().to_string().into());
    fields.insert("creationTimestamp".into(), timestamp(Timestamp::now()).into());
    if generation {
        fields.insert("generation".into(), 1.into());
    }
    c5c3_kinds::default(&served.resource, &mut object);
    object = owned(&served, None, object, manager);
    c5c3_kinds::prepare_create(&served.resource, &mut object);
    let (to_write, resource) = (object.clone(), served.resource.clone());
    match server.store().write(&key, Expect::Absent, move |revision| Some(write(&resource, to_write, revision))).await {
        Ok(_) => {
            server.written(&served, &object);
            Ok(())
        }
        Err(WriteError::Conflict { .. }) => Ok(()),
        Err(error) => Err(ApiError::internal(error.to_string())),
    }
}

/// An object with its field owners, as if `manager` had sent it to the endpoint that takes this change.
fn owned(served: &Served, old: Option<&Value>, object: Value, manager: &str) -> Value {
    let reports = served.has_status() && old.is_some_and(|old| asks_the_same(old, &object));
    let (subresource, scope) = match (reports, served.has_status()) {
        (true, _) => ("status", Scope::Without(&["spec"])),
        (false, true) => ("", Scope::Without(&["status"])),
        (false, false) => ("", Scope::Everything),
    };
    let (api_version, now) = (served.resource.api_version(), timestamp(Timestamp::now()));
    let writer = Writer { manager, api_version: &api_version, subresource, now: &now, scope };
    c5c3_fields::track_update(served.shape(), old, object, &writer)
}

/// Changes an object that is there, as often as it takes. `change` says false if there is nothing to do.
pub(crate) async fn edit(
    server: &Arc<Server>,
    manager: &str,
    served: &Arc<Served>,
    key: &str,
    change: impl Fn(&mut Value) -> bool,
) -> Result<(), ApiError> {
    loop {
        let Some(entry) = server.store().get(key) else { return Ok(()) };
        let old = of_entry(&served.resource, &entry)?;
        let mut object = old.clone();
        if !change(&mut object) {
            return Ok(());
        }
        object = owned(served, Some(&old), object, manager);
        match finish_deletion(server, served, &entry, &object).await {
            Ok(true) => return Ok(()),
            Ok(false) => {}
            Err(error) if error.reason == "Conflict" => continue,
            Err(error) => return Err(error),
        }
        let (to_write, resource) = (object.clone(), served.resource.clone());
        match server
            .store()
            .write(key, Expect::Revision(entry.revision), move |revision| Some(write(&resource, to_write, revision)))
            .await
        {
            Ok(_) => {
                server.written(served, &object);
                return Ok(());
            }
            Err(WriteError::Conflict { .. }) => {}
            Err(error) => return Err(ApiError::internal(error.to_string())),
        }
    }
}

/// Takes a finalizer off an object. False: it does not have it.
pub(crate) fn drop_finalizer(object: &mut Value, finalizer: &str) -> bool {
    let kept: Vec<Value> =
        finalizers(object).into_iter().filter(|held| *held != finalizer).map(|held| json!(held)).collect();
    let had = finalizers(object).len() != kept.len();
    if kept.is_empty() {
        meta_mut(object).remove("finalizers");
    } else {
        meta_mut(object).insert("finalizers".into(), kept.into());
    }
    had
}

/// Sets a condition in an object's status. Its time only moves with its truth.
pub(crate) fn set_condition(object: &mut Value, condition: &str, status: &str, reason: &str, message: &str) {
    let conditions = &mut object["status"]["conditions"];
    if !conditions.is_array() {
        *conditions = json!([]);
    }
    let list = conditions.as_array_mut().expect("made a list above");
    let now = timestamp(Timestamp::now());
    let found = list.iter_mut().find(|found| found["type"] == condition);
    match found {
        Some(found) => {
            if found["status"] != status {
                found["lastTransitionTime"] = now.into();
            }
            found["status"] = status.into();
            found["reason"] = reason.into();
            found["message"] = message.into();
        }
        None => list.push(json!({"type": condition, "status": status, "reason": reason, "message": message, "lastTransitionTime": now})),
    }
}
