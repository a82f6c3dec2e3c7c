//! Runs a controller: watches, a queue without duplicates, one reconcile at a time per object.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::stream::{self, BoxStream};
use futures::{FutureExt, StreamExt};
use kube::Client;
use kube::api::{Api, DynamicObject};
use kube::core::{ApiResource, PartialObjectMeta};
use kube::runtime::controller::{Action, Config, ReconcileRequest, applier};
use kube::runtime::reflector::{self, ObjectRef, store::Writer};
use kube::runtime::{WatchStreamExt, watcher};
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use crate::backoff::Backoff;
use crate::controller::Controller;
use crate::error::Error;
use crate::events::Events;
use crate::metrics::Metrics;
use crate::object::{Ref, api};
use crate::ownership::{MANAGED_BY, owner_of};
use crate::reconcile::{Children, Context, failed, reconcile};
use crate::watches::Watches;

/// How a controller runs.
#[derive(Clone, Debug)]
pub struct Pace {
    /// The one namespace that is looked at; all of them when absent.
    pub namespace: Option<String>,
    /// How many objects are reconciled at a time.
    pub concurrency: u16,
    /// How long changes of one object are gathered before it is reconciled.
    pub debounce: Duration,
    /// When an object is looked at though nothing happened.
    pub resync: Duration,
    /// The first delay after a failure; it doubles each time.
    pub first_retry: Duration,
    /// The longest delay after a failure.
    pub last_retry: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            namespace: None,
            concurrency: 4,
            debounce: Duration::from_millis(50),
            resync: Duration::from_hours(1),
            first_retry: Duration::from_millis(500),
            last_retry: Duration::from_mins(5),
        }
    }
}

/// The objects that are due, to count them. kube's scheduler holds the real queue and keeps duplicates out of it.
#[derive(Clone)]
struct Queue {
    controller: &'static str,
    metrics: Metrics,
    due: Arc<Mutex<HashSet<Ref>>>,
}

impl Queue {
    fn change(&self, change: impl FnOnce(&mut HashSet<Ref>)) {
        let mut due = self.due.lock().expect("no one panics with the lock");
        change(&mut due);
        self.metrics.queued(self.controller, due.len());
    }
}

/// Runs a controller until `stop`; what is under way then is finished. `synced` is called once all watches have caught up.
pub async fn run<C: Controller>(
    controller: C,
    manager: &'static str,
    client: Client,
    pace: Pace,
    metrics: Metrics,
    stop: CancellationToken,
    synced: impl FnOnce() + Send + 'static,
) {
    let kind = ApiResource::erase::<C::Kind>(&());
    let (triggers, references) = tokio::sync::mpsc::channel::<Ref>(1024);
    let queue = Queue { controller: C::NAME, metrics: metrics.clone(), due: Arc::default() };

    let mut children = Children::default();
    let mut streams: Vec<BoxStream<'static, Ref>> = Vec::new();
    let mut stores = Vec::new();
    for resource in controller.children() {
        let (store, writer) = new_store(&resource);
        stores.push(store.clone());
        children.insert(resource.clone(), store);
        streams.push(watch_children(&client, &pace, manager, resource, writer, kind.clone(), C::NAME, metrics.clone()));
    }
    let context = Arc::new(Context {
        watches: Watches::new(client.clone(), pace.namespace.clone(), C::NAME, metrics.clone(), triggers),
        events: Events::new(client.clone(), manager),
        backoff: Backoff::new(pace.first_retry, pace.last_retry),
        resync: pace.resync,
        controller,
        manager,
        client: client.clone(),
        children,
        metrics,
    });

    let writer = Writer::<DynamicObject>::new(kind.clone());
    let store = writer.as_reader();
    streams.push(watch_objects(&client, &pace, &kind, writer, context.clone()));
    streams.push(tokio_stream(references));

    let ready_store = store.clone();
    let ready = async move {
        let _ = ready_store.wait_until_ready().await;
        for store in stores {
            let _ = store.wait_until_ready().await;
        }
        synced();
    };
    let due = queue.clone();
    let requests = stream::select_all(streams)
        .inspect(move |object| {
            due.change(|due| {
                due.insert(object.clone());
            });
        })
        .map(|object| Ok::<_, Error>(ReconcileRequest::from(object_ref(&object))))
        .take_until(stop.cancelled_owned());

    let config = Config::default().concurrency(pace.concurrency).debounce(pace.debounce);
    let work = applier(
        move |object, context: Arc<Context<C>>| {
            let about = Ref::of(&ApiResource::erase::<C::Kind>(&()), &object.metadata);
            queue.change(|due| {
                due.remove(&about);
            });
            let id = format!("{:08x}", rand::random::<u32>());
            let span = tracing::info_span!("reconcile", controller = C::NAME, object = %about, id);
            one(object, context).instrument(span).boxed()
        },
        |_, error: &Delayed, _| Action::requeue(error.delay),
        context,
        store,
        requests,
        config,
    )
    .for_each(|_| futures::future::ready(()));
    futures::join!(work, ready);
}

/// A failed reconcile, with the time until it is tried again.
#[derive(Debug, thiserror::Error)]
#[error("tried again in {delay:?}: {error}")]
struct Delayed {
    error: Error,
    delay: Duration,
}

async fn one<C: Controller>(object: Arc<DynamicObject>, context: Arc<Context<C>>) -> Result<Action, Delayed> {
    let about = Ref::of(&ApiResource::erase::<C::Kind>(&()), &object.metadata);
    match reconcile(object.clone(), context.clone()).await {
        Ok(action) => Ok(action),
        Err(error) => {
            let (delay, repeated) = context.backoff.failed(&about);
            if repeated {
                failed(&object, &error, &context).await;
            }
            Err(Delayed { error, delay })
        }
    }
}

fn new_store(
    resource: &ApiResource,
) -> (reflector::Store<PartialObjectMeta<DynamicObject>>, Writer<PartialObjectMeta<DynamicObject>>) {
    let writer = Writer::new(resource.clone());
    (writer.as_reader(), writer)
}

fn object_ref(object: &Ref) -> ObjectRef<DynamicObject> {
    let reference = ObjectRef::new_with(&object.name, object.resource.clone());
    match &object.namespace {
        Some(namespace) => reference.within(namespace),
        None => reference,
    }
}

fn tokio_stream(mut receiver: tokio::sync::mpsc::Receiver<Ref>) -> BoxStream<'static, Ref> {
    stream::poll_fn(move |context| receiver.poll_recv(context)).boxed()
}

/// The objects themselves. They are watched untyped: one that does not parse is reported on, and stalls nothing.
fn watch_objects<C: Controller>(
    client: &Client,
    pace: &Pace,
    kind: &ApiResource,
    writer: Writer<DynamicObject>,
    context: Arc<Context<C>>,
) -> BoxStream<'static, Ref> {
    let (kind, api) = (kind.clone(), api(client.clone(), kind, pace.namespace.as_deref()));
    let mut seen = std::collections::HashMap::<Ref, u64>::new();
    watcher(api, watcher::Config::default())
        .default_backoff()
        .reflect(writer)
        .filter_map(move |event| {
            let trigger = match event {
                Ok(watcher::Event::Apply(object) | watcher::Event::InitApply(object)) => {
                    let about = Ref::of(&kind, &object.metadata);
                    let asked = what_is_asked(&object);
                    (seen.insert(about.clone(), asked) != Some(asked)).then_some(about)
                }
                Ok(watcher::Event::Delete(object)) => {
                    let about = Ref::of(&kind, &object.metadata);
                    seen.remove(&about);
                    context.watches.set(&about, HashSet::new());
                    context.metrics.waits(C::NAME, &about, &[]);
                    context.backoff.reset(&about);
                    None
                }
                Ok(watcher::Event::Init | watcher::Event::InitDone) => None,
                Err(error) => {
                    tracing::warn!(controller = C::NAME, %error, "the watch broke and is started again");
                    context.metrics.watch_broke(C::NAME);
                    None
                }
            };
            futures::future::ready(trigger)
        })
        .boxed()
}

/// A number that changes when someone asks for something else: not when a status is written, which we do ourselves.
fn what_is_asked(object: &DynamicObject) -> u64 {
    let mut hasher = DefaultHasher::new();
    let meta = &object.metadata;
    (&meta.uid, meta.generation, &meta.labels, &meta.annotations, &meta.finalizers).hash(&mut hasher);
    meta.deletion_timestamp.is_some().hash(&mut hasher);
    hasher.finish()
}

/// The children of a kind, by label and metadata only.
#[allow(clippy::too_many_arguments)] // Each is used once, and a struct would only rename them.
fn watch_children(
    client: &Client,
    pace: &Pace,
    manager: &'static str,
    resource: ApiResource,
    writer: Writer<PartialObjectMeta<DynamicObject>>,
    owner_kind: ApiResource,
    controller: &'static str,
    metrics: Metrics,
) -> BoxStream<'static, Ref> {
    let api: Api<PartialObjectMeta<DynamicObject>> = match &pace.namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    };
    watcher(api, watcher::Config::default().labels(&format!("{MANAGED_BY}={manager}")))
        .default_backoff()
        .reflect(writer)
        .filter_map(move |event| {
            let owner = match event {
                Ok(watcher::Event::Apply(o) | watcher::Event::InitApply(o) | watcher::Event::Delete(o)) => {
                    owner_of(&o.metadata, &owner_kind)
                }
                Ok(watcher::Event::Init | watcher::Event::InitDone) => None,
                Err(error) => {
                    tracing::warn!(controller, kind = %resource.kind, %error, "a watch broke and is started again");
                    metrics.watch_broke(controller);
                    None
                }
            };
            futures::future::ready(owner)
        })
        .boxed()
}
