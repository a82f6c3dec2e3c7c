//! The ConfigMaps and Secrets that pods refer to, each watched by its name while a pod needs it. No others are held.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Debug;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

use crate::bell::Bell;

/// How long a first answer of the API is waited for.
const PATIENCE: Duration = Duration::from_secs(10);

/// What can be referred to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Kind {
    ConfigMap,
    Secret,
}

impl Kind {
    /// As error messages have it.
    pub(crate) fn lower(self) -> &'static str {
        match self {
            Self::ConfigMap => "configmap",
            Self::Secret => "secret",
        }
    }
}

/// The content of a ConfigMap or Secret.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct Payload {
    data: BTreeMap<String, Vec<u8>>,
    /// What a ConfigMap holds as bytes: files, but no variables.
    binary: BTreeMap<String, Vec<u8>>,
}

impl Payload {
    /// What can be a variable.
    pub(crate) fn text(&self) -> BTreeMap<String, String> {
        self.data.iter().map(|(key, value)| (key.clone(), String::from_utf8_lossy(value).into_owned())).collect()
    }

    /// What can be a file.
    pub(crate) fn files(&self) -> impl Iterator<Item = (&String, &Vec<u8>)> {
        self.data.iter().chain(&self.binary)
    }

    pub(crate) fn get(&self, key: &str) -> Option<&[u8]> {
        self.data.get(key).or_else(|| self.binary.get(key)).map(Vec::as_slice)
    }

    #[cfg(test)]
    pub(crate) fn of<const N: usize>(data: [(&str, &str); N]) -> Self {
        let data = data.map(|(key, value)| (key.to_owned(), value.as_bytes().to_vec()));
        Self { data: data.into(), binary: BTreeMap::new() }
    }
}

impl From<ConfigMap> for Payload {
    fn from(map: ConfigMap) -> Self {
        let data = map.data.unwrap_or_default().into_iter().map(|(key, value)| (key, value.into_bytes()));
        let binary = map.binary_data.unwrap_or_default().into_iter().map(|(key, value)| (key, value.0));
        Self { data: data.collect(), binary: binary.collect() }
    }
}

impl From<Secret> for Payload {
    fn from(secret: Secret) -> Self {
        let data = secret.data.unwrap_or_default().into_iter().map(|(key, value)| (key, value.0));
        Self { data: data.collect(), binary: BTreeMap::new() }
    }
}

/// The API does not say whether there is such an object.
#[derive(Debug, Clone, thiserror::Error)]
#[error("failed to sync {} cache: timed out waiting for the condition ({kind:?} {name})", .kind.lower())]
pub(crate) struct ReferenceError {
    kind: Kind,
    name: String,
}

#[derive(Clone)]
enum Seen {
    NotYet,
    Missing,
    There(Payload),
}

type Key = (Kind, String, String);

/// All that are watched on this node. Cheap to clone.
#[derive(Clone)]
pub(crate) struct References {
    client: Client,
    watched: Arc<Mutex<HashMap<Key, Weak<Watched>>>>,
}

/// One object; watched for as long as someone holds this.
pub(crate) struct Watched {
    seen: watch::Receiver<Seen>,
    listeners: Arc<Mutex<Vec<Weak<Bell>>>>,
    _task: AbortOnDropHandle<()>,
}

impl References {
    pub(crate) fn new(client: Client) -> Self {
        Self { client, watched: Arc::default() }
    }

    /// Watches an object for a pod, which is woken by every change.
    fn watch(&self, key: &Key, listener: &Arc<Bell>) -> Arc<Watched> {
        let mut all = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, watched| watched.strong_count() > 0);
        let watched = all.get(key).and_then(Weak::upgrade).unwrap_or_else(|| {
            let watched = Arc::new(self.start(key));
            all.insert(key.clone(), Arc::downgrade(&watched));
            watched
        });
        watched.listeners.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::downgrade(listener));
        watched
    }

    fn start(&self, (kind, namespace, name): &Key) -> Watched {
        let (sender, seen) = watch::channel(Seen::NotYet);
        let listeners = Arc::default();
        let client = self.client.clone();
        let task = match kind {
            Kind::ConfigMap => {
                let api = Api::<ConfigMap>::namespaced(client, namespace);
                tokio::spawn(follow(api, name.clone(), sender, Arc::clone(&listeners)))
            }
            Kind::Secret => {
                let api = Api::<Secret>::namespaced(client, namespace);
                tokio::spawn(follow(api, name.clone(), sender, Arc::clone(&listeners)))
            }
        };
        Watched { seen, listeners, _task: AbortOnDropHandle::new(task) }
    }
}

async fn follow<K>(api: Api<K>, name: String, seen: watch::Sender<Seen>, listeners: Arc<Mutex<Vec<Weak<Bell>>>>)
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + DeserializeOwned + Debug + Send + 'static,
    Payload: From<K>,
{
    let mut changes = watcher::watch_object(api, &name).default_backoff().boxed();
    while let Some(change) = changes.next().await {
        match change {
            Ok(object) => {
                seen.send_replace(object.map_or(Seen::Missing, |object| Seen::There(object.into())));
                let mut listeners = listeners.lock().unwrap_or_else(PoisonError::into_inner);
                listeners.retain(|listener| listener.upgrade().map(|listener| listener.ring_for_change()).is_some());
            }
            Err(error) => tracing::warn!(name, %error, "cannot watch what a pod refers to"),
        }
    }
}

/// What one pod refers to.
pub(crate) struct PodReferences {
    all: References,
    namespace: String,
    listener: Arc<Bell>,
    held: Mutex<HashMap<(Kind, String), Arc<Watched>>>,
}

impl PodReferences {
    pub(crate) fn new(all: &References, namespace: &str, listener: Arc<Bell>) -> Self {
        Self { all: all.clone(), namespace: namespace.to_owned(), listener, held: Mutex::default() }
    }

    /// Begins to watch an object, and waits until the API has said whether there is one.
    pub(crate) async fn hold(&self, kind: Kind, name: &str) {
        let watched = {
            let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
            let key = (kind, self.namespace.clone(), name.to_owned());
            Arc::clone(held.entry((kind, name.to_owned())).or_insert_with(|| self.all.watch(&key, &self.listener)))
        };
        let mut seen = watched.seen.clone();
        // Who asks for it gets an error if this took too long.
        let _ = tokio::time::timeout(PATIENCE, seen.wait_for(|seen| !matches!(seen, Seen::NotYet))).await;
    }

    /// The object's content, or nothing if there is no such object.
    pub(crate) fn get(&self, kind: Kind, name: &str) -> Result<Option<Payload>, ReferenceError> {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let seen = held.get(&(kind, name.to_owned())).map(|watched| watched.seen.borrow().clone());
        match seen {
            Some(Seen::There(payload)) => Ok(Some(payload)),
            Some(Seen::Missing) => Ok(None),
            Some(Seen::NotYet) | None => Err(ReferenceError { kind, name: name.to_owned() }),
        }
    }
}
