//! The children of a controller's objects: metadata from watches by label, indexed by the uid of the owner, and the live
//! objects of kinds whose status is an input.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::join_all;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use kube::api::DynamicObject;
use kube::core::{ApiResource, ObjectMeta, PartialObjectMeta};
use kube::runtime::watcher::Event;
use tokio_util::sync::CancellationToken;

use crate::object::{KindRef, Ref};
use crate::ownership::{OWNER_UID, Owner, label, owner_of};
use crate::readiness;
use crate::resync::{Change, Fold};

/// How long the first reconcile waits for the lists of all kinds of children. A list that is forbidden never ends.
const LONGEST_LIST: Duration = Duration::from_secs(10);

/// The metadata of every child of one controller.
#[derive(Default)]
pub struct Children {
    kinds: Vec<ChildKind>,
    /// By the uid of the owner.
    owners: Mutex<HashMap<String, HashMap<Ref, ObjectMeta>>>,
}

/// A kind of children.
#[derive(Clone)]
pub(crate) struct ChildKind {
    pub(crate) kind: KindRef,
    /// Cancelled once the children of the kind are known.
    pub(crate) listed: CancellationToken,
    /// Whether a change of the status alone starts a reconcile.
    status_matters: bool,
}

impl ChildKind {
    fn new(kind: KindRef, observed: &[KindRef]) -> Self {
        let status_matters = observed.contains(&kind) || !ready_by_existence(&kind.resource);
        Self { kind, listed: CancellationToken::new(), status_matters }
    }

    /// Whether every change of a child starts a reconcile. A child without a generation may be changed in any field when its
    /// resource version changes.
    fn tells_every_change(&self, meta: &ObjectMeta) -> bool {
        self.status_matters || meta.generation.is_none()
    }

    fn know(&self, meta: &ObjectMeta, owner_kind: &ApiResource) -> Known {
        let mut hasher = DefaultHasher::new();
        (&meta.uid, meta.generation, &meta.labels, &meta.annotations).hash(&mut hasher);
        meta.deletion_timestamp.is_some().hash(&mut hasher);
        for owner in meta.owner_references.iter().flatten() {
            (&owner.uid, owner.controller).hash(&mut hasher);
        }
        if self.tells_every_change(meta) {
            meta.resource_version.hash(&mut hasher);
        }
        let owner_uid = label(meta, OWNER_UID).cloned();
        Known { owner_uid, owner: owner_of(meta, owner_kind), relevant: hasher.finish() }
    }
}

/// Whether a kind is ready as soon as it exists: then even an object without a status is.
fn ready_by_existence(resource: &ApiResource) -> bool {
    let reference = Ref { resource: resource.clone(), namespace: None, name: String::new() };
    readiness::wait(&reference, &DynamicObject::new("", resource)).is_none()
}

/// What is remembered of a child until the next event about it.
struct Known {
    owner_uid: Option<String>,
    owner: Option<Ref>,
    /// Changes when something of the child changes that a reconcile has to hear of.
    relevant: u64,
}

impl Children {
    /// Knows of no children yet. Kinds that are `observed` are told of each change of their status.
    pub fn new(kinds: Vec<KindRef>, observed: &[KindRef]) -> Self {
        let kinds = kinds.into_iter().map(|kind| ChildKind::new(kind, observed)).collect();
        Self { kinds, owners: Mutex::default() }
    }

    pub(crate) fn kinds(&self) -> &[ChildKind] {
        &self.kinds
    }

    /// The children of one owner.
    pub fn of(&self, owner: &Owner) -> Vec<(Ref, ObjectMeta)> {
        let owners = self.lock();
        let ours = owners.get(&owner.uid).into_iter().flatten().filter(|(_, meta)| owner.owns(meta));
        let mut children: Vec<_> = ours.map(|(reference, meta)| (reference.clone(), meta.clone())).collect();
        children.sort_by_cached_key(|(reference, _)| reference.to_string());
        children
    }

    /// Whether the watches on children tell every change of this one, so that it needs no watch of its own.
    pub(crate) fn tells_every_change(&self, child: &Ref, meta: &ObjectMeta) -> bool {
        self.kinds.iter().any(|kind| kind.kind.resource == child.resource && kind.tells_every_change(meta))
    }

    /// Waits until the children of every installed kind are known, for some seconds at most.
    pub(crate) async fn until_listed(&self) {
        let lists = join_all(self.kinds.iter().map(|kind| kind.listed.cancelled()));
        if tokio::time::timeout(LONGEST_LIST, lists).await.is_err() {
            let unlisted = self.kinds.iter().filter(|kind| !kind.listed.is_cancelled());
            let kinds: Vec<&str> = unlisted.map(|kind| kind.kind.resource.kind.as_str()).collect();
            tracing::warn!(kinds = kinds.join(", "), "starting before all children are listed: their lists take long");
        }
    }

    fn put(&self, child: Ref, meta: &ObjectMeta, before: Option<&Known>, now: &Known) {
        let mut owners = self.lock();
        if let Some(uid) = before.and_then(|before| before.owner_uid.as_ref())
            && now.owner_uid.as_ref() != Some(uid)
        {
            remove(&mut owners, uid, &child);
        }
        if let Some(uid) = &now.owner_uid {
            owners.entry(uid.clone()).or_default().insert(child, slim(meta));
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, HashMap<Ref, ObjectMeta>>> {
        self.owners.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn remove(owners: &mut HashMap<String, HashMap<Ref, ObjectMeta>>, uid: &str, child: &Ref) {
    if let Some(children) = owners.get_mut(uid) {
        children.remove(child);
        if children.is_empty() {
            owners.remove(uid);
        }
    }
}

/// Metadata without the fields that managers own, which are most of it. Who they are and when they wrote is needed to say who
/// undoes our writes; see [`crate::write_limit`].
fn slim(meta: &ObjectMeta) -> ObjectMeta {
    let managers = meta.managed_fields.iter().flatten().map(|entry| ManagedFieldsEntry {
        manager: entry.manager.clone(),
        operation: entry.operation.clone(),
        time: entry.time.clone(),
        subresource: entry.subresource.clone(),
        ..ManagedFieldsEntry::default()
    });
    let managed_fields = meta.managed_fields.as_ref().map(|_| managers.collect());
    ObjectMeta { managed_fields, ..meta.clone() }
}

/// Folds the events about one kind of children into the index, and says whose reconcile each of them starts.
pub(crate) struct ChildEvents {
    children: Arc<Children>,
    kind: ChildKind,
    owner_kind: ApiResource,
    fold: Fold<Known>,
}

impl ChildEvents {
    pub(crate) fn new(children: Arc<Children>, kind: ChildKind, owner_kind: ApiResource) -> Self {
        let fold = Fold::new(kind.kind.resource.clone());
        Self { children, kind, owner_kind, fold }
    }

    pub(crate) fn on(&mut self, event: Event<PartialObjectMeta<DynamicObject>>) -> Vec<Ref> {
        let (kind, owner_kind) = (&self.kind, &self.owner_kind);
        let mut owners = Vec::new();
        for change in self.fold.on(event, |child| kind.know(&child.metadata, owner_kind)) {
            match change {
                Change::Applied(reference, child, before) => {
                    let Some(now) = self.fold.known(&reference) else { continue };
                    if before.as_ref().is_none_or(|before| before.relevant != now.relevant) {
                        owners.extend(now.owner.clone());
                        owners.extend(before.as_ref().and_then(|before| before.owner.clone()));
                    }
                    self.children.put(reference, &child.metadata, before.as_ref(), now);
                }
                Change::Gone(reference, known) => {
                    if let Some(uid) = &known.owner_uid {
                        remove(&mut self.children.lock(), uid, &reference);
                    }
                    owners.extend(known.owner);
                }
            }
        }
        owners.dedup();
        owners
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::apps::v1::Deployment;
    use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
    use k8s_openapi::api::core::v1::{ConfigMap, Service};
    use serde_json::{Value, json};

    use super::*;

    /// The events of one kind of children of presses.
    fn events<K: kube::Resource<DynamicType = ()>>(observed: &[KindRef]) -> (Arc<Children>, ChildEvents)
    where
        K::Scope: 'static,
    {
        let children = Arc::new(Children::new(vec![KindRef::of::<K>()], observed));
        let kind = children.kinds()[0].clone();
        (children.clone(), ChildEvents::new(children, kind, owner("1").reference.resource))
    }

    fn owner(uid: &str) -> Owner {
        Owner { reference: Ref::namespaced::<Service>("orchard", "tree"), uid: uid.into(), manager: "gardener" }
    }

    /// A child, as its watch tells of it, with more metadata.
    fn child(name: &str, uid: &str, more: &Value) -> PartialObjectMeta<DynamicObject> {
        let mut object = DynamicObject::new(name, &ApiResource::erase::<ConfigMap>(&())).within("orchard");
        owner(uid).mark(&mut object, false);
        let mut meta = serde_json::to_value(&object.metadata).unwrap();
        meta.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        serde_json::from_value(json!({"metadata": meta})).unwrap()
    }

    #[test]
    fn an_owner_finds_its_own_children_and_those_that_are_gone_no_more() {
        let (children, mut events) = events::<ConfigMap>(&[]);
        let names = |uid: &str| -> Vec<String> {
            children.of(&owner(uid)).into_iter().map(|(reference, _)| reference.name).collect()
        };
        for (name, uid) in [("b", "1"), ("a", "1"), ("c", "2")] {
            assert_eq!(events.on(Event::Apply(child(name, uid, &json!({})))), [owner(uid).reference]);
        }
        assert_eq!((names("1"), names("2")), (vec!["a".to_owned(), "b".to_owned()], vec!["c".to_owned()]));
        events.on(Event::Apply(child("b", "2", &json!({}))));
        assert_eq!((names("1").len(), names("2").len()), (1, 2), "it has another owner now");
        events.on(Event::Init);
        events.on(Event::InitApply(child("c", "2", &json!({}))));
        assert_eq!(events.on(Event::InitDone), [owner("1").reference]);
        assert_eq!((names("1").len(), names("2").len()), (0, 1), "a list tells what vanished");
    }

    #[test]
    fn of_managed_fields_only_their_managers_are_kept() {
        let (children, mut events) = events::<ConfigMap>(&[]);
        let entry = json!({"manager": "mole", "operation": "Apply", "time": "2026-01-01T00:00:00Z", "apiVersion": "v1",
            "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {}}});
        events.on(Event::Apply(child("a", "1", &json!({"managedFields": [entry]}))));
        let kept = serde_json::to_value(children.of(&owner("1"))[0].1.managed_fields.clone()).unwrap();
        assert_eq!(kept, json!([{"manager": "mole", "operation": "Apply", "time": "2026-01-01T00:00:00Z"}]));
    }

    /// Whether a change of the status alone is told, and whether one of the spec is.
    fn told<K: kube::Resource<DynamicType = ()>>(observed: &[KindRef]) -> (bool, bool)
    where
        K::Scope: 'static,
    {
        let (_, mut events) = events::<K>(observed);
        let mut tells = |version: &str, generation: i64| {
            let meta = json!({"resourceVersion": version, "generation": generation, "uid": "x"});
            !events.on(Event::Apply(child("a", "1", &meta))).is_empty()
        };
        tells("1", 1);
        (tells("2", 1), tells("3", 2))
    }

    #[test]
    fn the_status_of_a_kind_that_is_ready_by_existence_starts_no_reconcile_unless_it_is_observed() {
        assert_eq!(told::<HorizontalPodAutoscaler>(&[]), (false, true));
        assert_eq!(told::<HorizontalPodAutoscaler>(&[KindRef::of::<HorizontalPodAutoscaler>()]), (true, true));
        assert_eq!(told::<Deployment>(&[]), (true, true));
    }

    #[tokio::test(start_paused = true)]
    async fn a_start_waits_for_the_lists_of_children_but_not_for_ever() {
        let children = Children::new(vec![KindRef::of::<ConfigMap>(), KindRef::of::<Deployment>()], &[]);
        let began = tokio::time::Instant::now();
        children.until_listed().await;
        assert!(began.elapsed() >= LONGEST_LIST);
        children.kinds().iter().for_each(|kind| kind.listed.cancel());
        let began = tokio::time::Instant::now();
        children.until_listed().await;
        assert!(began.elapsed() < LONGEST_LIST);
    }

    #[test]
    fn every_change_of_a_child_without_a_generation_starts_a_reconcile() {
        let (_, mut events) = events::<ConfigMap>(&[]);
        for version in ["1", "2"] {
            assert_eq!(events.on(Event::Apply(child("a", "1", &json!({"resourceVersion": version})))).len(), 1);
        }
        assert!(events.on(Event::Apply(child("a", "1", &json!({"resourceVersion": "2"})))).is_empty());
    }

    #[test]
    fn a_child_needs_a_watch_of_its_own_if_changes_of_its_status_start_no_reconcile() {
        let kinds = vec![KindRef::of::<HorizontalPodAutoscaler>(), KindRef::of::<Deployment>()];
        let children = Children::new(kinds, &[]);
        let tells = |child: Ref, generation: Option<i64>| {
            children.tells_every_change(&child, &ObjectMeta { generation, ..ObjectMeta::default() })
        };
        assert!(!tells(Ref::namespaced::<HorizontalPodAutoscaler>("orchard", "press"), Some(1)));
        assert!(tells(Ref::namespaced::<HorizontalPodAutoscaler>("orchard", "press"), None));
        assert!(tells(Ref::namespaced::<Deployment>("orchard", "press"), Some(1)));
        assert!(!tells(Ref::namespaced::<ConfigMap>("orchard", "press"), None), "no child is of that kind");
    }

    #[test]
    fn a_child_that_moves_to_another_owner_starts_a_reconcile_of_both() {
        let (_, mut events) = events::<ConfigMap>(&[]);
        let other = Owner { reference: Ref::namespaced::<Service>("orchard", "bush"), ..owner("2") };
        let mut moved = DynamicObject::new("a", &ApiResource::erase::<ConfigMap>(&())).within("orchard");
        other.mark(&mut moved, false);
        let moved = serde_json::from_value(json!({"metadata": moved.metadata})).unwrap();
        events.on(Event::Apply(child("a", "1", &json!({}))));
        assert_eq!(events.on(Event::Apply(moved)), [other.reference, owner("1").reference]);
    }

    #[test]
    fn managers_of_a_subresource_are_kept_as_such() {
        let (children, mut events) = events::<ConfigMap>(&[]);
        let entry = json!({"manager": "mole", "operation": "Update", "subresource": "status"});
        events.on(Event::Apply(child("a", "1", &json!({"managedFields": [entry.clone()]}))));
        let kept = serde_json::to_value(children.of(&owner("1"))[0].1.managed_fields.clone()).unwrap();
        assert_eq!(kept, json!([entry]));
    }
}
