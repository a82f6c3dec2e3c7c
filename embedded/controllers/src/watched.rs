//! A kind that is watched once for all controllers: what is known of it, and whom a change concerns.

use std::collections::HashSet;
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

use futures::channel::mpsc::{UnboundedSender, unbounded};
use futures::{Stream, StreamExt, stream};
use k8s_openapi::NamespaceResourceScope;
use kube::api::Api;
use kube::runtime::reflector::store::Writer;
use kube::runtime::reflector::{ObjectRef, Store};
use kube::runtime::watcher::{self, Event, watcher};
use kube::runtime::{WatchStreamExt, controller::Controller};
use kube::{Client, Resource};
use serde::de::DeserializeOwned;

use crate::context::Context;
use crate::owners;

/// A change of one object: as it was known, and as it is.
#[derive(Debug)]
pub(crate) struct Change<K> {
    pub(crate) before: Option<Arc<K>>,
    pub(crate) now: Option<Arc<K>>,
}

impl<K> Change<K> {
    /// The object as it was and as it is, whichever there are.
    pub(crate) fn versions(&self) -> impl Iterator<Item = &Arc<K>> {
        self.before.iter().chain(&self.now)
    }
}

/// What a controller may be asked to look after.
pub(crate) trait Kind:
    Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static
{
}

impl<K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static> Kind for K {}

/// A kind that is watched once for all controllers. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Watched<K: Kind> {
    shared: Arc<Mutex<Shared<K>>>,
    store: Store<K>,
}

struct Shared<K: Kind> {
    writer: Writer<K>,
    listed: HashSet<ObjectRef<K>>,
    listeners: Vec<UnboundedSender<Arc<Change<K>>>>,
}

impl<K: Kind> Default for Watched<K> {
    fn default() -> Self {
        let writer = Writer::default();
        let store = writer.as_reader();
        let shared = Shared { writer, listed: HashSet::new(), listeners: Vec::new() };
        Self { shared: Arc::new(Mutex::new(shared)), store }
    }
}

impl<K: Kind> Watched<K> {
    /// Follows the kind in all namespaces until the context says stop.
    pub(crate) async fn follow(&self, context: &Context) {
        let api = Api::<K>::all(context.client.clone());
        let mut events = watcher(api, watcher::Config::default()).default_backoff().boxed();
        while let Some(Some(event)) = context.stop.run_until_cancelled(events.next()).await {
            match event {
                Ok(event) => self.on(&event),
                Err(error) => tracing::warn!(kind = %K::kind(&()), %error, "a watch has failed, and is tried again"),
            }
        }
    }

    /// What is known now, and may be a little old.
    pub(crate) fn store(&self) -> Store<K> {
        self.store.clone()
    }

    /// Every change from now on, beginning with what is there.
    pub(crate) fn changes(&self) -> impl Stream<Item = Arc<Change<K>>> + Send + use<K> {
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        let (sender, receiver) = unbounded();
        shared.listeners.push(sender);
        let known = self.store.state().into_iter().map(|object| Arc::new(Change { before: None, now: Some(object) }));
        stream::iter(known.collect::<Vec<_>>()).chain(receiver)
    }

    /// Whom changes concern: what `concerned` says of each.
    pub(crate) fn concerning<O, I>(
        &self,
        concerned: impl Fn(&Change<K>) -> I + Send + 'static,
    ) -> impl Stream<Item = ObjectRef<O>> + Send + 'static
    where
        O: Kind,
        I: IntoIterator<Item = ObjectRef<O>>,
        I::IntoIter: Send + 'static,
    {
        self.changes().flat_map(move |change| stream::iter(concerned(&change)))
    }

    /// The owners, of one kind, of what changes: as it was and as it is.
    pub(crate) fn owners<O: Kind>(&self) -> impl Stream<Item = ObjectRef<O>> + Send + 'static {
        self.concerning(|change| {
            change.versions().filter_map(|object| owners::controller_ref(object.meta())).collect::<HashSet<_>>()
        })
    }

    /// A controller of this kind, which looks at what changes.
    pub(crate) fn controller(&self) -> Controller<K> {
        let objects = self.changes().filter_map(|change| std::future::ready(change.now.clone()));
        Controller::for_shared_stream(objects, self.store())
    }

    fn on(&self, event: &Event<K>) {
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        let changes = changes(&self.store, &mut shared.listed, event);
        shared.writer.apply_watcher_event(event);
        for change in changes.into_iter().map(Arc::new) {
            shared.listeners.retain(|listener| listener.unbounded_send(change.clone()).is_ok());
        }
    }
}

/// What an event changes of what is known, also across a list that starts over: what is no longer in it is gone, though
/// no event says so.
fn changes<K: Kind>(store: &Store<K>, listed: &mut HashSet<ObjectRef<K>>, event: &Event<K>) -> Vec<Change<K>>
where
    ObjectRef<K>: Eq + Hash,
{
    let applied =
        |object: &K| Change { before: store.get(&ObjectRef::from_obj(object)), now: Some(Arc::new(object.clone())) };
    match event {
        Event::Init => {
            listed.clear();
            Vec::new()
        }
        Event::InitApply(object) => {
            listed.insert(ObjectRef::from_obj(object));
            vec![applied(object)]
        }
        Event::InitDone => {
            let gone = store.state().into_iter().filter(|known| !listed.contains(&ObjectRef::from_obj(known.as_ref())));
            gone.map(|known| Change { before: Some(known), now: None }).collect()
        }
        Event::Apply(object) => vec![applied(object)],
        Event::Delete(object) => vec![Change { before: Some(Arc::new(object.clone())), now: None }],
    }
}

/// A kind whose objects live in namespaces.
pub(crate) trait Namespaced: Kind + Resource<DynamicType = (), Scope = NamespaceResourceScope> {
    /// The objects beside this one.
    fn api(&self, client: &Client) -> Api<Self> {
        Api::namespaced(client.clone(), self.meta().namespace.as_deref().unwrap_or_default())
    }
}

impl<K: Kind + Resource<DynamicType = (), Scope = NamespaceResourceScope>> Namespaced for K {}

/// Reads an object as it is now: what a controller was called with may be old.
pub(crate) async fn live<K: Namespaced>(client: &Client, object: &K) -> Result<Option<K>, kube::Error> {
    let found = object.api(client).get_opt(object.meta().name.as_deref().unwrap_or_default()).await?;
    Ok(found.filter(|found| found.meta().uid == object.meta().uid))
}
