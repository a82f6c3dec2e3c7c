//! Secrets whose values are made up once and never again: passwords that nobody chooses. One that is lost is made anew
//! unless a plan says that something has begun with the old values; see [`Child::irreplaceable`].
//!
//! Such a Secret is used as it is found, whoever made it, so that values can also be brought along. Only one that was made
//! for the same owner, or for one of the same name before it, is ever touched again, and then only its labels and its owner.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Patch, PatchParams, PostParams};
use kube::core::ObjectMeta;
use rand::distr::{Alphanumeric, SampleString};
use serde_json::json;

use crate::apply::Executor;
use crate::error::Error;
use crate::object::{Ref, is_not_found};
use crate::plan::Child;
use crate::wait::Wait;

/// How long a password is: 32 letters and digits hold 190 bits.
pub const PASSWORD_LENGTH: usize = 32;

/// A Secret with `fixed` values, and a random one under each of `keys`.
pub fn secret(namespace: &str, name: &str, fixed: &[(&str, &str)], keys: &[&str]) -> Child {
    let bytes = |value: &str| ByteString(value.as_bytes().to_vec());
    let data: BTreeMap<String, ByteString> =
        fixed.iter().map(|(key, value)| ((*key).to_owned(), bytes(value))).collect();
    let metadata =
        ObjectMeta { name: Some(name.to_owned()), namespace: Some(namespace.to_owned()), ..ObjectMeta::default() };
    let secret = Secret { metadata, data: Some(data), type_: Some("Opaque".into()), ..Secret::default() };
    let generated = keys.iter().map(|key| ((*key).to_owned(), PASSWORD_LENGTH)).collect();
    Child { generated, ..Child::new(&secret) }
}

impl Executor<'_> {
    /// Makes a Secret that is not there. Of one that is there it is only asked that it has the keys.
    pub(crate) async fn generated(&self, child: &Child) -> Result<Option<Wait>, Error> {
        let reference = child.reference();
        let found = match reference.api(self.client.clone()).get(&reference.name).await {
            Ok(found) => Some(found),
            Err(error) if is_not_found(&error) => None,
            Err(source) => return Err(Error::ReadFailed { object: Box::new(reference), source: Box::new(source) }),
        };
        let Some(found) = found else {
            if let Some(lost) = &child.lost {
                return Ok(Some(lost.clone()));
            }
            self.create(child, &reference).await?;
            return Ok(None);
        };
        let missing = child.generated.keys().find(|key| found.data["data"].get(key.as_str()).is_none());
        if let (Some(_), Some(lost)) = (missing, &child.lost) {
            return Ok(Some(lost.clone()));
        }
        if let Some(key) = missing {
            let has = format!("has the key {key}");
            let wait =
                Wait::on(&reference).condition(has).now("it has not").look_at("add the key, or delete the Secret");
            return Ok(Some(wait.failed("KeyMissing")));
        }
        if self.owner.has_made(&found.metadata) {
            self.adopt(child, &reference).await?;
        }
        Ok(None)
    }

    /// The owner reference is left to [`Self::adopt`]: what is written here belongs to another entry of the managed fields,
    /// and could not be taken back by an apply.
    async fn create(&self, child: &Child, reference: &Ref) -> Result<(), Error> {
        let mut object = child.object.clone();
        self.owner.mark(&mut object, true);
        for (key, length) in &child.generated {
            let value = Alphanumeric.sample_string(&mut rand::rng(), *length);
            object.data["data"][key] = json!(ByteString(value.into_bytes()));
        }
        let params = PostParams { field_manager: Some(self.owner.manager.into()), ..PostParams::default() };
        match reference.api(self.client.clone()).create(&params, &object).await {
            Ok(_) => self.adopt(child, reference).await,
            // Someone was faster; the next reconcile sees what is there.
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
            Err(source) => Err(Error::ApplyFailed { object: Box::new(reference.clone()), source: Box::new(source) }),
        }
    }

    /// Writes labels and owner, and no values.
    async fn adopt(&self, child: &Child, reference: &Ref) -> Result<(), Error> {
        let mut object = child.object.clone();
        object.data = json!({});
        self.owner.mark(&mut object, child.is_kept());
        let params = PatchParams::apply(self.owner.manager).force();
        let patch: Patch<&_> = Patch::Apply(&object);
        match reference.api(self.client.clone()).patch(&reference.name, &params, &patch).await {
            Ok(_) => Ok(()),
            Err(source) => Err(Error::ApplyFailed { object: Box::new(reference.clone()), source: Box::new(source) }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_values_are_in_no_plan() {
        let child = secret("orchard", "gate", &[("username", "keeper")], &["password"]);
        assert_eq!(child.object.data["data"], json!({"username": "a2VlcGVy"}));
        let shown = serde_json::to_value(child.redacted()).unwrap();
        assert_eq!(shown["data"]["password"], "<32 random characters, made once>");
    }
}
