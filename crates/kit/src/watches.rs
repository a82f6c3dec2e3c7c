//! Watches on what objects refer to, kept by need.
//!
//! Secrets and ConfigMaps are watched one by one, by name: an operator neither holds nor may read all of them. Other
//! kinds are watched as a whole, but only their metadata: enough to know that something changed.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};

use futures::StreamExt;
use kube::Client;
use kube::api::{Api, DynamicObject};
use kube::core::{ApiResource, PartialObjectMeta};
use kube::runtime::{WatchStreamExt, watcher};
use tokio::sync::mpsc::Sender;
use tokio::task::AbortHandle;

use crate::metrics::Metrics;
use crate::object::Ref;

/// What one watch covers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Scope {
    Object(Ref),
    Kind(ApiResource),
}

impl Scope {
    fn of(reference: &Ref) -> Self {
        let by_name =
            reference.resource.group.is_empty() && matches!(reference.resource.kind.as_str(), "Secret" | "ConfigMap");
        if by_name { Self::Object(reference.clone()) } else { Self::Kind(reference.resource.clone()) }
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

    /// Watches what `object` refers to now, and no longer what it referred to before.
    pub fn set(&self, object: &Ref, references: HashSet<Ref>) {
        let mut state = self.state.lock().expect("no one panics with the lock");
        let before = state.referring.remove(object).unwrap_or_default();
        for dropped in before.difference(&references) {
            if let Some(interested) = state.interested.get_mut(dropped) {
                interested.remove(object);
                if interested.is_empty() {
                    state.interested.remove(dropped);
                    if let Some(watch) = state.running.remove(&Scope::Object(dropped.clone())) {
                        watch.abort();
                    }
                }
            }
        }
        for reference in &references {
            state.interested.entry(reference.clone()).or_default().insert(object.clone());
            let scope = Scope::of(reference);
            state.running.entry(scope).or_insert_with_key(|scope| self.start(scope));
        }
        if !references.is_empty() {
            state.referring.insert(object.clone(), references);
        }
    }

    fn start(&self, scope: &Scope) -> AbortHandle {
        let (resource, namespace, config) = match scope {
            Scope::Object(reference) => (
                reference.resource.clone(),
                reference.namespace.clone(),
                watcher::Config::default().fields(&format!("metadata.name={}", reference.name)),
            ),
            Scope::Kind(resource) => (resource.clone(), self.namespace.clone(), watcher::Config::default()),
        };
        let api: Api<PartialObjectMeta<DynamicObject>> = match &namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &resource),
            None => Api::all_with(self.client.clone(), &resource),
        };
        let (state, triggers, metrics) = (self.state.clone(), self.triggers.clone(), self.metrics.clone());
        let controller = self.controller;
        let task = tokio::spawn(async move {
            let mut events = std::pin::pin!(watcher(api, config).default_backoff());
            while let Some(event) = events.next().await {
                let meta = match event {
                    Ok(watcher::Event::Apply(o) | watcher::Event::InitApply(o) | watcher::Event::Delete(o)) => {
                        o.metadata
                    }
                    Ok(watcher::Event::Init | watcher::Event::InitDone) => continue,
                    Err(error) => {
                        tracing::debug!(controller, kind = %resource.kind, %error, "a watch broke and is started again");
                        metrics.watch_broke(controller);
                        continue;
                    }
                };
                let changed = Ref::of(&resource, &meta);
                let interested: Vec<Ref> = {
                    let state = state.lock().expect("no one panics with the lock");
                    state.interested.get(&changed).into_iter().flatten().cloned().collect()
                };
                for object in interested {
                    if triggers.send(object).await.is_err() {
                        return;
                    }
                }
            }
        });
        task.abort_handle()
    }
}

impl Drop for Watches {
    fn drop(&mut self) {
        if let Ok(state) = self.state.lock() {
            for watch in state.running.values() {
                watch.abort();
            }
        }
    }
}
