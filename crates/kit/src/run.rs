//! Runs a controller: watches, a queue without duplicates, one reconcile at a time per object.

use std::any::Any;
use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::stream::{self, BoxStream};
use futures::{FutureExt, Stream, StreamExt};
use kube::api::{Api, DynamicObject};
use kube::core::{ApiResource, ObjectMeta};
use kube::runtime::controller::{Action, Config, ReconcileRequest, applier};
use kube::runtime::reflector::{ObjectRef, store::Writer};
use kube::runtime::watcher::Event;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Client, Resource};
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use crate::apply_cache::ApplyCache;
use crate::backoff::Backoff;
use crate::children::{ChildEvents, ChildKind, Children};
use crate::controller::Controller;
use crate::error::Error;
use crate::events::{Events, Published};
use crate::metrics::Metrics;
use crate::object::{KindRef, Ref, api};
use crate::ownership::MANAGED_BY;
use crate::probes::Probes;
use crate::reconcile::{Context, reconcile, report_failure};
use crate::remote::Outside;
use crate::resilient_watch::{Watched, watch};
use crate::resync::{Change, Fold};
use crate::watches::Watches;
use crate::write_limit::WriteLimit;

/// How a controller runs.
#[derive(Clone, Debug)]
pub struct RunOptions {
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

impl Default for RunOptions {
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
    fn insert(&self, object: &Ref) {
        self.change(|due| {
            due.insert(object.clone());
        });
    }

    fn remove(&self, object: &Ref) {
        self.change(|due| {
            due.remove(object);
        });
    }

    fn change(&self, change: impl FnOnce(&mut HashSet<Ref>)) {
        let mut due = self.due.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut due);
        self.metrics.queued(self.controller, due.len());
    }
}

/// How long a reconcile may take; more means that the API does not answer.
const LONGEST_RECONCILE: Duration = Duration::from_mins(2);

/// How long it may take to say on an object that its reconcile fails, which may be because the API does not answer.
const LONGEST_REPORT: Duration = Duration::from_secs(30);

/// How long a stop waits for what is under way.
const LONGEST_STOP: Duration = Duration::from_secs(25);

/// Runs a controller until `stop`; what is under way then is finished. `synced` is called once its objects are known.
pub async fn run<C: Controller>(
    controller: C,
    manager: &'static str,
    client: Client,
    options: RunOptions,
    metrics: Metrics,
    stop: CancellationToken,
    synced: impl FnOnce() + Send + 'static,
) where
    <C::Kind as Resource>::Scope: 'static,
{
    let kind = KindRef::of::<C::Kind>();
    let (triggers, references) = tokio::sync::mpsc::channel::<Ref>(1024);
    let queue = Queue { controller: C::NAME, metrics: metrics.clone(), due: Arc::default() };

    // Descendants carry the labels of children, so that the same watches tell of them. They are no children: another
    // controller is named by their owner references.
    let mut kinds = controller.children();
    kinds.extend(controller.descendants().into_iter().filter(|kind| !controller.children().contains(kind)));
    let observed = [controller.observes(), controller.descendants()].concat();
    let children = Arc::new(Children::new(kinds, &observed));
    let mut streams: Vec<BoxStream<'static, Ref>> = vec![tokio_stream(references)];
    for child in children.kinds() {
        let api = child.kind.metadata_api(client.clone(), options.namespace.as_deref());
        let config = watcher::Config::default().labels(&format!("{MANAGED_BY}={manager}"));
        let mut events = ChildEvents::new(children.clone(), child.clone(), kind.resource.clone());
        let watched = watch(api, config, watched::<C>(child, &metrics));
        streams.push(watched.flat_map(move |event| stream::iter(events.on(event))).boxed());
    }
    let context = Arc::new(Context {
        watches: Watches::new(client.clone(), C::NAME, metrics.clone(), triggers.clone()),
        probes: Probes::default(),
        events: Events::new(client.clone(), manager),
        published: Published::default(),
        last_valid: Mutex::default(),
        backoff: Backoff::new(options.first_retry, options.last_retry),
        write_limit: WriteLimit::default(),
        apply_cache: ApplyCache::default(),
        releasing: tokio::sync::Mutex::default(),
        outside: Outside::new(controller.remote_in(&client), options.first_retry, options.last_retry),
        assumed: None,
        resync: options.resync,
        namespace: options.namespace.clone(),
        controller,
        manager,
        client: client.clone(),
        children,
        metrics,
    });

    let writer = Writer::<DynamicObject>::new(kind.resource.clone());
    let store = writer.as_reader();
    let namespace = options.namespace.as_deref().filter(|_| kind.namespaced);
    // Without its children an object would look as if none of its steps had been started.
    let listed = context.children.clone();
    let children_first = stream::once(async move { listed.until_listed().await });
    let objects =
        watch_objects(api(client.clone(), &kind.resource, namespace), &kind.resource, writer, context.clone());
    streams.push(children_first.filter_map(|()| futures::future::ready(None)).chain(objects).boxed());

    let (known, is_known) = (store.clone(), Arc::new(AtomicBool::new(false)));
    let ready = {
        let is_known = is_known.clone();
        async move {
            if known.wait_until_ready().await.is_ok() {
                is_known.store(true, Ordering::SeqCst);
                synced();
            }
        }
    };
    let due = queue.clone();
    let requests = stream::select_all(streams)
        .inspect(move |object| due.insert(object))
        .map(|object| Ok::<_, Error>(ReconcileRequest::from(object_ref(&object))))
        .take_until(stop.clone().cancelled_owned());

    let (started, finished, shared) = (queue.clone(), queue, context.clone());
    let still_there = store.clone();
    let config = Config::default().concurrency(options.concurrency).debounce(options.debounce);
    let resource = kind.resource.clone();
    let work = applier(
        move |object, context: Arc<Context<C>>| {
            let about = Ref::of(&resource, &object.metadata);
            started.remove(&about);
            let id = format!("{:08x}", rand::random::<u32>());
            let span = tracing::info_span!("reconcile", controller = C::NAME, object = %about, id);
            let still_there = still_there.clone();
            let work = async move {
                let done = one(about.clone(), context.clone()).await;
                // One that went meanwhile was forgotten, and what this reconcile added after that must go too.
                if still_there.get(&object_ref(&about)).is_none() {
                    context.forget(&about);
                }
                done
            };
            work.instrument(span).boxed()
        },
        |_, error: &Delayed, _| Action::requeue(error.delay),
        context.clone(),
        store,
        requests,
        config,
    )
    .for_each(|done| {
        // An object that went while it was queued is never reconciled, and would be counted as queued for ever.
        if let Err(kube::runtime::controller::Error::ObjectNotFound(gone)) = done {
            let gone =
                Ref { resource: kind.resource.clone(), namespace: gone.namespace.clone(), name: gone.name.clone() };
            finished.remove(&gone);
            shared.forget(&gone);
        }
        futures::future::ready(())
    });
    tokio::select! {
        () = async { futures::join!(work, ready); } => {}
        () = context.probes.keep_asking(&client, &triggers) => {}
        // kube's runner does not end before it has seen its objects, which it never does if their kind is not installed.
        () = async {
            stop.cancelled().await;
            if is_known.load(Ordering::SeqCst) {
                tokio::time::sleep(LONGEST_STOP).await;
            }
        } => {}
    }
}

/// A failed reconcile, with the time until it is tried again.
#[derive(Debug, thiserror::Error)]
#[error("tried again in {delay:?}: {error}")]
struct Delayed {
    error: Error,
    delay: Duration,
}

async fn one<C: Controller>(about: Ref, context: Arc<Context<C>>) -> Result<Action, Delayed> {
    // One object that an operator panics over, or that an API does not answer for, must not hold up the others.
    let work = AssertUnwindSafe(reconcile(&about, &context)).catch_unwind();
    let error = match tokio::time::timeout(LONGEST_RECONCILE, work).await {
        Ok(Ok(Ok(action))) => {
            context.backoff.reset(&about);
            context.metrics.succeeded(C::NAME);
            return Ok(action);
        }
        Ok(Ok(Err(error))) => error,
        Ok(Err(panic)) => Error::Panicked { controller: C::NAME, what: panic_text(&*panic) },
        Err(_) => Error::TimedOut(LONGEST_RECONCILE),
    };
    context.metrics.failed(C::NAME, &error);
    let (delay, repeated) = context.backoff.failed(&about);
    tracing::warn!(%error, reason = error.reason(), ?delay, "reconcile failed; it is tried again");
    if repeated && !matches!(error, Error::ReportFailed { .. } | Error::ChildRefused(_)) {
        let said = tokio::time::timeout(LONGEST_REPORT, report_failure(&about, &error, &context)).await;
        if said.is_err() {
            tracing::warn!("cannot report on the object that its reconcile fails: the API does not answer");
        }
    }
    Err(Delayed { error, delay })
}

fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "without a message".into())
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
    api: Api<DynamicObject>,
    kind: &ApiResource,
    writer: Writer<DynamicObject>,
    context: Arc<Context<C>>,
) -> BoxStream<'static, Ref> {
    let mut fold = Fold::new(kind.clone());
    let watched = Watched::new(C::NAME, &kind.kind, &context.metrics);
    let config = match context.controller.selector() {
        Some(labels) => watcher::Config::default().labels(&labels),
        None => watcher::Config::default(),
    };
    let hashing = context.clone();
    let slim = watch(api, config, watched).map(move |event| slim(event, |object| hashing.controller.trigger(object)));
    reflected(slim, writer)
        .flat_map(move |event| {
            let mut triggers = Vec::new();
            for change in fold.on(event, known_hash) {
                match change {
                    Change::Applied(about, _, before) if fold.known(&about) != before.as_ref() => triggers.push(about),
                    Change::Applied(..) => {}
                    Change::Gone(about, _) => context.forget(&about),
                }
            }
            stream::iter(triggers)
        })
        .boxed()
}

/// The events, after the store has heard of them.
fn reflected<K>(events: impl Stream<Item = Event<K>>, writer: Writer<K>) -> impl Stream<Item = Event<K>>
where
    K: Resource + Clone,
    K::DynamicType: Eq + Hash + Clone,
{
    events.map(Ok).reflect(writer).filter_map(|event| futures::future::ready(event.ok()))
}

/// A hash that changes with the desired state of an object, and not with its status, which we write ourselves; of what others
/// write there only with what the controller names.
fn desired_state_hash(object: &DynamicObject, trigger: Option<&str>) -> u64 {
    let mut hasher = DefaultHasher::new();
    let meta = &object.metadata;
    (&meta.uid, meta.generation, &meta.labels, &meta.annotations, &meta.finalizers).hash(&mut hasher);
    (meta.deletion_timestamp.is_some(), trigger).hash(&mut hasher);
    hasher.finish()
}

/// The hash in the place of the object's content. A reconcile reads the object from the API, so that only its name is kept in
/// memory: thousands of nodes with their status would take hundreds of megabytes.
fn slim(event: Event<DynamicObject>, trigger: impl Fn(&DynamicObject) -> Option<String>) -> Event<DynamicObject> {
    let slim = |object: DynamicObject| {
        let hash = desired_state_hash(&object, trigger(&object).as_deref());
        let ObjectMeta { name, namespace, uid, resource_version, .. } = object.metadata;
        let metadata = ObjectMeta { name, namespace, uid, resource_version, ..ObjectMeta::default() };
        DynamicObject { types: object.types, metadata, data: hash.into() }
    };
    match event {
        Event::Apply(object) => Event::Apply(slim(object)),
        Event::Delete(object) => Event::Delete(slim(object)),
        Event::InitApply(object) => Event::InitApply(slim(object)),
        event @ (Event::Init | Event::InitDone) => event,
    }
}

/// The hash of an object without content.
fn known_hash(object: &DynamicObject) -> u64 {
    object.data.as_u64().unwrap_or_default()
}

/// The watch on a kind of children, which tells when they are known.
fn watched<C: Controller>(child: &ChildKind, metrics: &Metrics) -> Watched {
    Watched { listed: child.listed.clone(), ..Watched::new(C::NAME, &child.kind.resource.kind, metrics) }
}
