//! Brings the cluster to a plan: server-side apply step by step, then deletes what is ours and no longer wanted.

use std::time::Duration;

use jiff::Timestamp;
use kube::Client;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, Preconditions, PropagationPolicy};
use kube::core::ObjectMeta;

use crate::error::Error;
use crate::object::{Ref, condition, is_not_found, is_unknown_kind};
use crate::ownership::{BASE, Owner, label};
use crate::plan::{Child, Plan, Step};
use crate::readiness;
use crate::wait::Wait;

/// How often an object that is in the way is looked at.
const FOREIGN_INTERVAL: Duration = Duration::from_secs(30);

/// How a step stands.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The step's condition.
    pub condition: &'static str,
    /// What it waits for; nothing when it is done.
    pub waits: Vec<Wait>,
    /// The earlier step that it was not started for.
    pub blocked_by: Option<&'static str>,
    /// What to say when it is done.
    pub done: String,
}

/// What came of carrying out a plan.
#[derive(Clone, Debug, Default)]
pub struct Applied {
    /// Step by step.
    pub outcomes: Vec<Outcome>,
    /// When to look again for something that no watch will tell.
    pub again_after: Option<Duration>,
}

impl Applied {
    fn look_again_after(&mut self, delay: Duration) {
        self.again_after = Some(self.again_after.map_or(delay, |after| after.min(delay)));
    }

    /// Whether every step is done.
    pub fn is_done(&self) -> bool {
        self.outcomes.iter().all(|outcome| outcome.waits.is_empty() && outcome.blocked_by.is_none())
    }
}

/// Carries out plans for one owner.
pub struct Executor<'a> {
    /// Where to.
    pub client: &'a Client,
    /// Whose children.
    pub owner: &'a Owner,
    /// The children that are there, as the watches know them.
    pub existing: &'a [(Ref, ObjectMeta)],
    /// When the reconcile began.
    pub now: Timestamp,
}

impl Executor<'_> {
    /// Applies the plan as far as its waits allow. What it no longer holds is deleted only once all of it is done, so
    /// that nothing goes before its replacement is ready.
    pub async fn apply(&self, plan: &Plan) -> Result<Applied, Error> {
        let mut applied = Applied { again_after: plan.again_after, ..Applied::default() };
        let mut blocked_by = None;
        for step in &plan.steps {
            let waits = if blocked_by.is_none() { self.step(step, &mut applied).await? } else { Vec::new() };
            let outcome = Outcome { condition: step.condition, waits, blocked_by, done: step.done.clone() };
            if blocked_by.is_none() && !outcome.waits.is_empty() {
                blocked_by = Some(step.condition);
            }
            applied.outcomes.push(outcome);
        }
        if applied.is_done() {
            self.prune(plan).await?;
        }
        Ok(applied)
    }

    async fn step(&self, step: &Step, applied: &mut Applied) -> Result<Vec<Wait>, Error> {
        if !step.waits.is_empty() {
            return Ok(step.waits.clone());
        }
        let mut waits = Vec::new();
        for child in &step.children {
            waits.extend(self.child(child, applied).await?);
        }
        Ok(waits)
    }

    async fn child(&self, child: &Child, applied: &mut Applied) -> Result<Option<Wait>, Error> {
        let reference = child.reference();
        if let Some(wait) = self.foreign(&reference).await? {
            // It is not ours, so no watch of ours tells when it goes.
            applied.look_again_after(FOREIGN_INTERVAL);
            return Ok(Some(wait));
        }
        let mut object = child.object.clone();
        self.owner.mark(&mut object);
        let params = PatchParams::apply(self.owner.manager).force();
        let live =
            reference.api(self.client.clone()).patch(&reference.name, &params, &Patch::Apply(&object)).await.map_err(
                |source| Error::ApplyFailed { object: Box::new(reference.clone()), source: Box::new(source) },
            )?;
        let Some(wait) = readiness::wait(&reference, &live) else { return Ok(None) };
        match (wait.failed, child.retry_after) {
            (true, Some(delay)) => self.retry(&reference, &live, wait, delay, applied).await.map(Some),
            _ => Ok(Some(wait)),
        }
    }

    /// The wait for someone to make way, if an object of that name is there and is not ours: we never adopt one. Or the wait
    /// for the kind to be installed.
    async fn foreign(&self, reference: &Ref) -> Result<Option<Wait>, Error> {
        if self.existing.iter().any(|(ours, _)| ours == reference) {
            return Ok(None);
        }
        // The watches do not know it as ours: it is not there, or not ours, or so new that they have not heard.
        let found = match reference.api(self.client.clone()).get_metadata(&reference.name).await {
            Ok(found) => Some(found),
            Err(error) if is_unknown_kind(&error) => {
                let now = format!("the cluster has no {}", reference.resource.plural);
                return Ok(Some(Wait::on(reference).condition("can be made").now(now).called("KindNotInstalled")));
            }
            Err(error) if is_not_found(&error) => None,
            Err(source) => {
                return Err(Error::ReadFailed { object: Box::new(reference.clone()), source: Box::new(source) });
            }
        };
        Ok(found.filter(|found| !self.owner.owns(&found.metadata)).map(|found| {
            let manager = label(&found.metadata, crate::ownership::MANAGED_BY).map_or("someone else", String::as_str);
            Wait::on(reference)
                .condition("is not in the way")
                .now(format!("it exists and belongs to {manager}"))
                .because("an object of ours must have this name, and a foreign one is never taken over")
                .look_at("delete or rename it")
                .failed("ForeignObject")
        }))
    }

    /// Deletes a failed child once its time has come; the next reconcile makes it again.
    async fn retry(
        &self,
        reference: &Ref,
        live: &DynamicObject,
        wait: Wait,
        delay: Duration,
        applied: &mut Applied,
    ) -> Result<Wait, Error> {
        let failed_at = condition(live, "Failed")
            .and_then(|failed| failed["lastTransitionTime"].as_str())
            .and_then(|time| time.parse::<Timestamp>().ok())
            .unwrap_or(self.now);
        let age = Duration::try_from(self.now.duration_since(failed_at)).unwrap_or_default();
        if age < delay {
            applied.look_again_after(delay.saturating_sub(age));
            return Ok(wait);
        }
        self.delete(reference, &live.metadata).await?;
        let now = wait.now.clone().unwrap_or_default();
        Ok(wait.now(format!("{now}; it is being made again")))
    }

    async fn prune(&self, plan: &Plan) -> Result<(), Error> {
        let wanted: Vec<Ref> = plan.children().map(Child::reference).collect();
        let kept = kept(plan, self.existing, &wanted);
        for (reference, meta) in self.existing {
            let going = meta.deletion_timestamp.is_some();
            if !going && !wanted.contains(reference) && !kept.contains(&reference) {
                self.delete(reference, meta).await?;
            }
        }
        Ok(())
    }

    /// Deletes one object, and not a namesake that came since.
    pub(crate) async fn delete(&self, reference: &Ref, meta: &ObjectMeta) -> Result<(), Error> {
        let params = DeleteParams {
            propagation_policy: Some(PropagationPolicy::Background),
            preconditions: Some(Preconditions { uid: meta.uid.clone(), resource_version: None }),
            ..DeleteParams::default()
        };
        tracing::info!(child = %reference, "deleting");
        match reference.api(self.client.clone()).delete(&reference.name, &params).await {
            Ok(_) => Ok(()),
            // 404: it is gone. 409: what is there now has another uid, so it is not the one we meant.
            Err(kube::Error::Api(status)) if status.code == 404 || status.code == 409 => Ok(()),
            Err(source) => Err(Error::DeleteFailed { object: Box::new(reference.clone()), source: Box::new(source) }),
        }
    }

    /// Whether an object is still there.
    pub(crate) async fn exists(&self, reference: &Ref) -> Result<bool, Error> {
        match reference.api(self.client.clone()).get_metadata(&reference.name).await {
            Ok(_) => Ok(true),
            Err(error) if is_not_found(&error) => Ok(false),
            Err(source) => Err(Error::ReadFailed { object: Box::new(reference.clone()), source: Box::new(source) }),
        }
    }
}

/// The older generations that stay: of each base in the plan, the newest few.
fn kept<'a>(plan: &Plan, existing: &'a [(Ref, ObjectMeta)], wanted: &[Ref]) -> Vec<&'a Ref> {
    let mut kept = Vec::new();
    for child in plan.children().filter(|child| child.keep_previous > 0) {
        let base = label(&child.object.metadata, BASE);
        let mut older: Vec<&(Ref, ObjectMeta)> = existing
            .iter()
            .filter(|(reference, meta)| {
                reference.resource == child.resource && label(meta, BASE) == base && !wanted.contains(reference)
            })
            .collect();
        older.sort_by_key(|(_, meta)| std::cmp::Reverse(meta.creation_timestamp.as_ref().map(|time| time.0)));
        kept.extend(older.into_iter().take(child.keep_previous).map(|(reference, _)| reference));
    }
    kept
}
