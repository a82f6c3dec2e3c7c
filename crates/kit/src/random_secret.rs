//! Secrets whose values are generated once and never again: random passwords. One that is lost is generated
//! again unless a plan says that something has begun with the old values; see [`Child::irreplaceable`].
//!
//! Such a Secret is used as it is found, whatever created it, so that values can also be provided. Only one that was made
//! for the same owner, or for one of the same name before it, is ever touched again, and then only its labels and its owner.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use kube::core::ObjectMeta;
use rand::distr::{Alphanumeric, SampleString};
use serde_json::json;

use crate::apply::Executor;
use crate::error::Error;
use crate::hash;
use crate::object::{Ref, is_not_found};
use crate::plan::Child;
use crate::wait::Wait;

/// How long a password is: 32 letters and digits hold 190 bits.
pub const PASSWORD_LENGTH: usize = 32;

/// A Secret with `fixed` values, and a random one under each of `keys`.
pub fn child(namespace: &str, name: &str, fixed: &[(&str, &str)], keys: &[&str]) -> Child {
    let bytes = |value: &str| ByteString(value.as_bytes().to_vec());
    let data: BTreeMap<String, ByteString> =
        fixed.iter().map(|(key, value)| ((*key).to_owned(), bytes(value))).collect();
    let metadata =
        ObjectMeta { name: Some(name.to_owned()), namespace: Some(namespace.to_owned()), ..ObjectMeta::default() };
    let secret = Secret { metadata, data: Some(data), type_: Some("Opaque".into()), ..Secret::default() };
    let random_keys = keys.iter().map(|key| ((*key).to_owned(), PASSWORD_LENGTH)).collect();
    Child { random_keys, ..Child::new(&secret) }
}

impl Executor<'_> {
    /// Creates a Secret that does not exist. Of one that exists it is only asked that it has the keys.
    pub(crate) async fn ensure_random_secret(&self, child: &Child) -> Result<Option<Wait>, Error> {
        let (reference, owner) = (child.reference(), &self.owner.reference);
        let labels = self.labels(child);
        let asked = json!({"object": labels, "keys": child.random_keys.keys().collect::<Vec<_>>()});
        let intent = hash::of_json(&asked);
        let known = self.existing.iter().find(|(ours, _)| *ours == reference).zip(self.apply_cache);
        if known.is_some_and(|((_, meta), cache)| cache.unchanged(owner, &reference, &intent, meta).is_some()) {
            return Ok(None);
        }
        let found = match reference.api(self.client.clone()).get(&reference.name).await {
            Ok(found) => Some(found),
            Err(error) if is_not_found(&error) => None,
            Err(source) => return Err(Error::ReadFailed { object: Box::new(reference), source: Box::new(source) }),
        };
        let Some(found) = found else {
            if let Some(lost) = &child.lost {
                return Ok(Some(lost.clone()));
            }
            self.generate(child, &reference).await?;
            return Ok(None);
        };
        let missing = child.random_keys.keys().find(|key| found.data["data"].get(key.as_str()).is_none());
        if let (Some(_), Some(lost)) = (missing, &child.lost) {
            return Ok(Some(lost.clone()));
        }
        if let Some(key) = missing {
            let wait = Wait::on(&reference).condition(format!("has the key {key}")).now(format!("has no key {key}"));
            return Ok(Some(wait.look_at("add the key, or delete the Secret").failed("KeyMissing")));
        }
        let is_right = self.owner.is_marked(&found.metadata, child.is_kept()) && has_labels(&found, &labels);
        let found = if is_right || !self.owner.created(&found.metadata) {
            found
        } else {
            self.adopt(&labels, &reference).await?
        };
        if let Some(cache) = self.apply_cache {
            cache.applied(owner, &reference, &intent, found);
        }
        Ok(None)
    }

    /// The owner reference is left to [`Self::adopt`]: what is written here belongs to another entry of the managed fields,
    /// and could not be taken back by an apply.
    async fn generate(&self, child: &Child, reference: &Ref) -> Result<(), Error> {
        let mut object = child.object.clone();
        self.owner.mark(&mut object, true);
        for (key, length) in &child.random_keys {
            let value = Alphanumeric.sample_string(&mut rand::rng(), *length);
            object.data["data"][key] = json!(ByteString(value.into_bytes()));
        }
        let params = PostParams { field_manager: Some(self.owner.manager.into()), ..PostParams::default() };
        match reference.api(self.client.clone()).create(&params, &object).await {
            Ok(_) => self.adopt(&self.labels(child), reference).await.map(drop),
            // Another client created it first; the next reconcile reads it.
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
            Err(source) => Err(Error::ApplyFailed { object: Box::new(reference.clone()), source: Box::new(source) }),
        }
    }

    /// The Secret with its labels and its owner, and without values.
    fn labels(&self, child: &Child) -> DynamicObject {
        let mut object = child.object.clone();
        object.data = json!({});
        self.owner.mark(&mut object, child.is_kept());
        object
    }

    /// Writes labels and owner, and no values.
    async fn adopt(&self, labels: &DynamicObject, reference: &Ref) -> Result<DynamicObject, Error> {
        let params = PatchParams::apply(self.owner.manager).force();
        let patch: Patch<&_> = Patch::Apply(labels);
        let patched = reference.api(self.client.clone()).patch(&reference.name, &params, &patch).await;
        patched.map_err(|source| Error::ApplyFailed { object: Box::new(reference.clone()), source: Box::new(source) })
    }
}

/// Whether an object has all labels and annotations of another.
fn has_labels(found: &DynamicObject, wanted: &DynamicObject) -> bool {
    let holds = |found: &Option<BTreeMap<String, String>>, wanted: &Option<BTreeMap<String, String>>| {
        wanted.iter().flatten().all(|(key, value)| found.as_ref().and_then(|found| found.get(key)) == Some(value))
    };
    let (found, wanted) = (&found.metadata, &wanted.metadata);
    holds(&found.labels, &wanted.labels) && holds(&found.annotations, &wanted.annotations)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_values_are_in_no_plan() {
        let child = child("orchard", "gate", &[("username", "keeper")], &["password"]);
        assert_eq!(child.object.data["data"], json!({"username": "a2VlcGVy"}));
        let shown = serde_json::to_value(child.redacted()).unwrap();
        assert_eq!(shown["data"]["password"], "<32 random characters, made once>");
    }
}
