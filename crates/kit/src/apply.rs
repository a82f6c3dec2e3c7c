//! Brings the cluster to a plan: server-side apply step by step, then deletes what is ours and no longer wanted.

use std::time::Duration;

use jiff::Timestamp;
use kube::Client;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, Preconditions, PropagationPolicy};
use kube::core::ObjectMeta;

use crate::brake::{Brake, fought};
use crate::error::Error;
use crate::hash;
use crate::object::{Ref, condition, is_not_found, is_unknown_kind};
use crate::ownership::{BASE, MANAGED_BY, OWNER, Owner, STEP, label};
use crate::plan::{Child, Node, Plan, Step};
use crate::retention::Retained;
use crate::wait::Wait;

/// How often an object that is in the way is looked at.
const FOREIGN_INTERVAL: Duration = Duration::from_secs(30);

/// How a step stands.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The step's condition.
    pub condition: &'static str,
    /// Its name in a graph.
    pub name: Option<&'static str>,
    /// What it waits for; nothing when it is done.
    pub waits: Vec<Wait>,
    /// Why it was not started: earlier steps that are not done.
    pub blocked: Option<String>,
    /// What to say when it is done.
    pub done: String,
}

impl Outcome {
    /// Whether the step is done.
    pub fn is_done(&self) -> bool {
        self.waits.is_empty() && self.blocked.is_none()
    }
}

/// What came of carrying out a plan.
#[derive(Clone, Debug, Default)]
pub struct Applied {
    /// Step by step.
    pub outcomes: Vec<Outcome>,
    /// What is no longer wanted and cannot go yet.
    pub left: Vec<Wait>,
    /// When to look again for something that no watch will tell.
    pub again_after: Option<Duration>,
    /// What the API refused first.
    pub refused: Option<Wait>,
}

impl Applied {
    /// Notes what the API refuses, and gives the wait for it; or the error, if it merely failed.
    pub(crate) fn refused(&mut self, error: Error) -> Result<Wait, Error> {
        let wait = error.refused()?;
        self.refused.get_or_insert_with(|| wait.clone());
        Ok(wait)
    }

    fn look_again_after(&mut self, delay: Duration) {
        self.again_after = Some(self.again_after.map_or(delay, |after| after.min(delay)));
    }

    /// Whether every step is done.
    pub fn is_done(&self) -> bool {
        self.outcomes.iter().all(Outcome::is_done)
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
    /// What was written lately; none for those who are not told of every change.
    pub brake: Option<&'a Brake>,
}

impl Executor<'_> {
    /// Applies the plan as far as its waits allow. What it no longer holds is deleted only once what could still stand on
    /// it is done, so that nothing goes before its replacement is ready.
    pub async fn apply(&self, plan: &Plan) -> Result<Applied, Error> {
        self.apply_retaining(plan, &[]).await
    }

    /// The same, and what decides about data goes only when all have followed what it says.
    pub(crate) async fn apply_retaining(&self, plan: &Plan, retained: &[Retained]) -> Result<Applied, Error> {
        let mut applied = Applied { again_after: plan.again_after, ..Applied::default() };
        for step in &plan.steps {
            let mut blocked = blocked(step, &applied.outcomes);
            let mut waits = Vec::new();
            if blocked.is_none() {
                waits = self.step(step, &mut applied).await?;
            } else if step.node.is_some() {
                match self.look(step).await {
                    Ok(Some(running)) => (waits, blocked) = (running, None),
                    Ok(None) => {}
                    Err(error) => waits.push(applied.refused(error)?),
                }
            }
            let name = step.node.as_ref().map(|node| node.name);
            applied.outcomes.push(Outcome { condition: step.condition, name, waits, blocked, done: step.done.clone() });
        }
        self.prune(plan, &mut applied, retained).await?;
        Ok(applied)
    }

    /// How the children of a step are that may not be changed now; none if it has not been started.
    async fn look(&self, step: &Step) -> Result<Option<Vec<Wait>>, Error> {
        if step.children.is_empty() {
            return Ok(None);
        }
        let mut waits = Vec::new();
        for child in step.children.iter().filter(|child| child.generated.is_empty() && !child.unwaited) {
            let reference = child.reference();
            if !self.existing.iter().any(|(ours, _)| *ours == reference) {
                return Ok(None);
            }
            match reference.api(self.client.clone()).get(&reference.name).await {
                Ok(live) => waits.extend(child.wait(&live)),
                Err(error) if is_not_found(&error) => return Ok(None),
                Err(source) => return Err(Error::ReadFailed { object: Box::new(reference), source: Box::new(source) }),
            }
        }
        Ok(Some(waits))
    }

    async fn step(&self, step: &Step, applied: &mut Applied) -> Result<Vec<Wait>, Error> {
        if !step.waits.is_empty() {
            return Ok(step.waits.clone());
        }
        let mut waits = Vec::new();
        for child in &step.children {
            let wait = if child.generated.is_empty() {
                self.child(child, step.node.as_ref(), applied).await
            } else {
                self.generated(child).await
            };
            match wait {
                Ok(wait) => waits.extend(wait.filter(|_| !child.unwaited)),
                Err(error) => {
                    waits.push(applied.refused(error)?);
                    // What comes after it in the step may stand on it.
                    break;
                }
            }
        }
        Ok(waits)
    }

    async fn child(&self, child: &Child, node: Option<&Node>, applied: &mut Applied) -> Result<Option<Wait>, Error> {
        let reference = child.reference();
        if let Some(wait) = self.foreign(&reference, child.kept.is_some()).await? {
            // It is not ours, so no watch of ours tells when it goes.
            applied.look_again_after(FOREIGN_INTERVAL);
            return Ok(Some(wait));
        }
        if let Some(wait) = self.predecessor(child, &reference).await? {
            return Ok(Some(wait));
        }
        let mut object = child.object.clone();
        self.owner.mark(&mut object, child.is_kept());
        if let Some(node) = node {
            object.metadata.labels.get_or_insert_default().insert(STEP.into(), node.name.into());
        }
        let (live, undone) = self.write(&reference, &object, applied).await?;
        if undone.is_some() {
            return Ok(undone);
        }
        let Some(wait) = child.wait(&live) else { return Ok(None) };
        match (wait.failed, child.retry_after) {
            (true, Some(delay)) => self.retry(&reference, &live, wait, delay, applied).await.map(Some),
            _ => Ok(Some(wait)),
        }
    }

    /// Applies an object, and says so if somebody undoes that again and again: then it is read and left as it is for a while.
    async fn write(
        &self,
        reference: &Ref,
        object: &DynamicObject,
        applied: &mut Applied,
    ) -> Result<(DynamicObject, Option<Wait>), Error> {
        let api = reference.api(self.client.clone());
        let intent = hash::of_json(&serde_json::to_value(object).unwrap_or_default());
        let pause = || self.brake.and_then(|brake| brake.pause(self.owner, reference, &intent, self.now));
        let read = |source| Error::ReadFailed { object: Box::new(reference.clone()), source: Box::new(source) };
        let left_alone = match pause() {
            Some(_) => api.get_opt(&reference.name).await.map_err(read)?,
            None => None,
        };
        // One that was deleted meanwhile is made anew: there is nobody to write against.
        let live = if let Some(live) = left_alone {
            live
        } else {
            let params = PatchParams::apply(self.owner.manager).force();
            let failed = |source| Error::ApplyFailed { object: Box::new(reference.clone()), source: Box::new(source) };
            let live = api.patch(&reference.name, &params, &Patch::Apply(object)).await.map_err(failed)?;
            if let Some(brake) = self.brake {
                let before = self.existing.iter().find(|(ours, _)| ours == reference).map(|(_, meta)| meta);
                brake.note(self.owner, reference, &intent, before, &live.metadata, self.now);
            }
            live
        };
        let undone = pause().map(|pause| {
            applied.look_again_after(pause.left);
            fought(reference, &pause, self.owner.manager)
        });
        Ok((live, undone))
    }

    /// The wait for someone to make way, if an object of that name is there and is not ours: we never adopt one. Or the wait
    /// for the kind to be installed.
    async fn foreign(&self, reference: &Ref, inherited: bool) -> Result<Option<Wait>, Error> {
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
        let is_ours = |meta: &ObjectMeta| self.owner.owns(meta) || inherited && self.owner.has_made(meta);
        Ok(found.filter(|found| !is_ours(&found.metadata)).map(|found| {
            Wait::on(reference)
                .condition("is not in the way")
                .now(format!("it exists and belongs to {}", holder(&found.metadata)))
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

    async fn prune(&self, plan: &Plan, applied: &mut Applied, retained: &[Retained]) -> Result<(), Error> {
        let wanted: Vec<Ref> = plan.children().map(Child::reference).collect();
        if let Some(brake) = self.brake {
            brake.keep_only(self.owner, &wanted);
        }
        let kept = kept(plan, self.existing, &wanted);
        for (reference, meta) in self.existing {
            let going = meta.deletion_timestamp.is_some();
            if going || wanted.contains(reference) || kept.contains(&reference) || !may_go(plan, applied, meta) {
                continue;
            }
            let mut held = Vec::new();
            for one in retained.iter().filter(|one| one.object == *reference) {
                held.extend(self.unfollowed(one).await?);
            }
            if held.is_empty() {
                if let Err(error) = self.delete(reference, meta).await {
                    let wait = applied.refused(error)?;
                    applied.left.push(wait);
                }
            } else {
                // What is held up is not ours, so no watch of ours tells when it has followed.
                applied.look_again_after(FOREIGN_INTERVAL);
                applied.left.extend(held);
            }
        }
        Ok(())
    }

    /// Deletes one object, and not a namesake that came since.
    pub(crate) async fn delete(&self, reference: &Ref, meta: &ObjectMeta) -> Result<(), Error> {
        self.delete_by(reference, meta, PropagationPolicy::Background).await
    }

    /// The same, and the object stays until all that hangs on it is gone.
    pub(crate) async fn delete_whole(&self, reference: &Ref, meta: &ObjectMeta) -> Result<(), Error> {
        self.delete_by(reference, meta, PropagationPolicy::Foreground).await
    }

    async fn delete_by(&self, reference: &Ref, meta: &ObjectMeta, policy: PropagationPolicy) -> Result<(), Error> {
        let params = DeleteParams {
            propagation_policy: Some(policy),
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

/// Why a step cannot start: what it needs is not done. A step outside a graph needs all that come before it.
fn blocked(step: &Step, before: &[Outcome]) -> Option<String> {
    match &step.node {
        None => {
            let first = before.iter().find(|outcome| !outcome.is_done())?;
            Some(format!("starts when {} is true", first.condition))
        }
        Some(node) => {
            let is_done = |need: &&str| before.iter().any(|outcome| outcome.name == Some(need) && outcome.is_done());
            let missing: Vec<&str> = node.needs.iter().copied().filter(|need| !is_done(need)).collect();
            let verb = if missing.len() > 1 { "are" } else { "is" };
            (!missing.is_empty()).then(|| format!("{} starts when {} {verb} ready", node.name, missing.join(" and ")))
        }
    }
}

/// Whether a child that is no longer wanted may go: when everything is done. In a graph it is enough that its own step and
/// all that need it are done, or that its step has left the plan.
fn may_go(plan: &Plan, applied: &Applied, meta: &ObjectMeta) -> bool {
    let Some(step) = label(meta, STEP) else { return applied.is_done() };
    let mut concerned = vec![step.as_str()];
    for node in plan.steps.iter().filter_map(|step| step.node.as_ref()) {
        if node.needs.iter().any(|need| concerned.contains(need)) {
            concerned.push(node.name);
        }
    }
    let is_concerned = |outcome: &&Outcome| outcome.name.is_some_and(|name| concerned.contains(&name));
    applied.outcomes.iter().filter(is_concerned).all(Outcome::is_done)
}

/// Whose an object is, in words.
fn holder(meta: &ObjectMeta) -> String {
    let owner = meta.annotations.as_ref().and_then(|annotations| annotations.get(OWNER));
    let holder = owner.or_else(|| label(meta, MANAGED_BY));
    holder.map_or_else(|| "someone else".to_owned(), Clone::clone)
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
