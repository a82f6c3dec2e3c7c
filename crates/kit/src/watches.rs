//! Watches on what objects refer to, kept by need.
//!
//! Each object is watched by name, and only its metadata, which is enough to know that something changed. All who refer to
//! it share one watch. An operator caches nothing of unreferenced objects, and RBAC can grant a watch by name.
//! A watch is a connection, so many objects of one kind in one namespace are watched together; Secrets and ConfigMaps never
//! are.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::StreamExt;
use kube::Client;
use kube::core::ApiResource;
use kube::runtime::watcher;
use tokio::sync::mpsc::Sender;
use tokio::task::AbortHandle;

use crate::metrics::Metrics;
use crate::object::{KindRef, Ref};
use crate::resilient_watch::{Watched, watch};
use crate::resync::{Change, Fold};

/// How many objects of one kind and namespace are watched by name. With more, one watch of all of them costs less.
const MOST_BY_NAME: usize = 32;

/// The objects of one kind in one namespace.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Group {
    resource: ApiResource,
    namespace: Option<String>,
}

impl Group {
    fn of(reference: &Ref) -> Self {
        Self { resource: reference.resource.clone(), namespace: reference.namespace.clone() }
    }

    /// Whether its objects are only ever watched by name: what is in others is none of the operator's business.
    fn is_confidential(&self) -> bool {
        self.resource.group.is_empty() && matches!(self.resource.kind.as_str(), "Secret" | "ConfigMap")
    }
}

/// What one watch covers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Scope {
    Object(Ref),
    Group(Group),
}

/// Who refers to what, and what has to be watched for that.
#[derive(Debug, Default)]
struct References {
    /// Who wants to hear of what.
    interested: HashMap<Ref, HashSet<Ref>>,
    /// What each object refers to, to find out what it no longer does.
    referring: HashMap<Ref, HashSet<Ref>>,
    /// The referenced objects.
    groups: HashMap<Group, HashSet<Ref>>,
    /// The groups that are watched as a whole, until none of their objects is referenced.
    whole: HashSet<Group>,
}

impl References {
    fn add(&mut self, object: &Ref, reference: &Ref) {
        self.referring.entry(object.clone()).or_default().insert(reference.clone());
        self.interested.entry(reference.clone()).or_default().insert(object.clone());
        let group = Group::of(reference);
        let members = self.groups.entry(group.clone()).or_default();
        members.insert(reference.clone());
        if members.len() > MOST_BY_NAME && !group.is_confidential() {
            self.whole.insert(group);
        }
    }

    fn keep_only(&mut self, object: &Ref, references: &HashSet<Ref>) {
        let Some(before) = self.referring.get_mut(object) else { return };
        let dropped: Vec<Ref> = before.difference(references).cloned().collect();
        before.retain(|reference| references.contains(reference));
        if before.is_empty() {
            self.referring.remove(object);
        }
        for reference in dropped {
            let Some(interested) = self.interested.get_mut(&reference) else { continue };
            interested.remove(object);
            if interested.is_empty() {
                self.interested.remove(&reference);
                self.leave_group(&reference);
            }
        }
    }

    fn leave_group(&mut self, reference: &Ref) {
        let group = Group::of(reference);
        let Some(members) = self.groups.get_mut(&group) else { return };
        members.remove(reference);
        if members.is_empty() {
            self.groups.remove(&group);
            self.whole.remove(&group);
        }
    }

    /// The watches that are needed for one group.
    fn scopes(&self, group: &Group) -> HashSet<Scope> {
        if self.whole.contains(group) {
            return [Scope::Group(group.clone())].into();
        }
        self.groups.get(group).into_iter().flatten().cloned().map(Scope::Object).collect()
    }
}

#[derive(Default)]
struct State {
    references: References,
    running: HashMap<Group, HashMap<Scope, AbortHandle>>,
}

/// The watches of one controller.
pub struct Watches {
    client: Client,
    controller: &'static str,
    metrics: Metrics,
    triggers: Sender<Ref>,
    state: Arc<Mutex<State>>,
}

impl Watches {
    /// No watches yet. Changes are told through `triggers`, as the objects that are to be reconciled.
    pub fn new(client: Client, controller: &'static str, metrics: Metrics, triggers: Sender<Ref>) -> Self {
        Self { client, controller, metrics, triggers, state: Arc::default() }
    }

    /// Watches one more thing for `object`. Asked before it is read, so that no change falls between the two.
    pub fn add(&self, object: &Ref, reference: &Ref) {
        let mut state = lock(&self.state);
        state.references.add(object, reference);
        self.adjust(&mut state, &Group::of(reference));
    }

    /// Watches for `object` nothing but these from now on.
    pub fn keep_only(&self, object: &Ref, references: &HashSet<Ref>) {
        let mut state = lock(&self.state);
        let before = state.references.referring.get(object).cloned().unwrap_or_default();
        state.references.keep_only(object, references);
        let groups: HashSet<Group> = before.difference(references).map(Group::of).collect();
        for group in groups {
            self.adjust(&mut state, &group);
        }
    }

    /// Ends the watches of a group that are no longer needed, and starts those that are. A new one begins with a list, so
    /// nothing is missed in between.
    fn adjust(&self, state: &mut State, group: &Group) {
        let wanted = state.references.scopes(group);
        let running = state.running.entry(group.clone()).or_default();
        running.retain(|scope, watch| {
            let stays = wanted.contains(scope);
            if !stays {
                watch.abort();
            }
            stays
        });
        for scope in wanted {
            running.entry(scope).or_insert_with_key(|scope| self.start(scope));
        }
        if running.is_empty() {
            state.running.remove(group);
        }
    }

    fn start(&self, scope: &Scope) -> AbortHandle {
        let (group, config) = match scope {
            Scope::Object(reference) => {
                (Group::of(reference), watcher::Config::default().fields(&format!("metadata.name={}", reference.name)))
            }
            Scope::Group(group) => (group.clone(), watcher::Config::default()),
        };
        let kind = KindRef { resource: group.resource, namespaced: group.namespace.is_some() };
        let api = kind.metadata_api(self.client.clone(), group.namespace.as_deref());
        let (state, triggers) = (self.state.clone(), self.triggers.clone());
        let watched = Watched::new(self.controller, &kind.resource.kind, &self.metrics);
        let task = tokio::spawn(async move {
            let mut fold = Fold::<Option<String>>::new(kind.resource);
            let mut events = std::pin::pin!(watch(api, config, watched));
            while let Some(event) = events.next().await {
                for change in fold.on(event, |object| object.metadata.resource_version.clone()) {
                    let changed = match change {
                        // A list that starts over tells again what is known.
                        Change::Applied(_, object, Some(before)) if object.metadata.resource_version == before => {
                            continue;
                        }
                        Change::Applied(changed, ..) | Change::Gone(changed, _) => changed,
                    };
                    let interested = lock(&state).references.interested.get(&changed).cloned();
                    for object in interested.into_iter().flatten() {
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
        for watch in lock(&self.state).running.values().flat_map(HashMap::values) {
            watch.abort();
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::apps::v1::Deployment;
    use k8s_openapi::api::core::v1::{Secret, Service};
    use kube::Resource;

    use super::*;

    fn named<K: Resource<DynamicType = ()>>(count: usize) -> Vec<Ref> {
        (0..count).map(|number| Ref::namespaced::<K>("orchard", format!("x{number}"))).collect()
    }

    /// Everything that is watched when one object refers to all of these.
    fn watched(references: &[Ref]) -> HashSet<Scope> {
        let mut state = References::default();
        for reference in references {
            state.add(&Ref::namespaced::<Service>("orchard", "tree"), reference);
        }
        state.groups.keys().flat_map(|group| state.scopes(group)).collect()
    }

    #[test]
    fn few_objects_are_watched_by_name_and_many_of_one_namespace_together() {
        assert_eq!(watched(&named::<Deployment>(MOST_BY_NAME)).len(), MOST_BY_NAME);
        let many = named::<Deployment>(MOST_BY_NAME + 1);
        assert_eq!(watched(&many), [Scope::Group(Group::of(&many[0]))].into());
        let elsewhere = Ref::namespaced::<Deployment>("cellar", "x1");
        assert!(watched(&[many, vec![elsewhere.clone()]].concat()).contains(&Scope::Object(elsewhere)));
    }

    #[test]
    fn secrets_are_never_watched_together() {
        assert_eq!(watched(&named::<Secret>(100)).len(), 100);
    }

    #[test]
    fn a_watch_is_shared_and_ends_with_the_last_who_is_interested() {
        let mut state = References::default();
        let [one, other] = ["tree", "bush"].map(|name| Ref::namespaced::<Service>("orchard", name));
        let many = named::<Deployment>(MOST_BY_NAME + 1);
        let group = Group::of(&many[0]);
        for reference in &many {
            state.add(&one, reference);
            state.add(&other, reference);
        }
        state.keep_only(&one, &HashSet::new());
        assert_eq!(state.scopes(&group), [Scope::Group(group.clone())].into());
        state.keep_only(&other, &many[..2].iter().cloned().collect());
        assert_eq!(state.scopes(&group), [Scope::Group(group.clone())].into(), "it does not go back and forth");
        state.keep_only(&other, &HashSet::new());
        assert!(state.scopes(&group).is_empty() && state.groups.is_empty() && state.whole.is_empty());
    }
}
