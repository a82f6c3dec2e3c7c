//! Finalizers, with a way out: what garbage collection does not reach is deleted, waited for, and after a time named
//! and let go. Nothing that fails on the way can hold an object longer than that.

use std::time::Duration;

use jiff::Timestamp;
use kube::Client;
use kube::api::{DynamicObject, ListParams, Patch, PatchParams};
use kube::core::ObjectMeta;
use serde_json::json;

use crate::apply::Executor;
use crate::error::Error;
use crate::object::{KindRef, Ref, is_not_found};
use crate::ownership::OWNER_UID;
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
    /// These are still there, and this long is waited for them.
    Waiting(Vec<Wait>, Duration),
    /// Patience is at its end. This is what is left behind, as far as is known.
    GaveUp(Vec<String>),
}

/// Deletes what must go before the object may go: its children in other namespaces. They are listed anew, because the
/// watches may not have heard of the youngest, and after a restart of none. An operator that looks after one `namespace`
/// has none elsewhere.
pub async fn clean_up(
    executor: &Executor<'_>,
    object: &DynamicObject,
    kinds: &[KindRef],
    namespace: Option<&str>,
    patience: Duration,
) -> Result<Progress, Error> {
    let asked = object.metadata.annotations.iter().flatten().any(|(key, value)| key == SKIP && value == "true");
    let left = patience.saturating_sub(age(object, executor.now));
    let found = delete_all(executor, kinds, namespace).await;
    match found {
        Ok(found) if found.is_empty() => Ok(Progress::Done),
        Ok(found) if asked || left.is_zero() => Ok(Progress::GaveUp(found.iter().map(ToString::to_string).collect())),
        Ok(found) => Ok(Progress::Waiting(found.iter().map(waiting).collect(), left)),
        Err(error) if asked || left.is_zero() => {
            Ok(Progress::GaveUp(vec![format!("what could not be looked up ({error})")]))
        }
        Err(error) => Err(error),
    }
}

fn waiting(reference: &Ref) -> Wait {
    Wait::on(reference)
        .condition("is gone")
        .because("it is in another namespace, where garbage collection does not reach it")
        .look_at(format!("to leave it behind: annotate the object with {SKIP}=true"))
}

/// Deletes the children in other namespaces, and says which are still there.
async fn delete_all(executor: &Executor<'_>, kinds: &[KindRef], namespace: Option<&str>) -> Result<Vec<Ref>, Error> {
    let mut left = Vec::new();
    for (reference, meta) in far_children(executor, kinds, namespace).await? {
        if meta.deletion_timestamp.is_none() {
            executor.delete(&reference, &meta).await?;
        }
        if executor.exists(&reference).await? {
            left.push(reference);
        }
    }
    Ok(left)
}

async fn far_children(
    executor: &Executor<'_>,
    kinds: &[KindRef],
    namespace: Option<&str>,
) -> Result<Vec<(Ref, ObjectMeta)>, Error> {
    let mut children = Vec::new();
    for kind in kinds {
        let params = ListParams::default().labels(&format!("{OWNER_UID}={}", executor.owner.uid));
        let listed = kind.metadata_api(executor.client.clone(), namespace).list(&params).await;
        let listed = match listed {
            Ok(listed) => listed.items,
            Err(error) if is_not_found(&error) => continue,
            Err(source) => {
                let object = Ref { resource: kind.resource.clone(), namespace: None, name: String::new() };
                return Err(Error::ReadFailed { object: Box::new(object), source: Box::new(source) });
            }
        };
        let ours = listed.into_iter().map(|child| child.metadata).filter(|meta| executor.owner.owns(meta));
        let far = ours.filter(|meta| !executor.owner.collects(meta));
        children.extend(far.map(|meta| (Ref::of(&kind.resource, &meta), meta)));
    }
    Ok(children)
}

fn age(object: &DynamicObject, now: Timestamp) -> Duration {
    let since = object.metadata.deletion_timestamp.as_ref().map_or(now, |time| time.0);
    Duration::try_from(now.duration_since(since)).unwrap_or_default()
}
