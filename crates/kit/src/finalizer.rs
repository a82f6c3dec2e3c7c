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

/// Kubernetes' own finalizer, which an object has that goes and is to leave what it owns: `kubectl delete --cascade=orphan`.
pub const ORPHAN: &str = "orphan";

/// Whether the object has the finalizer.
pub fn has(object: &DynamicObject, finalizer: &str) -> bool {
    object.metadata.finalizers.iter().flatten().any(|held| held == finalizer)
}

/// Whether someone asks to let the object go at once.
pub fn is_skipped(object: &DynamicObject) -> bool {
    object.metadata.annotations.iter().flatten().any(|(key, value)| key == SKIP && value == "true")
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

/// What must go before the object may go.
pub struct Cleanup<'a> {
    /// The kinds of all children.
    pub kinds: &'a [KindRef],
    /// The kinds whose objects go one after the other.
    pub waves: &'a [Vec<KindRef>],
    /// The one namespace that the operator looks after: it has no children elsewhere.
    pub namespace: Option<&'a str>,
    /// How long is waited.
    pub patience: Duration,
}

impl Cleanup<'_> {
    /// Deletes what must go: children in waves, then those in other namespaces. They are listed anew, because the watches may
    /// not have heard of the youngest, and after a restart of none.
    pub async fn run(&self, executor: &Executor<'_>, object: &DynamicObject) -> Result<Progress, Error> {
        let asked = is_skipped(object);
        let left = self.patience.saturating_sub(age(object, executor.now));
        match self.delete(executor).await {
            Ok(found) if found.is_empty() => Ok(Progress::Done),
            Ok(found) if asked || left.is_zero() => {
                Ok(Progress::GaveUp(found.iter().map(|wait| wait.object.to_string()).collect()))
            }
            Ok(found) => Ok(Progress::Waiting(found, left)),
            Err(error) if asked || left.is_zero() => {
                Ok(Progress::GaveUp(vec![format!("what could not be looked up ({error})")]))
            }
            Err(error) => Err(error),
        }
    }

    /// Deletes as much as may be deleted now, and says what is still there.
    async fn delete(&self, executor: &Executor<'_>) -> Result<Vec<Wait>, Error> {
        let all = |_: &ObjectMeta| true;
        for wave in self.waves {
            let left = self.delete_kinds(executor, wave, all, "what it stands on goes after it").await?;
            if !left.is_empty() {
                return Ok(left);
            }
        }
        let far = |meta: &ObjectMeta| !executor.owner.collects(meta);
        let because = "it is in another namespace, where garbage collection does not reach it";
        self.delete_kinds(executor, self.kinds, far, because).await
    }

    async fn delete_kinds(
        &self,
        executor: &Executor<'_>,
        kinds: &[KindRef],
        concerned: impl Fn(&ObjectMeta) -> bool,
        because: &str,
    ) -> Result<Vec<Wait>, Error> {
        let mut left = Vec::new();
        for kind in kinds {
            for meta in self.children(executor, kind).await?.into_iter().filter(&concerned) {
                let reference = Ref::of(&kind.resource, &meta);
                if meta.deletion_timestamp.is_none() {
                    // Pods that are still being ended would miss what goes next.
                    executor.delete_whole(&reference, &meta).await?;
                }
                if executor.exists(&reference).await? {
                    left.push(waiting(&reference, because));
                }
            }
        }
        Ok(left)
    }

    /// The children of a kind.
    async fn children(&self, executor: &Executor<'_>, kind: &KindRef) -> Result<Vec<ObjectMeta>, Error> {
        let params = ListParams::default().labels(&format!("{OWNER_UID}={}", executor.owner.uid));
        match kind.metadata_api(executor.client.clone(), self.namespace).list(&params).await {
            Ok(listed) => {
                let all = listed.items.into_iter().map(|child| child.metadata);
                Ok(all.filter(|meta| executor.owner.owns(meta)).collect())
            }
            Err(error) if is_not_found(&error) => Ok(Vec::new()),
            Err(source) => {
                let object = Ref { resource: kind.resource.clone(), namespace: None, name: String::new() };
                Err(Error::ReadFailed { object: Box::new(object), source: Box::new(source) })
            }
        }
    }
}

fn waiting(reference: &Ref, because: &str) -> Wait {
    Wait::on(reference)
        .condition("is gone")
        .because(because)
        .look_at(format!("to leave it behind: annotate the object with {SKIP}=true"))
}

fn age(object: &DynamicObject, now: Timestamp) -> Duration {
    let since = object.metadata.deletion_timestamp.as_ref().map_or(now, |time| time.0);
    Duration::try_from(now.duration_since(since)).unwrap_or_default()
}
