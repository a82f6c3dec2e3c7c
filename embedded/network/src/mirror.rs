//! Kinds of the API, mirrored in memory, and a bell that rings when something in them changed.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use kube::api::Api;
use kube::runtime::reflector::{self, Store};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// Changes come in bursts (a rollout, a drain): this long a burst is gathered before it is acted on. Short beside the
/// time that a pod needs to start, long beside the time between two events of one transaction.
const BURST: Duration = Duration::from_millis(20);

/// What is tried again after a failure is tried after this long.
const RETRY: Duration = Duration::from_secs(1);

/// A kind that can be mirrored.
pub(crate) trait Mirrored:
    Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static
{
}

impl<K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static> Mirrored for K {}

/// The mirrors of one task, and the bell they ring.
pub(crate) struct Mirrors {
    client: Client,
    bell: Arc<Notify>,
    stop: CancellationToken,
}

impl Mirrors {
    pub(crate) fn new(client: Client, stop: CancellationToken) -> Self {
        Self { client, bell: Arc::default(), stop }
    }

    /// Starts to mirror everything of a kind, until the end.
    pub(crate) fn of<K: Mirrored>(&self) -> Store<K> {
        let (store, writer) = reflector::store();
        let (bell, stop, api) = (self.bell.clone(), self.stop.clone(), Api::<K>::all(self.client.clone()));
        tokio::spawn(async move {
            let events = watcher(api, watcher::Config::default())
                .default_backoff()
                // No one reads who wrote which field, and it is half of an object's size.
                .modify(|object| object.managed_fields_mut().clear())
                .reflect(writer);
            let mut events = std::pin::pin!(events);
            while let Some(Some(event)) = stop.run_until_cancelled(events.next()).await {
                match event {
                    Ok(_) => bell.notify_one(),
                    Err(error) => tracing::warn!(kind = %K::kind(&()), %error, "a watch failed, and is tried again"),
                }
            }
        });
        store
    }

    /// Waits until a mirror holds everything. False: it is the end.
    pub(crate) async fn filled<K: Mirrored>(&self, store: &Store<K>) -> bool {
        matches!(self.stop.run_until_cancelled(store.wait_until_ready()).await, Some(Ok(())))
    }

    /// Waits until something changed, and until the burst of changes that it belongs to is over. False: it is the end.
    pub(crate) async fn changed(&self) -> bool {
        self.stop
            .run_until_cancelled(async {
                self.bell.notified().await;
                tokio::time::sleep(BURST).await;
            })
            .await
            .is_some()
    }

    /// Has [`Mirrors::changed`] return in a while, because something did not work out.
    pub(crate) async fn retry(&self) {
        self.bell.notify_one();
        self.stop.run_until_cancelled(tokio::time::sleep(RETRY)).await;
    }
}
