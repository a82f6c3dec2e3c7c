//! Finalizers on what objects refer to, so that it is not deleted while they need it.

use std::collections::HashSet;

use kube::api::{DynamicObject, ListParams};

use crate::controller::Controller;
use crate::error::Error;
use crate::finalizer;
use crate::inputs::Inputs;
use crate::object::{Ref, condition, is_not_found};
use crate::reconcile::Reconcile;

impl<C: Controller> Reconcile<'_, C> {
    /// Puts the controller's finalizer on what the object refers to. What is being deleted already, and what never became
    /// available, stays deletable.
    pub(crate) async fn guard(&self, inputs: &Inputs<C::Kind>) -> Result<(), Error> {
        let Some(finalizer) = C::FINALIZER else { return Ok(()) };
        for guarded in self.context.controller.guards(&inputs.object) {
            let Some(found) = inputs.get(&guarded) else { continue };
            let is_terminating = found.metadata.deletion_timestamp.is_some();
            if is_terminating || finalizer::has(found, finalizer) || !is_available(found) {
                continue;
            }
            match finalizer::add(&self.context.client, found, &guarded, finalizer).await {
                // Another object has changed it. Its watch tells, and this is tried again then.
                Err(Error::FinalizerFailed { source, .. }) if is_conflict(&source) => {}
                other => other?,
            }
        }
        Ok(())
    }

    /// Removes the finalizer from what no other object of this kind refers to, and then from the object itself. Objects go one
    /// after the other: of two that go at once, each would leave it to the other one.
    pub(crate) async fn release(&self, finalizer: &str) -> Result<(), Error> {
        let _turn = self.context.releasing.lock().await;
        let value = serde_json::to_value(self.object).unwrap_or_default();
        let own = serde_json::from_value::<C::Kind>(value).ok().or_else(|| self.last_valid());
        let guarded = own.map(|own| self.context.controller.guards(&own)).unwrap_or_default();
        if !guarded.is_empty() {
            let others = self.guarded_by_others().await?;
            for reference in guarded.iter().filter(|reference| !others.contains(reference)) {
                match reference.api(self.context.client.clone()).get(&reference.name).await {
                    Ok(found) if finalizer::has(&found, finalizer) => {
                        finalizer::remove(&self.context.client, &found, reference, finalizer).await?;
                    }
                    Ok(_) => {}
                    Err(error) if is_not_found(&error) => {}
                    Err(source) => {
                        return Err(Error::ReadFailed {
                            object: Box::new(reference.clone()),
                            source: Box::new(source),
                        });
                    }
                }
            }
        }
        finalizer::remove(&self.context.client, self.object, self.about, finalizer).await
    }

    async fn guarded_by_others(&self) -> Result<HashSet<Ref>, Error> {
        let listed = self.about.api(self.context.client.clone()).list(&ListParams::default()).await;
        let listed = listed
            .map_err(|source| Error::ReadFailed { object: Box::new(self.about.clone()), source: Box::new(source) })?;
        let others = listed.items.into_iter().filter(|other| other.metadata.uid != self.object.metadata.uid);
        let parsed = others.filter_map(|other| {
            let name = other.metadata.name.clone();
            let parsed =
                serde_json::to_value(other).ok().and_then(|value| serde_json::from_value::<C::Kind>(value).ok());
            if parsed.is_none() {
                tracing::warn!(name, "an object that does not parse guards nothing");
            }
            parsed
        });
        Ok(parsed.flat_map(|other| self.context.controller.guards(&other)).collect())
    }
}

/// Whether an object can be used: it says so, or has no conditions at all, as a Secret.
fn is_available(object: &DynamicObject) -> bool {
    let has_status = object.data.get("status").is_some();
    let is_true = |kind: &str| condition(object, kind).is_some_and(|found| found["status"] == "True");
    let is_secret = object.types.as_ref().is_some_and(|types| types.kind == "Secret");
    is_secret || (has_status && (is_true("Available") || is_true("Ready")))
}

fn is_conflict(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 409)
}
