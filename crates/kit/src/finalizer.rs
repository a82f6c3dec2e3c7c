//! Finalizers that can always be released: what garbage collection does not reach is deleted and waited for. After a time
//! the finalizer is removed and the remaining objects are named. No failure on the way can hold an object longer than that.

use std::time::Duration;

use jiff::Timestamp;
use kube::Client;
use kube::api::{DynamicObject, ListParams, Patch, PatchParams};
use kube::core::ObjectMeta;
use serde_json::json;

use crate::apply::Executor;
use crate::error::Error;
use crate::object::{KindRef, Ref, is_not_found};
use crate::ownership::{OWNER_UID, TEARDOWN};
use crate::wait::Wait;

/// Set to `true` on an object that is being deleted, it releases the finalizer at once, and the remaining objects are named.
pub const SKIP_CLEANUP: &str = "c5c3.io/skip-cleanup";

/// Kubernetes' own finalizer, of an object that is deleted without its children: `kubectl delete --cascade=orphan`.
pub const ORPHAN: &str = "orphan";

/// Whether the object has the finalizer.
pub fn has(object: &DynamicObject, finalizer: &str) -> bool {
    object.metadata.finalizers.iter().flatten().any(|held| held == finalizer)
}

/// Whether the annotation asks to release the finalizer at once.
pub fn is_skipped(object: &DynamicObject) -> bool {
    object.metadata.annotations.iter().flatten().any(|(key, value)| key == SKIP_CLEANUP && value == "true")
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

/// A merge patch replaces the whole list, so it carries the resource version: if another client changed the list, the API
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
    /// Patience is at its end. This says what is left, as far as is known.
    GaveUp(String),
}

/// What a cleanup did not wait for any longer.
#[derive(Debug, Default)]
struct Abandoned {
    /// These Jobs ran longer than is waited for.
    interrupted: Vec<String>,
    /// Garbage collection deletes these once the object is gone.
    collected: Vec<String>,
    /// These stay: nothing deletes them.
    left: Vec<String>,
    /// Why the list may be incomplete.
    unknown: Vec<String>,
}

impl Abandoned {
    fn note(&self) -> Option<String> {
        let part = |what: &[String], says: &str| (!what.is_empty()).then(|| format!("{says}: {}", what.join(", ")));
        let parts = [
            part(&self.interrupted, "these Jobs were still running and are interrupted"),
            part(&self.left, "these objects are left behind; delete them by hand"),
            part(&self.unknown, "these could not be listed; look for remaining objects"),
            part(&self.collected, "garbage collection deletes these"),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        (!parts.is_empty()).then(|| parts.join("; "))
    }
}

/// Kinds of children that go together.
struct Wave<'a> {
    kinds: &'a [KindRef],
    /// The waves before and after it.
    before: &'a [Vec<KindRef>],
    after: &'a [Vec<KindRef>],
    /// Whether only those are meant that garbage collection does not reach.
    far: bool,
    because: &'static str,
}

impl Wave<'_> {
    /// Whether a child goes in this wave, and in no other of its kind.
    fn takes(&self, kind: &KindRef, child: &ObjectMeta) -> bool {
        let is_last = child.annotations.iter().flatten().any(|(key, value)| key == TEARDOWN && value == "last");
        let others = if is_last { self.after } else { self.before };
        !others.iter().any(|kinds| kinds.contains(kind))
    }
}

/// What must go before the object may go.
pub struct Cleanup<'a> {
    /// The kinds of children that may be in other namespaces.
    pub cross_namespace: &'a [KindRef],
    /// The kind of Jobs, if there may be some among the children. Those that run are waited for before anything is deleted:
    /// garbage collection would end a migration at any point.
    pub jobs: Option<KindRef>,
    /// The kinds whose objects go one after the other.
    pub waves: &'a [Vec<KindRef>],
    /// The one namespace that the operator looks after: it has no children elsewhere.
    pub namespace: Option<&'a str>,
    /// How long each wave is waited for.
    pub timeout: Duration,
}

impl Cleanup<'_> {
    /// Waits for running Jobs, then deletes what must go: children in waves, then those in other namespaces. They are listed from
    /// the API, because the watches may not have heard of the youngest, and after a restart of none. A wave has its time after
    /// that of the waves before it, so that one that is stuck takes nothing from the next.
    pub async fn run(&self, executor: &Executor<'_>, object: &DynamicObject) -> Result<Progress, Error> {
        let (is_skipped, age) = (is_skipped(object), age(object, executor.now));
        let mut abandoned = Abandoned::default();
        let mut deadline = Duration::ZERO;
        if let Some(jobs) = &self.jobs {
            deadline = deadline.saturating_add(self.timeout);
            let left = if is_skipped { Duration::ZERO } else { deadline.saturating_sub(age) };
            match self.running(executor, jobs).await {
                Ok(running) if !running.is_empty() && !left.is_zero() => {
                    return Ok(Progress::Waiting(running.iter().map(running_job).collect(), left));
                }
                Ok(running) => abandoned.interrupted.extend(running.iter().map(ToString::to_string)),
                Err(_) if left.is_zero() => {}
                Err(error) => return Err(error),
            }
        }
        for wave in self.in_order() {
            deadline = deadline.saturating_add(self.timeout);
            let left = if is_skipped { Duration::ZERO } else { deadline.saturating_sub(age) };
            match self.delete(executor, &wave).await {
                Ok(found) if !found.is_empty() && !left.is_zero() => {
                    let waits = found.iter().map(|(reference, _)| waiting(reference, wave.because)).collect();
                    return Ok(Progress::Waiting(waits, left));
                }
                Ok(found) => {
                    for (reference, meta) in found {
                        let is_collected = executor.owner.garbage_collects(&meta);
                        let list = if is_collected { &mut abandoned.collected } else { &mut abandoned.left };
                        list.push(reference.to_string());
                    }
                }
                Err(error) if left.is_zero() => abandoned.unknown.push(error.to_string()),
                Err(error) => return Err(error),
            }
        }
        Ok(abandoned.note().map_or(Progress::Done, Progress::GaveUp))
    }

    fn in_order(&self) -> impl Iterator<Item = Wave<'_>> {
        let waves = self.waves;
        let near = waves.iter().enumerate().map(move |(index, kinds)| Wave {
            kinds,
            before: &waves[..index],
            after: &waves[index + 1..],
            far: false,
            because: "what it depends on is deleted after it",
        });
        let because = "it is in another namespace, where garbage collection does not reach it";
        near.chain((!self.cross_namespace.is_empty()).then_some(Wave {
            kinds: self.cross_namespace,
            before: &[],
            after: &[],
            far: true,
            because,
        }))
    }

    /// Deletes the children of a wave, and says which of them are still there.
    async fn delete(&self, executor: &Executor<'_>, wave: &Wave<'_>) -> Result<Vec<(Ref, ObjectMeta)>, Error> {
        let mut left = Vec::new();
        for kind in wave.kinds {
            let children = self.children(executor, kind).await?;
            let is_its =
                |meta: &ObjectMeta| wave.takes(kind, meta) && !(wave.far && executor.owner.garbage_collects(meta));
            for meta in children.into_iter().filter(is_its) {
                let reference = Ref::of(&kind.resource, &meta);
                if meta.deletion_timestamp.is_none() {
                    if has_own_cleanup(&meta) {
                        executor.delete(&reference, &meta).await?;
                    } else {
                        // Pods that are still being ended would miss what goes next.
                        executor.delete_whole(&reference, &meta).await?;
                    }
                }
                if executor.exists(&reference).await? {
                    left.push((reference, meta));
                }
            }
        }
        Ok(left)
    }

    /// The Jobs that have not ended and have a container that runs.
    async fn running(&self, executor: &Executor<'_>, jobs: &KindRef) -> Result<Vec<Ref>, Error> {
        let mut running = Vec::new();
        for meta in self.children(executor, jobs).await? {
            let reference = Ref::of(&jobs.resource, &meta);
            if executor.is_running(&reference, &meta).await? {
                running.push(reference);
            }
        }
        Ok(running)
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

/// Whether a child's own controller deletes what it consists of, in its order and after its running Jobs. Garbage collection in
/// the foreground would delete all of it at once.
fn has_own_cleanup(child: &ObjectMeta) -> bool {
    child.finalizers.iter().flatten().any(|finalizer| finalizer.starts_with("c5c3.io/"))
}

fn running_job(job: &Ref) -> Wait {
    Wait::on(job)
        .condition("has ended")
        .now("is still running")
        .because("its work may not bear to be interrupted, so the other children are deleted after it")
        .look_at(format!("to delete the object without waiting, annotate it with {SKIP_CLEANUP}=true"))
        .with_reason("JobRunning")
}

fn waiting(reference: &Ref, because: &str) -> Wait {
    Wait::on(reference)
        .condition("is deleted")
        .now("is still being deleted")
        .because(because)
        .look_at(format!("to delete the object without waiting, annotate it with {SKIP_CLEANUP}=true"))
}

pub(crate) fn age(object: &DynamicObject, now: Timestamp) -> Duration {
    let since = object.metadata.deletion_timestamp.as_ref().map_or(now, |time| time.0);
    Duration::try_from(now.duration_since(since)).unwrap_or_default()
}
