//! What is known of children from the last time that they were applied or read, so that an unchanged child is neither
//! written nor read again.
//!
//! Each entry stands for one resourceVersion of one child. Of a Secret only the metadata is kept.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use kube::api::DynamicObject;
use kube::core::ObjectMeta;
use serde_json::Value;

use crate::object::Ref;

/// A child as it was last seen.
#[derive(Clone, Debug)]
struct Known {
    live: Arc<DynamicObject>,
    /// A hash of what was applied, until another manager changes our fields.
    intent: Option<String>,
}

/// The children of every owner, as they were last seen. It is bounded by what plans hold.
#[derive(Debug, Default)]
pub struct ApplyCache {
    owners: Mutex<HashMap<Ref, HashMap<Ref, Known>>>,
}

impl ApplyCache {
    /// A child with its status, if it was seen with this resourceVersion. Secrets have to be read.
    pub fn live(&self, owner: &Ref, child: &Ref, resource_version: &str) -> Option<Arc<DynamicObject>> {
        if is_secret(child) {
            return None;
        }
        let owners = self.owners();
        let live = &owners.get(owner)?.get(child)?.live;
        (live.metadata.resource_version.as_deref() == Some(resource_version)).then(|| live.clone())
    }

    /// Keeps a child that was read. It counts as applied if it did before, and nothing but its status has changed.
    pub fn observe(&self, owner: &Ref, child: &Ref, live: DynamicObject) -> Arc<DynamicObject> {
        let live = Arc::new(without_secrets(child, live));
        let mut owners = self.owners();
        let children = owners.entry(owner.clone()).or_default();
        let before = children.remove(child).filter(|known| only_status_differs(&known.live.metadata, &live.metadata));
        let intent = before.and_then(|known| known.intent);
        children.insert(child.clone(), Known { live: live.clone(), intent });
        live
    }

    /// Keeps a child as an apply of `intent` left it.
    pub(crate) fn applied(&self, owner: &Ref, child: &Ref, intent: &str, live: DynamicObject) -> Arc<DynamicObject> {
        let live = Arc::new(without_secrets(child, live));
        let known = Known { live: live.clone(), intent: Some(intent.to_owned()) };
        self.owners().entry(owner.clone()).or_default().insert(child.clone(), known);
        live
    }

    /// The child, if it was last seen with the version that `meta` has, and held what an apply of `intent` left.
    pub(crate) fn unchanged(
        &self,
        owner: &Ref,
        child: &Ref,
        intent: &str,
        meta: &ObjectMeta,
    ) -> Option<Arc<DynamicObject>> {
        let owners = self.owners();
        let Known { live, intent: applied } = owners.get(owner)?.get(child)?;
        let seen = &live.metadata;
        let is_same = seen.resource_version.is_some()
            && seen.resource_version == meta.resource_version
            && seen.uid == meta.uid
            && applied.as_deref() == Some(intent);
        is_same.then(|| live.clone())
    }

    /// Whether the child was last seen with what an apply of `intent` left.
    pub(crate) fn was_applied(&self, owner: &Ref, child: &Ref, intent: &str) -> bool {
        let owners = self.owners();
        let known = owners.get(owner).and_then(|children| children.get(child));
        known.is_some_and(|known| known.intent.as_deref() == Some(intent))
    }

    /// Forgets children that are no longer in the plan.
    pub(crate) fn keep_only(&self, owner: &Ref, wanted: &HashSet<Ref>) {
        if let Some(children) = self.owners().get_mut(owner) {
            children.retain(|child, _| wanted.contains(child));
        }
    }

    /// Forgets an owner that is gone.
    pub(crate) fn forget(&self, owner: &Ref) {
        self.owners().remove(owner);
    }

    fn owners(&self) -> MutexGuard<'_, HashMap<Ref, HashMap<Ref, Known>>> {
        self.owners.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(crate) fn is_secret(child: &Ref) -> bool {
    child.resource.kind == "Secret" && child.resource.group.is_empty()
}

fn without_secrets(child: &Ref, mut live: DynamicObject) -> DynamicObject {
    if is_secret(child) {
        live.data = Value::Null;
    }
    live
}

/// Whether everything but the status is as before. The API server keeps book of it: who changes a field of another manager
/// takes it out of that manager's entry. An object without managed fields tells nothing.
fn only_status_differs(before: &ObjectMeta, after: &ObjectMeta) -> bool {
    let entries = |meta: &ObjectMeta| -> Vec<ManagedFieldsEntry> {
        let all = meta.managed_fields.iter().flatten();
        all.filter(|entry| entry.subresource.as_deref() != Some("status")).cloned().collect()
    };
    let entries_before = entries(before);
    before.uid == after.uid
        && before.generation == after.generation
        && !entries_before.is_empty()
        && entries_before == entries(after)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::apps::v1::Deployment;
    use k8s_openapi::api::core::v1::Secret;
    use serde_json::json;

    use super::*;

    fn owner() -> Ref {
        Ref::namespaced::<Secret>("orchard", "tree")
    }

    fn press() -> Ref {
        Ref::namespaced::<Deployment>("orchard", "press")
    }

    /// A child of which the owner's operator has those fields, and the status is written by its controller.
    fn seen(version: &str, fields: &Value) -> DynamicObject {
        serde_json::from_value(json!({
            "metadata": {"name": "press", "namespace": "orchard", "uid": "1", "resourceVersion": version, "managedFields": [
                {"manager": "gardener", "operation": "Apply", "time": "2026-01-01T00:00:00Z", "fieldsV1": fields},
                {"manager": "kube", "operation": "Update", "subresource": "status", "fieldsV1": {"f:status": {version: {}}}},
            ]},
            "data": {"key": "c2VzYW1l"},
        }))
        .unwrap()
    }

    #[test]
    fn a_child_counts_as_applied_until_another_client_changes_more_than_its_status() {
        let (cache, ours) = (ApplyCache::default(), json!({"f:spec": {"f:replicas": {}}}));
        cache.applied(&owner(), &press(), "apples", seen("1", &ours));
        let unchanged = |version: &str, intent: &str| {
            cache.unchanged(&owner(), &press(), intent, &seen(version, &ours).metadata).is_some()
        };
        assert!(unchanged("1", "apples"));
        assert!(!unchanged("1", "pears"), "something else is asked for");
        assert!(!unchanged("2", "apples"), "it has changed since");
        cache.observe(&owner(), &press(), seen("2", &ours));
        assert!(unchanged("2", "apples"), "only the status did");
        cache.observe(&owner(), &press(), seen("3", &json!({})));
        assert!(!unchanged("3", "apples") && !cache.was_applied(&owner(), &press(), "apples"), "a field was taken");
        assert!(cache.live(&owner(), &press(), "3").is_some() && cache.live(&owner(), &press(), "2").is_none());
    }

    #[test]
    fn an_object_of_another_uid_or_without_managed_fields_is_not_taken_for_the_applied_one() {
        let cache = ApplyCache::default();
        let bare = |uid: &str, version: &str| DynamicObject {
            metadata: ObjectMeta {
                uid: Some(uid.into()),
                resource_version: Some(version.into()),
                ..ObjectMeta::default()
            },
            ..seen("0", &json!({}))
        };
        cache.applied(&owner(), &press(), "apples", bare("1", "1"));
        assert!(cache.unchanged(&owner(), &press(), "apples", &bare("2", "1").metadata).is_none());
        cache.observe(&owner(), &press(), bare("1", "2"));
        assert!(cache.unchanged(&owner(), &press(), "apples", &bare("1", "2").metadata).is_none());
    }

    #[test]
    fn of_a_secret_only_the_metadata_is_kept() {
        let (cache, key) = (ApplyCache::default(), Ref::namespaced::<Secret>("orchard", "press"));
        cache.applied(&owner(), &key, "apples", seen("1", &json!({})));
        cache.observe(&owner(), &key, seen("2", &json!({})));
        assert!(!format!("{cache:?}").contains("c2VzYW1l"));
        assert!(cache.live(&owner(), &key, "2").is_none(), "its values are read from the API");
    }

    #[test]
    fn what_is_no_longer_planned_is_forgotten() {
        let cache = ApplyCache::default();
        cache.applied(&owner(), &press(), "apples", seen("1", &json!({})));
        cache.keep_only(&owner(), &HashSet::new());
        assert!(cache.live(&owner(), &press(), "1").is_none());
    }
}
