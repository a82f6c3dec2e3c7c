//! Finalizers, with a way out: what garbage collection does not reach is deleted, waited for, and after a time named
//! and let go.

use std::time::Duration;

use jiff::Timestamp;
use kube::Client;
use kube::api::{DynamicObject, Patch, PatchParams};
use serde_json::json;

use crate::apply::Executor;
use crate::controller::Cleanup;
use crate::error::Error;
use crate::object::{Ref, is_not_found};
use crate::wait::Wait;

/// Set to `true` on an object that is being deleted, it lets the object go at once, and what it leaves is named.
pub const SKIP: &str = "c5c3.io/skip-cleanup";

/// Whether the object has the finalizer.
pub fn has(object: &DynamicObject, finalizer: &str) -> bool {
    object.metadata.finalizers.iter().flatten().any(|held| held == finalizer)
}

/// Puts the finalizer on the object.
pub async fn add(client: &Client, object: &DynamicObject, about: &Ref, finalizer: &str) -> Result<(), Error> {
    let mut finalizers = object.metadata.finalizers.clone().unwrap_or_default();
    finalizers.push(finalizer.to_owned());
    set(client, object, about, &finalizers).await
}

/// Takes the finalizer off the object.
pub async fn remove(client: &Client, object: &DynamicObject, about: &Ref, finalizer: &str) -> Result<(), Error> {
    let mut finalizers = object.metadata.finalizers.clone().unwrap_or_default();
    finalizers.retain(|held| held != finalizer);
    set(client, object, about, &finalizers).await
}

/// A merge patch replaces the whole list, so it carries the resource version: if someone else changed the list, the API
/// refuses and the reconcile starts over with the new one.
async fn set(client: &Client, object: &DynamicObject, about: &Ref, finalizers: &[String]) -> Result<(), Error> {
    let patch = json!({"metadata": {"finalizers": finalizers, "resourceVersion": object.metadata.resource_version}});
    match about.api(client.clone()).patch(&about.name, &PatchParams::default(), &Patch::Merge(patch)).await {
        Ok(_) => Ok(()),
        Err(error) if is_not_found(&error) => Ok(()),
        Err(source) => Err(Error::FinalizerFailed { object: Box::new(about.clone()), source: Box::new(source) }),
    }
}

/// How far a cleanup is.
#[derive(Debug)]
pub enum Progress {
    /// Nothing is left.
    Done,
    /// These are still there.
    Waiting(Vec<Wait>, Duration),
    /// These are still there, and are left behind.
    GaveUp(Vec<Ref>),
}

/// Deletes what must go before the object may go.
pub async fn clean_up(executor: &Executor<'_>, object: &DynamicObject, cleanup: &Cleanup) -> Result<Progress, Error> {
    let mut left = Vec::new();
    for (reference, meta) in executor.existing {
        // Children in the object's namespace go with it; those elsewhere have no owner reference to follow.
        if !executor.owner.collects(meta) {
            if meta.deletion_timestamp.is_none() {
                executor.delete(reference, meta).await?;
            }
            left.push(reference.clone());
        }
    }
    for reference in &cleanup.delete {
        if executor.exists(reference).await? {
            executor.delete(reference, &kube::core::ObjectMeta::default()).await?;
            left.push(reference.clone());
        }
    }
    let mut gone = Vec::new();
    for reference in &left {
        if !executor.exists(reference).await? {
            gone.push(reference.clone());
        }
    }
    left.retain(|reference| !gone.contains(reference));
    if left.is_empty() {
        return Ok(Progress::Done);
    }
    let asked = object.metadata.annotations.iter().flatten().any(|(key, value)| key == SKIP && value == "true");
    let deadline = cleanup.patience.saturating_sub(age(object, executor.now));
    if asked || deadline.is_zero() {
        return Ok(Progress::GaveUp(left));
    }
    let waits = left.iter().map(|reference| {
        Wait::on(reference)
            .condition("is gone")
            .because("it is in another namespace, where garbage collection does not reach it")
            .look_at(format!("to leave it behind: annotate the object with {SKIP}=true"))
    });
    Ok(Progress::Waiting(waits.collect(), deadline))
}

fn age(object: &DynamicObject, now: Timestamp) -> Duration {
    let since = object.metadata.deletion_timestamp.as_ref().map_or(now, |time| time.0);
    Duration::try_from(now.duration_since(since)).unwrap_or_default()
}
