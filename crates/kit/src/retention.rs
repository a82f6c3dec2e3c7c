//! What decides whether data outlives its owner: owner references of Secrets, and fields of objects that other operators act
//! on.
//!
//! It is applied apart from plans, to existing objects, and before anything is deleted: a user who asks for data to be
//! retained and deletes the object in the next moment keeps the data, whatever else is wrong or waited for.

use kube::api::{DynamicObject, Patch, PatchParams};
use kube::core::ObjectMeta;
use serde_json::{Value, json};

use crate::apply::Executor;
use crate::error::Error;
use crate::object::{Ref, is_not_found};
use crate::ownership::{OWNER_UID, label};
use crate::wait::Wait;

/// A child, and what it must be like for its data to stay or go as its owner says.
#[derive(Clone, Debug)]
pub struct Retained {
    /// The child.
    pub object: Ref,
    /// Whether it stays itself when its owner goes, if that is chosen; see [`crate::Child::kept`].
    pub kept: Option<bool>,
    /// The fields that decide about data, as a merge patch: null for one that must not be there.
    pub fields: Value,
    /// What others make of that: until it is so, the child must not go.
    pub confirmations: Vec<Confirmation>,
}

/// Something that another operator or controller brings to what a child says.
#[derive(Clone, Debug)]
pub struct Confirmation {
    /// The object that shows it. One that is not there shows nothing that could go.
    pub object: Ref,
    /// A place in the object, and the value there that means that data would go.
    pub unwanted: (&'static str, Value),
    /// What to say meanwhile.
    pub wait: Wait,
}

impl Retained {
    /// A child that decides about nothing yet.
    pub fn new(object: Ref) -> Self {
        Self { object, kept: None, fields: json!({}), confirmations: Vec::new() }
    }

    /// Leaves the child there when its owner goes, or not.
    pub fn kept(self, kept: bool) -> Self {
        Self { kept: Some(kept), ..self }
    }

    /// Sets the fields that decide about data.
    pub fn fields(self, fields: Value) -> Self {
        Self { fields, ..self }
    }

    /// Whether a child that goes with its owner may have to change: if it is to go and nothing else decides about data, not.
    pub(crate) fn may_differ(&self) -> bool {
        self.kept != Some(false) || self.fields != json!({})
    }

    /// Holds the child until this has followed.
    pub fn confirmed_by(mut self, confirmation: Confirmation) -> Self {
        self.confirmations.push(confirmation);
        self
    }
}

impl Executor<'_> {
    /// Brings children that are there to what decides about their data, and says what the API refuses of it.
    pub(crate) async fn retain<'r>(
        &self,
        retained: impl IntoIterator<Item = &'r Retained>,
    ) -> Result<Vec<Wait>, Error> {
        let mut refused = Vec::new();
        for one in retained {
            let Some(live) = self.live_child(&one.object).await? else { continue };
            let Some(patch) = self.change(one, &live) else { continue };
            let params = PatchParams { field_manager: Some(self.owner.manager.into()), ..PatchParams::default() };
            tracing::info!(child = %one.object, "updating the deletion policy of its data");
            match one.object.api(self.client.clone()).patch(&one.object.name, &params, &Patch::Merge(patch)).await {
                Ok(_) => {}
                Err(error) if is_not_found(&error) => {}
                Err(source) => {
                    let object = Box::new(one.object.clone());
                    refused.push(Error::ApplyFailed { object, source: Box::new(source) }.refused()?);
                }
            }
        }
        Ok(refused)
    }

    /// What has not followed yet, so that data would be lost, or left, if the child went now.
    pub(crate) async fn unconfirmed(&self, retained: &Retained) -> Result<Vec<Wait>, Error> {
        let mut waits = Vec::new();
        let Some(live) = self.live_child(&retained.object).await? else { return Ok(waits) };
        if self.change(retained, &live).is_some() {
            waits.push(Wait::on(&retained.object).condition("has the deletion policy of its owner"));
        }
        for confirmation in &retained.confirmations {
            let Some(shown) = self.read(&confirmation.object).await? else { continue };
            let (place, unwanted) = &confirmation.unwanted;
            let value = serde_json::to_value(&shown).unwrap_or_default();
            let observed = shown.data.pointer("/status/observedGeneration").and_then(Value::as_i64);
            let is_behind = observed.zip(shown.metadata.generation).is_some_and(|(seen, asked)| seen < asked);
            if value.pointer(place) == Some(unwanted) || is_behind {
                waits.push(confirmation.wait.clone());
            }
        }
        Ok(waits)
    }

    /// A child of ours as it is; none if it is not there, or going already.
    async fn live_child(&self, reference: &Ref) -> Result<Option<DynamicObject>, Error> {
        let found = self.read(reference).await?;
        let is_ours = |meta: &ObjectMeta| self.owner.created(meta) && label(meta, OWNER_UID) == Some(&self.owner.uid);
        Ok(found.filter(|found| found.metadata.deletion_timestamp.is_none() && is_ours(&found.metadata)))
    }

    pub(crate) async fn read(&self, reference: &Ref) -> Result<Option<DynamicObject>, Error> {
        match reference.api(self.client.clone()).get(&reference.name).await {
            Ok(found) => Ok(Some(found)),
            Err(error) if is_not_found(&error) => Ok(None),
            Err(source) => Err(Error::ReadFailed { object: Box::new(reference.clone()), source: Box::new(source) }),
        }
    }

    /// The patch that a child needs, for just this version of it. It is a merge, since an apply would take back all fields
    /// of ours that it does not name, and would make a child that has gone.
    fn change(&self, retained: &Retained, live: &DynamicObject) -> Option<Value> {
        let meta = &live.metadata;
        let mut patch = if holds(&live.data, &retained.fields) { json!({}) } else { retained.fields.clone() };
        let owners = meta.owner_references.clone().unwrap_or_default();
        let is_owned = owners.iter().any(|owner| owner.uid == self.owner.uid);
        if self.owner.garbage_collects(meta) && retained.kept.is_some_and(|kept| kept == is_owned) {
            let mut owners: Vec<_> = owners.into_iter().filter(|owner| owner.uid != self.owner.uid).collect();
            owners.extend((!is_owned).then(|| self.owner.as_controller()));
            patch["metadata"]["ownerReferences"] = json!(owners);
        }
        if patch == json!({}) {
            return None;
        }
        patch["metadata"]["resourceVersion"] = json!(meta.resource_version);
        patch["metadata"]["uid"] = json!(meta.uid);
        Some(patch)
    }
}

/// Whether a merge patch would change nothing.
fn holds(live: &Value, patch: &Value) -> bool {
    match patch {
        Value::Object(fields) => {
            fields.iter().all(|(name, field)| holds(live.get(name).unwrap_or(&Value::Null), field))
        }
        other => live == other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_patch_that_would_change_nothing_is_told_from_one_that_would() {
        let live = json!({"spec": {"policy": "Retain", "size": 1}});
        assert!(holds(&live, &json!({"spec": {"policy": "Retain"}})));
        assert!(holds(&live, &json!({"spec": {"volumes": {"whenDeleted": null}}})));
        assert!(!holds(&live, &json!({"spec": {"policy": null}})));
        assert!(!holds(&live, &json!({"spec": {"volumes": {"whenDeleted": "Delete"}}})));
    }
}
