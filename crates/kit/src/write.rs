//! One server-side apply: skipped if nothing has changed, refused by the API if it is based on an old state, held back if
//! another client reverts it repeatedly.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{FieldsV1, ManagedFieldsEntry};
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use kube::core::ObjectMeta;
use serde_json::{Value, json};

use crate::apply::{Executor, Pass};
use crate::apply_cache::is_secret;
use crate::error::Error;
use crate::hash;
use crate::object::Ref;
use crate::plan::{Basis, Child};
use crate::wait::Wait;
use crate::write_limit::{Pause, write_conflict};

/// What came of a write.
pub(crate) enum Written {
    /// The object as it is now.
    Live(Arc<DynamicObject>),
    /// The object is left as it is for a while.
    LeftAlone(Box<Wait>),
}

impl Executor<'_> {
    /// Applies an object. `before` is its metadata as far as is known; none if it does not exist.
    pub(crate) async fn write(
        &self,
        child: &Child,
        object: &DynamicObject,
        before: Option<&ObjectMeta>,
        pass: &mut Pass<'_>,
    ) -> Result<Written, Error> {
        let reference = child.reference();
        let intent = hash::of_json(&serde_json::to_value(object).unwrap_or_default());
        let pause =
            || self.write_limit.and_then(|write_limit| write_limit.pause(self.owner, &reference, &intent, self.now));
        let left_alone = |pause: &Pause, pass: &mut Pass<'_>| {
            pass.applied.requeue_within(pause.left);
            Written::LeftAlone(Box::new(write_conflict(&reference, pause, self.owner.manager)))
        };
        let unchanged = self.unchanged(&reference, &intent, before).await?;
        // A client that reverts an object and then deletes it once does not object to its creation.
        if let Some(pause) = pause().filter(|pause| before.is_some() || pause.deleted) {
            return Ok(left_alone(&pause, pass));
        }
        let live = match unchanged {
            Some(live) => live,
            None => self.put(child, object, &intent, before, pass).await?,
        };
        Ok(match pause() {
            Some(pause) => left_alone(&pause, pass),
            None => Written::Live(live),
        })
    }

    /// The object, if an apply of `intent` would change nothing.
    async fn unchanged(
        &self,
        reference: &Ref,
        intent: &str,
        before: Option<&ObjectMeta>,
    ) -> Result<Option<Arc<DynamicObject>>, Error> {
        let (Some(cache), Some(meta), owner) = (self.apply_cache, before, &self.owner.reference) else {
            return Ok(None);
        };
        let unchanged = cache.unchanged(owner, reference, intent, meta);
        if unchanged.is_some() || is_secret(reference) || !cache.was_applied(owner, reference, intent) {
            return Ok(unchanged);
        }
        // Most often its controller wrote its status, and a read is cheaper than an apply.
        let Some(live) = self.live(reference, meta).await? else { return Ok(None) };
        Ok(cache.unchanged(owner, reference, intent, &live.metadata))
    }

    async fn put(
        &self,
        child: &Child,
        object: &DynamicObject,
        intent: &str,
        before: Option<&ObjectMeta>,
        pass: &mut Pass<'_>,
    ) -> Result<Arc<DynamicObject>, Error> {
        let reference = child.reference();
        let mut live = match self.send(&reference, &child.basis, object).await {
            Err(error) if is_duplicate(&error) && before.is_some() => self.replace(&reference, object, error).await?,
            sent => sent?,
        };
        if child.basis != Basis::Any
            && let Some(claimed) = self.claim(&reference, &live).await?
        {
            // The entry of a create names a little more than an apply owns; the next apply would change the object for that.
            let version = claimed.metadata.resource_version.unwrap_or_default();
            live = self.send(&reference, &Basis::Version(version), object).await?;
        }
        if let Some(write_limit) = self.write_limit {
            let undone = write_limit.note(self.owner, &reference, intent, before, &live.metadata, self.now);
            pass.applied.corrected.extend(undone.map(|undone| undone.corrected(&reference)));
        }
        Ok(match self.apply_cache {
            Some(cache) => cache.applied(&self.owner.reference, &reference, intent, live),
            None => Arc::new(live),
        })
    }

    async fn send(&self, reference: &Ref, basis: &Basis, object: &DynamicObject) -> Result<DynamicObject, Error> {
        let api = reference.api(self.client.clone());
        let params = PatchParams::apply(self.owner.manager).force();
        let sent = match basis {
            Basis::Any => api.patch(&reference.name, &params, &Patch::Apply(object)).await,
            Basis::Version(version) => {
                let mut object = object.clone();
                object.metadata.resource_version = Some(version.clone());
                api.patch(&reference.name, &params, &Patch::Apply(&object)).await
            }
            Basis::Absent => {
                let params = PostParams { field_manager: Some(self.owner.manager.into()), ..PostParams::default() };
                api.create(&params, object).await
            }
        };
        sent.map_err(|source| Error::ApplyFailed { object: Box::new(reference.clone()), source: Box::new(source) })
    }

    /// Puts our lists in the place of those that are there. A Service whose port was changed by another client has that port
    /// beside ours after an apply, because ports are merged by their number, and two ports of one name are refused.
    async fn replace(&self, reference: &Ref, object: &DynamicObject, refused: Error) -> Result<DynamicObject, Error> {
        let patch = json!({"spec": object.data["spec"]});
        let params = PatchParams { field_manager: Some(self.owner.manager.into()), ..PatchParams::default() };
        let Ok(live) = reference.api(self.client.clone()).patch(&reference.name, &params, &Patch::Merge(patch)).await
        else {
            return Err(refused);
        };
        self.claim(reference, &live).await?;
        self.send(reference, &Basis::Any, object).await
    }

    /// Moves fields that were written by a create to the entry of our applies: an apply removes only fields of that entry, and
    /// a key that is pruned would stay.
    async fn claim(&self, reference: &Ref, live: &DynamicObject) -> Result<Option<DynamicObject>, Error> {
        let entries = live.metadata.managed_fields.as_deref().unwrap_or_default();
        let Some(claimed) = claimed(entries, self.owner.manager) else { return Ok(None) };
        let version = &live.metadata.resource_version;
        let patch = json!({"metadata": {"managedFields": claimed, "resourceVersion": version}});
        let api = reference.api(self.client.clone());
        let params = PatchParams { field_manager: Some(self.owner.manager.into()), ..PatchParams::default() };
        api.patch(&reference.name, &params, &Patch::Merge(patch))
            .await
            .map(Some)
            .map_err(|source| Error::ApplyFailed { object: Box::new(reference.clone()), source: Box::new(source) })
    }
}

/// Whether the API refuses an object because two items of a list have the same name.
fn is_duplicate(error: &Error) -> bool {
    let Error::ApplyFailed { source, .. } = error else { return false };
    matches!(&**source, kube::Error::Api(status) if status.code == 422 && status.message.contains("Duplicate value"))
}

/// The managed fields with all of a manager's in its entry for applies; none if they are.
fn claimed(entries: &[ManagedFieldsEntry], manager: &str) -> Option<Vec<ManagedFieldsEntry>> {
    let is_ours = |entry: &ManagedFieldsEntry| entry.manager.as_deref() == Some(manager) && entry.subresource.is_none();
    let updates = |entry: &ManagedFieldsEntry| is_ours(entry) && entry.operation.as_deref() == Some("Update");
    let update = entries.iter().find(|entry| updates(entry))?;
    let mut ours = ManagedFieldsEntry { operation: Some("Apply".into()), ..update.clone() };
    for entry in entries.iter().filter(|entry| is_ours(entry)) {
        let mut fields = ours.fields_v1.take().map(|fields| fields.0).unwrap_or_default();
        unite(&mut fields, entry.fields_v1.as_ref().map_or(&Value::Null, |fields| &fields.0));
        ours.fields_v1 = Some(FieldsV1(fields));
    }
    Some(entries.iter().filter(|entry| !is_ours(entry)).cloned().chain([ours]).collect())
}

fn unite(fields: &mut Value, others: &Value) {
    if let (Some(fields), Some(others)) = (fields.as_object_mut(), others.as_object()) {
        for (name, other) in others {
            unite(fields.entry(name).or_insert_with(|| json!({})), other);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(manager: &str, operation: &str, fields: &Value) -> ManagedFieldsEntry {
        let entry = json!({"manager": manager, "operation": operation, "fieldsType": "FieldsV1", "fieldsV1": fields});
        serde_json::from_value(entry).unwrap()
    }

    #[test]
    fn what_was_written_by_a_create_belongs_to_the_applies_of_the_same_manager() {
        let mole = entry("mole", "Update", &json!({"f:data": {"f:0": {}}}));
        let applied = entry("gardener", "Apply", &json!({"f:data": {"f:1": {}}}));
        let created = entry("gardener", "Update", &json!({"f:data": {"f:0": {}}, "f:type": {}}));
        let all = json!({"f:data": {"f:0": {}, "f:1": {}}, "f:type": {}});
        let claimed = |entries: &[ManagedFieldsEntry]| claimed(entries, "gardener");
        assert_eq!(claimed(&[mole.clone(), applied.clone()]), None);
        assert_eq!(claimed(&[applied, mole.clone(), created]), Some(vec![mole, entry("gardener", "Apply", &all)]));
    }
}
