//! Watches on what objects refer to, kept by need.
//!
//! Secrets and ConfigMaps are watched one by one, by name, so that an operator need not hold all of them, nor be allowed
//! to read them: RBAC can grant a watch by name. Other kinds are watched as a whole, but only their metadata, which is
//! enough to know that something changed.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::StreamExt;
use kube::Client;
use kube::runtime::watcher;
use tokio::sync::mpsc::Sender;
use tokio::task::AbortHandle;

use crate::lasting::{self, Watched};
use crate::metrics::Metrics;
use crate::object::{KindRef, Ref};
use crate::relist::{Change, Fold};

/// What one watch covers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Scope {
    Object(Ref),
    Kind(KindRef),
}

impl Scope {
    fn of(reference: &Ref) -> Self {
        let by_name = matches!(reference.resource.kind.as_str(), "Secret" | "ConfigMap");
        if by_name && reference.resource.group.is_empty() {
            return Self::Object(reference.clone());
        }
        Self::Kind(KindRef { resource: reference.resource.clone(), namespaced: reference.namespace.is_some() })
    }
}

#[derive(Default)]
struct State {
    /// Who wants to hear of what.
    interested: HashMap<Ref, HashSet<Ref>>,
    /// What each object refers to, to find out what it no longer does.
    referring: HashMap<Ref, HashSet<Ref>>,
    running: HashMap<Scope, AbortHandle>,
}

/// The watches of one controller.
pub struct Watches {
    client: Client,
    namespace: Option<String>,
    controller: &'static str,
    metrics: Metrics,
    triggers: Sender<Ref>,
    state: Arc<Mutex<State>>,
}

impl Watches {
    /// No watches yet. Changes are told through `triggers`, as the objects that are to be reconciled.
    pub fn new(
        client: Client,
        namespace: Option<String>,
        controller: &'static str,
        metrics: Metrics,
        triggers: Sender<Ref>,
    ) -> Self {
        Self { client, namespace, controller, metrics, triggers, state: Arc::default() }
    }

    /// Watches one more thing for `object`. Asked before it is read, so that no change falls between the two.
    pub fn add(&self, object: &Ref, reference: &Ref) {
        let mut state = lock(&self.state);
        state.referring.entry(object.clone()).or_default().insert(reference.clone());
        state.interested.entry(reference.clone()).or_default().insert(object.clone());
        state.running.entry(Scope::of(reference)).or_insert_with_key(|scope| self.start(scope));
    }

    /// Watches for `object` nothing but these from now on.
    pub fn keep_only(&self, object: &Ref, references: &HashSet<Ref>) {
        let mut state = lock(&self.state);
        let Some(before) = state.referring.get_mut(object) else { return };
        let dropped: Vec<Ref> = before.difference(references).cloned().collect();
        before.retain(|reference| references.contains(reference));
        if before.is_empty() {
            state.referring.remove(object);
        }
        for reference in dropped {
            let Some(interested) = state.interested.get_mut(&reference) else { continue };
            interested.remove(object);
            if interested.is_empty() {
                state.interested.remove(&reference);
                if let Some(watch) = state.running.remove(&Scope::Object(reference)) {
                    watch.abort();
                }
            }
        }
    }

    fn start(&self, scope: &Scope) -> AbortHandle {
        let (kind, namespace, config) = match scope {
            Scope::Object(reference) => (
                KindRef { resource: reference.resource.clone(), namespaced: reference.namespace.is_some() },
                reference.namespace.clone(),
                watcher::Config::default().fields(&format!("metadata.name={}", reference.name)),
            ),
            Scope::Kind(kind) => (kind.clone(), self.namespace.clone(), watcher::Config::default()),
        };
        let api = kind.metadata_api(self.client.clone(), namespace.as_deref());
        let (state, triggers) = (self.state.clone(), self.triggers.clone());
        let watched =
            Watched { controller: self.controller, kind: kind.resource.kind.clone(), metrics: self.metrics.clone() };
        let task = tokio::spawn(async move {
            let mut fold = Fold::<()>::new(kind.resource);
            let mut events = std::pin::pin!(lasting::watch(api, config, watched));
            while let Some(event) = events.next().await {
                let changes = fold.on(event, |_| ());
                for Change::Applied(changed, _) | Change::Gone(changed, ()) in changes {
                    let interested: Vec<Ref> =
                        lock(&state).interested.get(&changed).into_iter().flatten().cloned().collect();
                    for object in interested {
                        if triggers.send(object).await.is_err() {
                            return;
                        }
                    }
                }
            }
        });
        task.abort_handle()
    }
}

/// Nothing that could panic is done with the lock, so a poisoned one is as good as new.
fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for Watches {
    fn drop(&mut self) {
        for watch in lock(&self.state).running.values() {
            watch.abort();
        }
    }
}
