//! How providers look after a kind: one object at a time, again when it fails, later and later.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use c5c3_kit::backoff::Backoff;
use c5c3_kit::ownership::MANAGED_BY;
use futures::{Stream, StreamExt};
use k8s_openapi::api::core::v1::Secret;
use kube::api::Api;
use kube::core::PartialObjectMeta;
use kube::runtime::WatchStreamExt;
use kube::runtime::controller::{Action, Controller};
use kube::runtime::reflector::{ObjectRef, Store};
use kube::runtime::watcher::{self, watcher};
use kube::{Client, Resource};
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;

use crate::failure::Error;
use crate::objects;

/// How soon a failure is tried again at first, and how late at most: the servers that providers talk to come up in
/// seconds, and no one waits for minutes on one machine.
const RETRIES: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(15));

/// When an object is looked at again though nothing has changed, to find what was changed behind our back.
pub(crate) const RESYNC: Duration = Duration::from_mins(10);

/// What a provider may look after.
pub(crate) trait Kind:
    Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static
{
}

impl<K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static> Kind for K {}

/// A controller of a kind in all namespaces.
pub(crate) fn controller<K: Kind>(client: &Client) -> Controller<K> {
    Controller::new(Api::all(client.clone()), watcher::Config::default())
}

/// Runs a controller until `stop`. An object is read again each time: the watch may not have heard yet of the status that
/// was written last, and comparing with an old status would lose the new one.
pub(crate) async fn run<K, F>(
    controller: Controller<K>,
    client: Client,
    stop: CancellationToken,
    reconcile: impl Fn(K, Client) -> F + Send + Sync + 'static,
) where
    K: Kind,
    F: Future<Output = Result<Action, Error>> + Send + 'static,
{
    let backoff = Arc::new(Backoff::<ObjectRef<K>>::new(RETRIES.0, RETRIES.1));
    let (succeeded, failed) = (backoff.clone(), backoff);
    let reconcile = Arc::new(reconcile);
    let once = move |object: Arc<K>, client: Arc<Client>| {
        let (reconcile, backoff) = (reconcile.clone(), succeeded.clone());
        async move {
            let again = match objects::again(&client, &*object).await? {
                Some(object) => reconcile(object, Client::clone(&client)).await?,
                None => Action::await_change(),
            };
            backoff.reset(&ObjectRef::from_obj(&*object));
            Ok::<Action, Error>(again)
        }
    };
    let again = move |object: Arc<K>, error: &Error, _: Arc<Client>| {
        let about = ObjectRef::from_obj(&*object);
        let (delay, repeated) = failed.failed(&about);
        if repeated {
            tracing::warn!(kind = %K::kind(&()), name = about.name, %error, "is tried again");
        }
        Action::requeue(delay)
    };
    let controller = controller.graceful_shutdown_on(stop.cancelled_owned());
    controller.run(once, again, Arc::new(client)).for_each(|_| std::future::ready(())).await;
}

/// Changes of the children that the provider `manager` made, as metadata.
pub(crate) fn children<K: Kind>(
    client: &Client,
    manager: &str,
) -> impl Stream<Item = Result<PartialObjectMeta<K>, watcher::Error>> + Send + use<K> {
    labelled(client, &format!("{MANAGED_BY}={manager}"))
}

/// Changes of the objects that have a label, as metadata: an operator does not hold every Secret of a cluster in memory.
pub(crate) fn labelled<K: Kind>(
    client: &Client,
    label: &str,
) -> impl Stream<Item = Result<PartialObjectMeta<K>, watcher::Error>> + Send + use<K> {
    let config = watcher::Config::default().labels(label);
    watcher(Api::<PartialObjectMeta<K>>::all(client.clone()), config).default_backoff().touched_objects()
}

/// A controller of a kind that names Secrets of anybody's: it looks again at the objects that name one which changes.
pub(crate) fn naming_secrets<K: Kind>(
    client: &Client,
    names: impl Fn(&K, &PartialObjectMeta<Secret>) -> bool + Send + Sync + 'static,
) -> Controller<K> {
    let controller = controller::<K>(client);
    let known = controller.store();
    let all = Api::<PartialObjectMeta<Secret>>::all(client.clone());
    let changes = watcher(all, watcher::Config::default()).default_backoff().touched_objects();
    controller.watches_stream(changes, move |secret| concerned(&known, |object| names(object, &secret)))
}

/// The objects that something concerns, of those that are known.
pub(crate) fn concerned<K: Kind>(known: &Store<K>, concerned: impl Fn(&K) -> bool) -> Vec<ObjectRef<K>> {
    known.state().iter().filter(|object| concerned(object)).map(|object| ObjectRef::from_obj(&**object)).collect()
}
