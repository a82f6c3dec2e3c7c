//! Brings the cluster to a plan: server-side apply step by step, then deletes what is ours and no longer wanted.

use std::collections::HashSet;
use std::time::Duration;

use jiff::Timestamp;
use kube::Client;
use kube::api::DynamicObject;
use kube::core::ObjectMeta;

use crate::apply_cache::ApplyCache;
use crate::error::Error;
use crate::job_order::is_job;
use crate::object::Ref;
use crate::ownership::{BASE, Owner, STEP, VERSION, annotation, label};
use crate::plan::{Child, Decision, Plan, Step, StepName};
use crate::presence::Presence;
use crate::retention::Retained;
use crate::wait::Wait;
use crate::write::Written;
use crate::write_limit::WriteLimit;

/// How often an object is looked at that no watch of ours tells of.
pub(crate) const FOREIGN_INTERVAL: Duration = Duration::from_secs(30);

/// How a step stands.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The step's condition.
    pub condition: &'static str,
    /// Its name in a graph.
    pub name: Option<StepName>,
    /// What it waits for; nothing when it is done.
    pub waits: Vec<Wait>,
    /// Why it was not carried out, or not in full: steps that it needs are not done.
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
    pub requeue_after: Option<Duration>,
    /// What the API refused first.
    pub refused: Option<Wait>,
    /// Children that another client had changed or deleted, in words.
    pub corrected: Vec<String>,
}

impl Applied {
    /// Notes what the API refuses, and gives the wait for it; or the error, if it merely failed.
    pub(crate) fn refused(&mut self, error: Error) -> Result<Wait, Error> {
        let wait = error.refused()?;
        self.refused.get_or_insert_with(|| wait.clone());
        Ok(wait)
    }

    pub(crate) fn requeue_within(&mut self, delay: Duration) {
        self.requeue_after = Some(self.requeue_after.map_or(delay, |after| after.min(delay)));
    }

    /// Whether every step is done.
    pub fn is_done(&self) -> bool {
        self.outcomes.iter().all(Outcome::is_done)
    }
}

/// A plan that is being carried out, and what came of it so far.
pub(crate) struct Pass<'p> {
    pub(crate) plan: &'p Plan,
    pub(crate) wanted: HashSet<Ref>,
    pub(crate) applied: Applied,
}

impl<'p> Pass<'p> {
    fn new(plan: &'p Plan) -> Self {
        let applied = Applied { requeue_after: plan.requeue_after, ..Applied::default() };
        Self { plan, wanted: plan.children().map(Child::reference).collect(), applied }
    }

    /// Whether the object stays. Of a partial plan it is not known what else is wanted.
    pub(crate) fn wants(&self, reference: &Ref) -> bool {
        self.plan.partial || self.wanted.contains(reference)
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
    pub write_limit: Option<&'a WriteLimit>,
    /// What was applied and read before; none for those who keep nothing between reconciles.
    pub apply_cache: Option<&'a ApplyCache>,
}

/// How a step was left: what it waits for, and what blocks it.
type Left = (Vec<Wait>, Option<String>);

impl Executor<'_> {
    /// Applies the plan as far as its waits allow. What it no longer holds is deleted only once what could still stand on
    /// it is done, so that nothing goes before its replacement is ready.
    pub async fn apply(&self, plan: &Plan) -> Result<Applied, Error> {
        self.apply_retaining(plan, &[]).await
    }

    /// The same, and what decides about data goes only when all have followed what it says.
    pub(crate) async fn apply_retaining(&self, plan: &Plan, retained: &[Retained]) -> Result<Applied, Error> {
        let mut pass = Pass::new(plan);
        for step in &plan.steps {
            let (waits, blocked) = self.apply_step(step, &mut pass).await?;
            pass.applied.outcomes.push(Outcome {
                condition: step.condition,
                name: step.node.as_ref().map(|node| node.name.clone()),
                waits,
                blocked,
                done: step.done.clone(),
            });
        }
        if !plan.partial {
            self.prune(&mut pass, retained).await?;
        }
        Ok(pass.applied)
    }

    async fn apply_step(&self, step: &Step, pass: &mut Pass<'_>) -> Result<Left, Error> {
        if step.decision == Decision::Undecided {
            return Ok((step.waits.clone(), step.unplanned()));
        }
        let Some(block) = Block::of(step, pass) else {
            return Ok((self.apply_children(step, pass).await?, None));
        };
        // Outside a graph the steps before a step may be what its children are made of.
        if step.node.is_none() || step.children.is_empty() {
            return Ok((Vec::new(), Some(block.reason)));
        }
        // A call is made only when the steps are done that its step needs.
        let uncalled = (!step.calls.is_empty()).then(|| block.reason.clone());
        let (waits, blocked) = if step.waits.is_empty() {
            self.apply_allowed_changes(step, block, pass).await?
        } else {
            self.observe_blocked(step, block, pass).await?
        };
        Ok((waits, blocked.or(uncalled)))
    }

    /// Applies the children of a step.
    async fn apply_children(&self, step: &Step, pass: &mut Pass<'_>) -> Result<Vec<Wait>, Error> {
        if !step.waits.is_empty() {
            return Ok(step.waits.clone());
        }
        let mut waits = Vec::new();
        for child in &step.children {
            if child.in_order && !waits.is_empty() {
                match self.presence(child).await {
                    Ok(presence) if self.held_back(child, &presence).is_some() => continue,
                    Ok(_) => {}
                    Err(error) => {
                        waits.push(pass.applied.refused(error)?);
                        break;
                    }
                }
            }
            match self.child(child, step, None, pass).await {
                Ok(wait) => waits.extend(wait.filter(|_| !child.readiness_optional)),
                Err(error) => {
                    waits.push(pass.applied.refused(error)?);
                    // What comes after it in the step may stand on it.
                    break;
                }
            }
        }
        // The calls of a step come after its children; the reconcile makes them.
        Ok(if waits.is_empty() { step.pending() } else { waits })
    }

    /// Applies what a blocked step may change: children that exist, as long as their version stays. Stops at the first child
    /// that would have to be created or would change its version, because later ones may stand on it.
    async fn apply_allowed_changes(&self, step: &Step, block: Block, pass: &mut Pass<'_>) -> Result<Left, Error> {
        let mut waits = Vec::new();
        let mut exists = false;
        for child in &step.children {
            let presence = match self.presence(child).await {
                Ok(presence) => presence,
                Err(error) => {
                    waits.push(pass.applied.refused(error)?);
                    return Ok((waits, None));
                }
            };
            exists |= matches!(presence, Presence::Ours(_));
            if let Some(held) = self.held_back(child, &presence) {
                if child.readiness_optional {
                    continue;
                }
                let reason = if exists { format!("{held} until {}", block.until) } else { block.reason };
                waits.retain(|wait: &Wait| wait.failed);
                return Ok((waits, Some(reason)));
            }
            match self.child(child, step, Some(presence), pass).await {
                Ok(wait) => waits.extend(wait.filter(|_| !child.readiness_optional)),
                Err(error) => {
                    waits.push(pass.applied.refused(error)?);
                    return Ok((waits, None));
                }
            }
        }
        Ok((waits, None))
    }

    /// What a blocked step must not do to a child now, in words.
    fn held_back(&self, child: &Child, presence: &Presence) -> Option<String> {
        let (reference, wanted) = (child.reference(), &child.object.metadata);
        match presence {
            Presence::Ours(meta) => {
                let (now, next) = (annotation(meta, VERSION), annotation(wanted, VERSION));
                let version = |version: Option<&String>| version.map_or("none", String::as_str).to_owned();
                // An older operator wrote no version: what it made is taken for the present one.
                (now.is_some() && now != next && child.random_keys.is_empty()).then(|| {
                    format!(
                        "{} stays at version {} and does not change to {}",
                        reference.short(),
                        version(now),
                        version(next)
                    )
                })
            }
            Presence::Absent => {
                let base = label(wanted, BASE).filter(|_| !is_job(&reference));
                let is_older = |(other, meta): &(Ref, ObjectMeta)| {
                    other.resource == reference.resource && label(meta, BASE) == base
                };
                // A new generation of what is there already is a change of it.
                let is_change = base.is_some() && self.existing.iter().any(is_older);
                (!is_change).then(|| format!("{} is not created", reference.short()))
            }
            Presence::Refused(_) => None,
        }
    }

    /// Reads the status of a blocked step's children without applying them. The step counts as not started until all of them
    /// exist.
    async fn observe_blocked(&self, step: &Step, block: Block, pass: &mut Pass<'_>) -> Result<Left, Error> {
        let mut waits = Vec::new();
        for child in step.children.iter().filter(|child| child.random_keys.is_empty() && !child.readiness_optional) {
            let live = match self.presence(child).await {
                Ok(Presence::Ours(meta)) => self.live(&child.reference(), &meta).await,
                Ok(_) => Ok(None),
                Err(error) => Err(error),
            };
            match live {
                Ok(Some(live)) => waits.extend(child.wait(&live)),
                Ok(None) => return Ok((Vec::new(), Some(block.reason))),
                Err(error) => {
                    waits.push(pass.applied.refused(error)?);
                    break;
                }
            }
        }
        Ok((waits, None))
    }

    /// Applies a child, and gives what it lacks to be ready. The `presence` is known beforehand if its step is blocked.
    async fn child(
        &self,
        child: &Child,
        step: &Step,
        presence: Option<Presence>,
        pass: &mut Pass<'_>,
    ) -> Result<Option<Wait>, Error> {
        if !child.random_keys.is_empty() {
            return self.ensure_random_secret(child).await;
        }
        let is_blocked = presence.is_some();
        let before = match presence {
            Some(presence) => presence,
            None => self.presence(child).await?,
        };
        let before = match before {
            Presence::Ours(meta) => Some(meta),
            Presence::Absent => None,
            Presence::Refused(wait) => {
                // It is not ours, so no watch of ours tells when it goes.
                pass.applied.requeue_within(FOREIGN_INTERVAL);
                return Ok(Some(*wait));
            }
        };
        let (reference, object) = (child.reference(), self.marked(child, step));
        let live = match self.job(&reference, before.as_deref()).await? {
            Some(job) => match self.outdated(child, &job).await? {
                Some(wait) => return Ok(Some(wait)),
                None => job,
            },
            None => match self.predecessor(child, pass).await? {
                Some(wait) => return Ok(Some(wait)),
                None => match self.write(child, &object, before.as_deref(), pass).await? {
                    Written::Live(live) => live,
                    Written::LeftAlone(wait) => return Ok(Some(*wait)),
                },
            },
        };
        let Some(wait) = child.wait(&live) else { return Ok(None) };
        if !wait.failed {
            return Ok(Some(wait));
        }
        let wait = self.explained(&reference, wait).await;
        // The logs of a failed Job stay until its successor may start.
        if is_blocked { Ok(Some(wait)) } else { self.retry(child, &live, object, wait, pass).await.map(Some) }
    }

    /// The object as it is applied.
    pub(crate) fn marked(&self, child: &Child, step: &Step) -> DynamicObject {
        let mut object = child.object.clone();
        self.owner.mark(&mut object, child.is_kept());
        if let Some(node) = &step.node {
            object.metadata.labels.get_or_insert_default().insert(STEP.into(), node.name.to_string());
        }
        object
    }
}

/// Why a step cannot start.
struct Block {
    /// The whole reason.
    reason: String,
    /// What has to come true, such as `well is ready`.
    until: String,
}

impl Block {
    /// What the step needs and is not done; none if it may start. A step outside a graph needs all that come before it.
    fn of(step: &Step, pass: &Pass<'_>) -> Option<Self> {
        let before = &pass.applied.outcomes;
        let Some(node) = &step.node else {
            let until = format!("{} is true", before.iter().find(|outcome| !outcome.is_done())?.condition);
            return Some(Self { reason: format!("starts when {until}"), until });
        };
        let is_done = |need: &StepName| {
            pass.plan.removed_steps.contains(need)
                || before.iter().any(|outcome| outcome.name.as_ref() == Some(need) && outcome.is_done())
        };
        let missing: Vec<&str> = node.needs.iter().filter(|need| !is_done(need)).map(StepName::as_str).collect();
        let verb = if missing.len() > 1 { "are" } else { "is" };
        let until = format!("{} {verb} ready", missing.join(" and "));
        (!missing.is_empty()).then(|| Self { reason: format!("{} starts when {until}", node.name), until })
    }
}
