//! The controllers that an API needs to be usable. One watch over the whole store tells each what to look at; each works
//! by itself, so that none waits for another whose webhooks are slow.

mod addresses;
mod bootstrap;
mod collector;
mod definitions;
mod expiry;
mod graph;
mod myself;
mod namespaces;
mod policies;
mod queue;
mod quotas;
mod roles;

use std::fmt::Debug;
use std::hash::Hash;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use c5c3_fields::{Scope, Writer};
use c5c3_store::{Expect, WriteError};
use futures::FutureExt;
use futures::future::BoxFuture;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::object::{Head, asks_the_same, finalizers, meta, meta_mut, of_entry, put, timestamp};
use crate::registry::Served;
use crate::server::Server;
use crate::status::{ApiError, Reason};
use crate::verbs::finish_deletion;

pub(crate) use bootstrap::bootstrap;
pub(crate) use definitions::is_served;
pub(crate) use myself::publish;

use graph::Graph;
use queue::Queue;

/// As whom the server writes what is part of it.
const SERVER: &str = "kube-apiserver";
/// As whom it writes what on a real cluster is the work of controllers beside it.
const CONTROLLERS: &str = "kube-controller-manager";

/// What is to be done by whom, and what they know.
#[derive(Default)]
struct Work {
    definitions: Queue<String>,
    addresses: Queue<()>,
    roles: Queue<()>,
    namespaces: Queue<String>,
    policies: Queue<String>,
    quotas: Queue<String>,
    garbage: Queue<String>,
    graph: Graph,
}

/// Starts the controllers; they work until the server is stopped.
pub(crate) fn start(server: &Arc<Server>) {
    let work = Arc::new(Work::default());
    let (s, w) = (server.clone(), work.clone());
    let stop = server.stopped();
    let follower = async move {
        // A store that is closed has no more to tell, and says so without a pause.
        while !stop.is_cancelled() {
            let followed = async {
                follow(&s, &w).await;
                Ok(())
            };
            if let Err(error) = caught(followed).await {
                tracing::error!(error = error.message, "the controllers' watch failed, and starts over");
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::spawn(server.stopped().run_until_cancelled_owned(follower));
    tokio::spawn(server.stopped().run_until_cancelled_owned(expiry::remove_events(server.clone())));
    tokio::spawn(server.stopped().run_until_cancelled_owned(expiry::renew_certificates(server.clone())));
    let begin = Worker { server: server.clone(), work };
    begin.spawn(
        "definitions",
        |work| &work.definitions,
        |server, _, key| Box::pin(async move { definitions::reconcile(&server, &key).await }),
    );
    begin.spawn(
        "addresses",
        |work| &work.addresses,
        |server, _, ()| Box::pin(async move { addresses::reconcile(&server).await }),
    );
    begin.spawn("roles", |work| &work.roles, |server, _, ()| Box::pin(async move { roles::reconcile(&server).await }));
    begin.spawn(
        "namespaces",
        |work| &work.namespaces,
        |server, _, name| Box::pin(async move { namespaces::reconcile(&server, &name).await }),
    );
    begin.spawn(
        "policies",
        |work| &work.policies,
        |server, _, key| Box::pin(async move { policies::reconcile(&server, &key).await }),
    );
    begin.spawn(
        "quotas",
        |work| &work.quotas,
        |server, _, namespace| Box::pin(async move { quotas::reconcile(&server, &namespace).await }),
    );
    begin.spawn(
        "garbage",
        |work| &work.garbage,
        |server, work, uid| Box::pin(async move { collector::reconcile(&server, &work.graph, &uid).await }),
    );
}

/// What a worker needs to begin.
struct Worker {
    server: Arc<Server>,
    work: Arc<Work>,
}

/// How a piece of work is done.
type Job<T> = fn(Arc<Server>, Arc<Work>, T) -> BoxFuture<'static, Result<(), ApiError>>;

impl Worker {
    /// Does one piece of work of a queue after the other. What fails is tried again after a while.
    fn spawn<T>(&self, who: &'static str, queue: fn(&Work) -> &Queue<T>, job: Job<T>)
    where
        T: Clone + Debug + Eq + Hash + Send + Sync + 'static,
    {
        let (server, work) = (self.server.clone(), self.work.clone());
        let stop = server.stopped();
        let working = async move {
            loop {
                let piece = queue(&work).next().await;
                let done = caught(job(server.clone(), work.clone(), piece.clone())).await;
                if let Err(error) = &done {
                    let error = &error.message;
                    tracing::warn!(who, ?piece, error, "a controller failed, and tries again after a while");
                }
                queue(&work).done(piece, done.is_ok());
            }
        };
        tokio::spawn(stop.run_until_cancelled_owned(working));
    }
}

/// What a job comes to. One that panics has failed: the next piece of work is no worse for it.
async fn caught(job: impl Future<Output = Result<(), ApiError>>) -> Result<(), ApiError> {
    AssertUnwindSafe(job).catch_unwind().await.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<&str>().copied();
        let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        Err(ApiError::internal(format!("it panicked: {}", text.unwrap_or("without a message"))))
    })
}

/// Follows every change from now on. Returns when the watch fell behind; the caller starts over.
async fn follow(server: &Arc<Server>, work: &Work) {
    let snapshot = server.store().list("/");
    let Ok(mut watch) = server.store().watch("/", snapshot.revision) else { return };
    work.graph.clear();
    // Who is an orphan is known when all are known.
    let changed: Vec<Change> =
        snapshot.iter().filter_map(|entry| Change::read(server, &entry.key, Some(&entry.value), None)).collect();
    let concerned: Vec<String> = changed.iter().filter_map(|change| work.graph.learn(change)).collect();
    for change in &changed {
        work.ask_for(server, change);
    }
    for uid in concerned {
        work.garbage.add(uid);
    }
    while let Some(Ok(event)) = watch.next().await {
        let change = Change::read(server, &event.key, event.value.as_ref(), event.previous.as_ref());
        let concerned = match &change {
            Some(change) if !change.gone => work.graph.learn(change).into_iter().collect(),
            // What is gone need not be of a kind that is still known.
            _ => work.graph.forget(&event.key),
        };
        if let Some(change) = &change {
            work.ask_for(server, change);
        }
        for uid in concerned {
            work.garbage.add(uid);
        }
    }
}

impl Work {
    /// Asks those for work whom a change is about.
    fn ask_for(&self, server: &Server, change: &Change) {
        let resource = &change.served.resource;
        if addresses::concerns(change) {
            self.addresses.add(());
        }
        match (resource.group.as_str(), resource.kind.as_str()) {
            ("apiextensions.k8s.io", "CustomResourceDefinition") => self.definitions.add(change.key.clone()),
            ("rbac.authorization.k8s.io", "ClusterRole") => self.roles.add(()),
            ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy") => self.policies.add(change.key.clone()),
            ("", "Namespace") => self.namespaces.add(change.head.metadata.name.clone()),
            _ => {
                if namespaces::is_missed(server, change) {
                    self.namespaces.add(change.head.metadata.namespace.clone());
                }
                if quotas::counts(server, change) {
                    self.quotas.add(change.head.metadata.namespace.clone());
                }
                if let Some(definition) = definitions::waiting(server, change) {
                    self.definitions.add(definition);
                }
            }
        }
    }
}

/// A change of one object.
pub(crate) struct Change {
    pub(crate) served: Arc<Served>,
    pub(crate) key: String,
    /// The object as it is, or as it was last.
    pub(crate) head: Head,
    /// Whether it is gone.
    pub(crate) gone: bool,
}

impl Change {
    fn read(server: &Server, key: &str, value: Option<&bytes::Bytes>, previous: Option<&bytes::Bytes>) -> Option<Self> {
        let bytes = value.or(previous)?;
        let head = Head::read(bytes).ok()?;
        let served = server.registry().of_kind(&head.api_version, &head.kind)?;
        Some(Self { served, key: key.to_owned(), head, gone: value.is_none() })
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
    let object = Arc::new(object);
    match put(server.store(), &served, &key, Expect::Absent, &object).await {
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
            Err(error) if error.reason == Reason::Conflict => continue,
            Err(error) => return Err(error),
        }
        let object = Arc::new(object);
        match put(server.store(), served, key, Expect::Revision(entry.revision), &object).await {
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
    if let Some(found) = found {
        if found["status"] != status {
            found["lastTransitionTime"] = now.into();
        }
        found["status"] = status.into();
        say(found, reason, message);
    } else {
        let mut made = json!({"type": condition, "status": status, "lastTransitionTime": now});
        say(&mut made, reason, message);
        list.push(made);
    }
}

/// Sets a condition in a pod's status, and which generation of the pod it is about.
pub(crate) fn set_pod_condition(pod: &mut Value, condition: &str, status: &str, reason: &str, message: &str) {
    set_condition(pod, condition, status, reason, message);
    let generation = pod["metadata"]["generation"].clone();
    let set = pod["status"]["conditions"].as_array_mut().into_iter().flatten();
    if let Some(set) = set.into_iter().find(|set| set["type"] == condition).filter(|_| !generation.is_null()) {
        set["observedGeneration"] = generation;
    }
}

fn say(condition: &mut Value, reason: &str, message: &str) {
    for (field, text) in [("reason", reason), ("message", message)] {
        match condition.as_object_mut() {
            Some(fields) if text.is_empty() => drop(fields.remove(field)),
            _ => condition[field] = text.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::{Config, Storage};

    #[tokio::test]
    async fn a_worker_whose_job_panics_does_it_again() {
        static TRIES: AtomicUsize = AtomicUsize::new(0);
        let server = Server::start(Config::new(Storage::Memory)).await.unwrap();
        let worker = Worker { server: server.clone(), work: Arc::new(Work::default()) };
        worker.spawn(
            "roles",
            |work| &work.roles,
            |_, _, ()| {
                Box::pin(async {
                    assert!(TRIES.fetch_add(1, Ordering::Relaxed) > 0, "the first time");
                    Ok(())
                })
            },
        );
        worker.work.roles.add(());
        let again = async {
            while TRIES.load(Ordering::Relaxed) < 2 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), again).await.expect("it is done again");
        server.stop().await;
    }

    #[tokio::test]
    async fn a_job_that_panics_has_failed_and_ends_nothing_else() {
        let indexed = async {
            let mut object = json!("not an object");
            object["metadata"] = json!({});
            Ok(())
        };
        let failed = caught(indexed).await.unwrap_err();
        assert!(failed.message.contains("it panicked: cannot access key"), "{}", failed.message);
        caught(async { Ok(()) }).await.unwrap();
    }
}
