//! What to do about a deployment and its ReplicaSets as they are: one step of a rollout at a time.

use std::collections::HashSet;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{Deployment, DeploymentCondition, DeploymentStatus, ReplicaSet};
use kube::ResourceExt;

use super::progress::{self, PROGRESSING};
use super::revisions::{self, DESIRED, REVISION, number};
use super::scaling::{self, available, recreates, replicas, size, sizes};
use crate::owners::is_going;
use crate::queue::Again;

/// What is to be done, in this order, and what is to be reported then.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) steps: Vec<Step>,
    pub(super) status: DeploymentStatus,
    /// The revision that the deployment is at.
    pub(super) revision: Option<String>,
    pub(super) again: Again,
}

/// One thing to be done.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step {
    Create(Box<ReplicaSet>),
    /// A ReplicaSet gets another size, other annotations.
    Change {
        from: i32,
        to: Box<ReplicaSet>,
    },
    Delete(Box<ReplicaSet>),
}

/// A rollout under way: the ReplicaSets as they will be after the steps so far.
struct Rollout<'d> {
    deployment: &'d Deployment,
    new: Option<ReplicaSet>,
    old: Vec<ReplicaSet>,
    conditions: Vec<DeploymentCondition>,
    steps: Vec<Step>,
    now: Timestamp,
}

/// Decides. `running` has the uids of those ReplicaSets that have pods which have not ended.
pub(super) fn plan(
    deployment: &Deployment,
    sets: Vec<ReplicaSet>,
    running: &HashSet<String>,
    now: Timestamp,
) -> Result<Plan, serde_json::Error> {
    let resized = scaling::is_resized(deployment, &sets);
    let (new, old) = revisions::split(deployment, sets);
    let conditions = deployment.status.as_ref().and_then(|status| status.conditions.clone()).unwrap_or_default();
    let mut rollout = Rollout { deployment, new, old, conditions, steps: Vec::new(), now };
    if is_going(&deployment.metadata) {
        return Ok(rollout.finish(false));
    }
    progress::note_pause(deployment, &mut rollout.conditions, now);
    rollout.annotate();
    let paused = deployment.spec.as_ref().and_then(|spec| spec.paused).unwrap_or(false);
    if paused || resized {
        rollout.resize();
        if paused {
            rollout.clean_up();
        }
        return Ok(rollout.finish(false));
    }
    if recreates(deployment) {
        rollout.recreate(running)?;
    } else {
        rollout.roll()?;
    }
    Ok(rollout.finish(true))
}

impl Rollout<'_> {
    /// Gives the new ReplicaSet the annotations and the revision that it should have.
    fn annotate(&mut self) {
        let Some(found) = self.new.take() else { return };
        let annotated = revisions::annotated(self.deployment, found.clone(), &self.old);
        if annotated != found {
            self.steps.push(Step::Change { from: size(&found), to: Box::new(annotated.clone()) });
        }
        if progress::deadline(self.deployment).is_some() && progress::find(&self.conditions, PROGRESSING).is_none() {
            let message = format!("Found new replica set {:?}", found.name_any());
            self.note(PROGRESSING, "FoundNewReplicaSet", message);
        }
        self.new = Some(annotated);
    }

    fn note(&mut self, name: &str, reason: &str, message: String) {
        progress::set(&mut self.conditions, progress::condition(name, "True", reason, message, self.now));
    }

    /// Rolls on: makes room above, fills it with new pods, takes old ones as new ones become available.
    fn roll(&mut self) -> Result<(), serde_json::Error> {
        let Some(new) = self.new.clone() else { return self.create() };
        let wanted = scaling::new_size(self.deployment, size(&new), sizes(&self.old));
        if wanted != size(&new) {
            self.scale(&new.name_any(), wanted);
            return Ok(());
        }
        let sizes = scaling::old_sizes(self.deployment, &new, &self.old);
        let names: Vec<String> = self.old.iter().map(ResourceExt::name_any).collect();
        for (name, size) in names.iter().zip(sizes) {
            self.scale(name, size);
        }
        self.clean_up_if_complete();
        Ok(())
    }

    /// Ends all old pods, and once they have ended makes new ones.
    fn recreate(&mut self, running: &HashSet<String>) -> Result<(), serde_json::Error> {
        if sizes(&self.old) > 0 {
            self.empty_old();
            return Ok(());
        }
        let new_uid = self.new.as_ref().and_then(ResourceExt::uid);
        let counted = |set: &ReplicaSet| set.status.as_ref().is_some_and(|status| status.replicas > 0);
        if self.old.iter().any(counted) || running.iter().any(|uid| Some(uid) != new_uid.as_ref()) {
            return Ok(());
        }
        let Some(new) = self.new.clone() else { return self.create() };
        self.scale(&new.name_any(), replicas(self.deployment));
        self.clean_up_if_complete();
        Ok(())
    }

    fn create(&mut self) -> Result<(), serde_json::Error> {
        let size = scaling::new_size(self.deployment, 0, sizes(&self.old));
        let set = revisions::fresh(self.deployment, &self.old, size)?;
        self.steps.push(Step::Create(Box::new(set.clone())));
        if progress::deadline(self.deployment).is_some() {
            let message = format!("Created new replica set {:?}", set.name_any());
            self.note(PROGRESSING, "NewReplicaSetCreated", message);
        }
        self.new = Some(set);
        Ok(())
    }

    /// Resizes without rolling: for a deployment that is paused, or was resized in the middle of a rollout.
    fn resize(&mut self) {
        let wanted = replicas(self.deployment);
        let active: Vec<&ReplicaSet> = self.new.iter().chain(&self.old).filter(|set| size(set) > 0).collect();
        let only = match active.as_slice() {
            [] => self.new.as_ref().or(self.old.last()),
            [one] => Some(*one),
            _ => None,
        };
        if let Some(only) = only {
            self.scale(&only.name_any(), wanted);
        } else if self.new.as_ref().is_some_and(|new| is_saturated(self.deployment, new)) {
            self.empty_old();
        } else if !recreates(self.deployment) && !active.is_empty() {
            let active: Vec<ReplicaSet> = active.into_iter().cloned().collect();
            let reported = self.deployment.status.as_ref().and_then(|status| status.replicas).unwrap_or(0);
            for (name, size) in scaling::proportions(self.deployment, &active, reported) {
                self.scale(&name, size);
            }
        }
    }

    fn empty_old(&mut self) {
        let active: Vec<String> = self.old.iter().filter(|set| size(set) > 0).map(ResourceExt::name_any).collect();
        for name in active {
            self.scale(&name, 0);
        }
    }

    /// Gives a ReplicaSet a size, and notes in it what the deployment asked for. Twice the same is nothing to do.
    fn scale(&mut self, name: &str, to: i32) {
        let deployment = self.deployment;
        let Some(set) = self.new.iter_mut().chain(&mut self.old).find(|set| set.name_any() == name) else { return };
        let sized = revisions::sized(deployment, set.clone(), to);
        // What has no pods and gets none stays as it is.
        if sized == *set || (size(set) == 0 && to == 0) {
            return;
        }
        let from = size(set);
        *set = sized.clone();
        // One write for both, if its annotations change, too.
        self.steps.retain(|step| !matches!(step, Step::Change { to, .. } if to.name_any() == name));
        self.steps.push(Step::Change { from, to: Box::new(sized) });
    }

    fn clean_up_if_complete(&mut self) {
        let status = progress::counts(self.deployment, self.new.as_ref(), &self.old, Vec::new(), self.now);
        if progress::is_complete(self.deployment, &status) {
            self.clean_up();
        }
    }

    /// Deletes old ReplicaSets beyond those that history keeps. One that has pods, or may still get some, is kept.
    fn clean_up(&mut self) {
        let Some(limit) = self.deployment.spec.as_ref().and_then(|spec| spec.revision_history_limit) else { return };
        let mut history: Vec<&ReplicaSet> = self.old.iter().filter(|set| !is_going(&set.metadata)).collect();
        let surplus = history.len().saturating_sub(usize::try_from(limit).unwrap_or(0));
        history.sort_by_key(|set| revisions::revision(set));
        let is_idle = |set: &&ReplicaSet| {
            let status = set.status.clone().unwrap_or_default();
            let observed = status.observed_generation >= set.metadata.generation;
            status.replicas == 0 && size(set) == 0 && observed
        };
        let doomed = history.into_iter().take(surplus).filter(is_idle);
        self.steps.extend(doomed.map(|set| Step::Delete(Box::new(set.clone()))));
    }

    fn finish(self, rolling: bool) -> Plan {
        let Self { deployment, new, old, conditions, steps, now } = self;
        let mut status = progress::counts(deployment, new.as_ref(), &old, conditions, now);
        let again = if rolling { progress::judge(deployment, new.as_ref(), &old, &mut status, now) } else { None };
        let revision = new.as_ref().and_then(|new| new.annotations().get(REVISION).cloned());
        Plan { steps, status, revision, again }
    }
}

/// Whether the new ReplicaSet has all pods that the deployment asks for.
fn is_saturated(deployment: &Deployment, new: &ReplicaSet) -> bool {
    let wanted = replicas(deployment);
    number(new, DESIRED) == Some(wanted) && size(new) == wanted && available(new) == wanted
}
