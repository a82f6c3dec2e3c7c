//! One round of a Kustomization: from the commit of its repository to objects that are applied and healthy.

use std::time::Duration;

use c5c3_api::blocks::{Condition, ConditionStatus};
use c5c3_kit::condition::find;
use jiff::Timestamp;
use kube::{Client, ResourceExt};

use super::attempts::requested;
use super::git::{Commit, GitError, Mirror, Place};
use super::items::{self, Applier, Unresolved};
use super::kinds::{Entry, GitRepository, Inventory, Kustomization, KustomizationStatus};
use super::report::{Conditions, HEALTHY, PROGRESSING, READY, RECONCILING, RETRYING};
use super::wanted::Wanted;
use super::{MANAGER, apply, build, checks, inventory};
use crate::failure::Error;
use crate::objects;

/// Reasons, as Flux calls them.
const ARTIFACT_FAILED: &str = "ArtifactFailed";
const BUILD_FAILED: &str = "BuildFailed";
const DEPENDENCY_NOT_READY: &str = "DependencyNotReady";
const RECONCILIATION_FAILED: &str = "ReconciliationFailed";
const HEALTH_CHECK_FAILED: &str = "HealthCheckFailed";
pub(super) const PRUNE_FAILED: &str = "PruneFailed";

/// Why a round ends before its end. The reason is that of the condition.
pub(super) enum Failure {
    /// Something else has to come first.
    Waits(&'static str, String),
    /// The commit, or an object of it, is not as it must be.
    Wrong(&'static str, String),
    /// The API does not do what it should; that passes.
    Error(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

fn wrong(reason: &'static str) -> impl Fn(String) -> Failure {
    move |message| Failure::Wrong(reason, message)
}

/// The commit of a repository.
pub(super) struct Source {
    pub(super) revision: String,
    commit: Commit,
    mirror: Mirror,
    /// Whether the repository is fetched without anyone doing something.
    is_fetched: bool,
}

/// The commit that the repository of a Kustomization has now.
pub(super) async fn source(client: &Client, object: &Kustomization, place: &Place) -> Result<Source, Failure> {
    let (namespace, name) = object.source();
    let about = format!("GitRepository/{namespace}/{name}");
    let Some(repository) = objects::find::<GitRepository>(client, &namespace, &name).await? else {
        return Err(Failure::Waits(ARTIFACT_FAILED, format!("Source '{about}' not found")));
    };
    let status = repository.status.unwrap_or_default();
    let Some(artifact) = status.artifact else {
        let said = find(&status.conditions, READY).and_then(|ready| ready.message.as_deref());
        let message = format!("Source '{about}' has no artifact: {}", said.unwrap_or("it is not fetched yet"));
        return Err(Failure::Waits(ARTIFACT_FAILED, message));
    };
    let odd =
        || Failure::Waits(ARTIFACT_FAILED, format!("Source '{about}' has an odd revision: {}", artifact.revision));
    let commit = Commit::of_revision(&artifact.revision).ok_or_else(odd)?;
    let is_fetched = !repository.spec.suspend && is_ready(&status.conditions);
    Ok(Source { revision: artifact.revision, commit, mirror: place.of(&namespace, &name), is_fetched })
}

fn is_ready(conditions: &[Condition]) -> bool {
    find(conditions, READY).is_some_and(|ready| ready.status == ConditionStatus::True)
}

/// A Kustomization, and what is said of it.
pub(super) struct Round<'a> {
    client: &'a Client,
    object: &'a Kustomization,
    /// The status that is there, and the next one.
    written: Option<KustomizationStatus>,
    status: KustomizationStatus,
}

impl<'a> Round<'a> {
    pub(super) fn new(client: &'a Client, object: &'a Kustomization) -> Self {
        let (written, status) = (object.status.clone(), object.status.clone().unwrap_or_default());
        Self { client, object, written, status }
    }

    pub(super) fn client(&self) -> &'a Client {
        self.client
    }

    /// What was applied.
    pub(super) fn applied(&self) -> &[Entry] {
        self.status.inventory.as_ref().map(|inventory| inventory.entries.as_slice()).unwrap_or_default()
    }

    /// Notes what is applied now.
    pub(super) fn note(&mut self, entries: Inventory) {
        self.status.inventory = Some(entries);
    }

    /// Writes the status, with these conditions.
    pub(super) async fn report(
        &mut self,
        conditions: impl FnOnce(Conditions<'_>) -> Conditions<'_>,
    ) -> Result<(), Error> {
        let meta = &self.object.metadata;
        let before = self.written.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
        let after = conditions(Conditions::new(before, meta.generation, Timestamp::now())).done();
        self.status.conditions = after;
        self.status.observed_generation = meta.generation;
        self.status.last_handled_reconcile_at = requested(meta);
        objects::report(self.client, self.object, MANAGER, self.written.as_ref(), &self.status).await?;
        self.written = Some(self.status.clone());
        Ok(())
    }

    /// Says why the round ended.
    pub(super) async fn fail(&mut self, reason: &'static str, message: &str) -> Result<(), Error> {
        self.report(|conditions| {
            let conditions = conditions.fails(READY, reason, message).holds(RECONCILING, RETRYING, message);
            match reason {
                HEALTH_CHECK_FAILED => conditions.fails(HEALTHY, reason, message),
                _ => conditions.keep(HEALTHY),
            }
        })
        .await
    }

    /// Brings the objects of the cluster to a commit.
    pub(super) async fn apply(&mut self, wanted: &Wanted, source: &Source) -> Result<(), Failure> {
        self.wait_for_dependencies(&source.revision).await?;
        let built = self.build(wanted, source).await?;
        let (name, namespace) = (self.object.name_any(), self.object.namespace().unwrap_or_default());
        let target = self.object.spec.target_namespace.as_deref().filter(|target| !target.is_empty());
        let applier = Applier { name: &name, namespace: &namespace, target };
        let items = items::resolve(self.client, built, &applier).await.map_err(|unresolved| match unresolved {
            Unresolved::Wrong(message) => Failure::Wrong(RECONCILIATION_FAILED, message),
            Unresolved::Error(error) => Failure::Error(error),
        })?;
        let tried = apply::try_all(self.client, &items).await.map_err(wrong(RECONCILIATION_FAILED))?;
        let older = self.applied().to_vec();
        let newer: Vec<Entry> = items.iter().map(|item| inventory::entry(&item.at)).collect();
        // Written before the first object is: what is applied is never forgotten.
        let both = inventory::union(&older, &newer);
        if self.status.inventory.as_ref() != Some(&both) {
            self.note(both);
            let message = format!("Applying revision {}", source.revision);
            self.progress(&message).await?;
        }
        tried.apply(self.client).await.map_err(wrong(RECONCILIATION_FAILED))?;
        let gone = if self.object.spec.prune { inventory::gone(&older, &newer) } else { Vec::new() };
        let (left, said) = apply::prune(self.client, &name, &namespace, &gone).await;
        self.note(inventory::union(&left, &newer));
        if said.is_empty() { Ok(()) } else { Err(Failure::Wrong(PRUNE_FAILED, said.join("; "))) }
    }

    async fn progress(&mut self, message: &str) -> Result<(), Error> {
        self.report(|conditions| {
            conditions.unknown(READY, PROGRESSING, message).holds(RECONCILING, PROGRESSING, message).keep(HEALTHY)
        })
        .await
    }

    /// The objects of a commit, as its files say.
    async fn build(&mut self, wanted: &Wanted, source: &Source) -> Result<Vec<build::Built>, Failure> {
        let git = |error: GitError| Failure::Waits(ARTIFACT_FAILED, error.to_string());
        if !source.mirror.holds(&source.commit).await.map_err(git)? {
            let message = format!("{} is not fetched since this cluster started", source.revision);
            // That is so for a moment after each start, which nobody needs to hear of.
            return Err(if source.is_fetched {
                Failure::Error(Error::Missing(message))
            } else {
                Failure::Waits(ARTIFACT_FAILED, message)
            });
        }
        self.status.last_attempted_revision = Some(source.revision.clone());
        let tree = source.mirror.tree(&source.commit).await.map_err(git)?;
        let folder = build::folder(&tree, self.object.spec.path.as_deref()).map_err(wrong(ARTIFACT_FAILED))?;
        build::build(&tree, &folder, &wanted.patches).map_err(wrong(BUILD_FAILED))
    }

    /// Fails unless all Kustomizations that this one depends on are ready, with the same commit if it is of the same repository.
    async fn wait_for_dependencies(&self, revision: &str) -> Result<(), Failure> {
        let dependencies: Vec<(String, String)> = self.object.dependencies().collect();
        for (namespace, name) in dependencies {
            let unmet =
                |what: &str| Failure::Waits(DEPENDENCY_NOT_READY, format!("dependency '{namespace}/{name}' {what}"));
            let Some(other) = objects::find::<Kustomization>(self.client, &namespace, &name).await? else {
                return Err(unmet("not found"));
            };
            let status = other.status.clone().unwrap_or_default();
            if status.observed_generation != other.metadata.generation || !is_ready(&status.conditions) {
                return Err(unmet("is not ready"));
            }
            let is_behind = status.last_applied_revision.as_deref() != Some(revision);
            if other.source() == self.object.source() && is_behind {
                return Err(unmet("revision is not up to date"));
            }
        }
        Ok(())
    }

    /// Looks whether what was applied is healthy, and says so. False if it has yet to become so.
    pub(super) async fn look(&mut self, wanted: &Wanted, source: &Source) -> Result<bool, Failure> {
        let objects = checks::of(self.object, self.applied());
        let unhealthy = checks::look(self.client, &objects, &self.object.spec.health_check_exprs).await?;
        if let Some(failed) = unhealthy.failed() {
            return Err(Failure::Wrong(HEALTH_CHECK_FAILED, failed));
        }
        let (revision, timeout) = (&source.revision, wanted.timeout);
        if let Some(waits) = unhealthy.waits() {
            // The time of this condition says since when is waited, so that its message stays the same while it is.
            let running = format!("Running health checks for revision {revision} with a timeout of {timeout:?}");
            self.report(|conditions| {
                let conditions = conditions.unknown(READY, PROGRESSING, &waits).holds(RECONCILING, PROGRESSING, &waits);
                conditions.unknown(HEALTHY, PROGRESSING, running)
            })
            .await?;
            if self.waited() >= timeout {
                return Err(Failure::Wrong(HEALTH_CHECK_FAILED, format!("timeout waiting for: {waits}")));
            }
            return Ok(false);
        }
        self.status.last_applied_revision = Some(revision.clone());
        self.report(|conditions| {
            let conditions =
                conditions.holds(READY, "ReconciliationSucceeded", format!("Applied revision: {revision}"));
            if objects.is_empty() { conditions } else { conditions.holds(HEALTHY, "Succeeded", "Health check passed") }
        })
        .await?;
        Ok(true)
    }

    /// How long objects are waited for.
    fn waited(&self) -> Duration {
        let since = find(&self.status.conditions, HEALTHY).and_then(|healthy| healthy.last_transition_time.as_ref());
        since.and_then(|since| Timestamp::now().duration_since(since.0).try_into().ok()).unwrap_or_default()
    }
}
