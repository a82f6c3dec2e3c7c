//! One reconcile: read, validate, plan, apply, report.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use c5c3_api::Problems;
use jiff::Timestamp;
use k8s_openapi::api::batch::v1::Job;
use kube::api::DynamicObject;
use kube::core::ObjectMeta;
use kube::runtime::controller::Action;
use kube::{Client, Resource as _};
use serde_json::Value;

use crate::apply::{Applied, Executor};
use crate::apply_cache::ApplyCache;
use crate::backoff::Backoff;
use crate::children::Children;
use crate::controller::{Controller, Verdict};
use crate::error::{Error, Stage};
use crate::events::{Events, Published};
use crate::finalizer::{self, Cleanup, Progress};
use crate::inputs::Inputs;
use crate::metrics::Metrics;
use crate::object::{KindRef, Ref, is_not_found};
use crate::ownership::Owner;
use crate::plan::Plan;
use crate::plan_check::Declared;
use crate::preview::Assumed;
use crate::probes::Probes;
use crate::remote::{Made, Outside};
use crate::report::{self, Outcome, Types, waits_of};
use crate::retention::Retained;
use crate::summary::Summary;
use crate::wait::Wait;
use crate::watches::Watches;
use crate::write_limit::WriteLimit;

/// How often a deletion looks whether what it waits for is gone, beside being told by watches.
pub(crate) const CLEANUP_INTERVAL: Duration = Duration::from_secs(5);

/// How soon is tried again what must go on although the spec is wrong.
const MAINTAIN_INTERVAL: Duration = Duration::from_mins(1);

/// What every reconcile of a controller shares.
pub struct Context<C: Controller> {
    /// The controller.
    pub controller: C,
    /// The operator it belongs to: its field manager and the value of its ownership label.
    pub manager: &'static str,
    /// The cluster.
    pub client: Client,
    /// The one namespace that is looked at; all of them when absent.
    pub namespace: Option<String>,
    /// The children that are there.
    pub children: Arc<Children>,
    /// The probes, and what was answered last.
    pub probes: Probes,
    /// The watches on what objects refer to.
    pub watches: Watches,
    /// Where events go.
    pub events: Events,
    /// The events of plans that were published.
    pub published: Published,
    /// The last object that was valid, with its uid.
    pub last_valid: Mutex<HashMap<Ref, (String, C::Kind)>>,
    /// Where numbers go.
    pub metrics: Metrics,
    /// Failures in a row.
    pub backoff: Backoff<Ref>,
    /// What was written lately.
    pub write_limit: WriteLimit,
    /// Children as they were last applied or read.
    pub apply_cache: ApplyCache,
    /// Held while finalizers are removed; see [`Controller::guards`].
    pub(crate) releasing: tokio::sync::Mutex<()>,
    /// The remote, and what is remembered of it.
    pub(crate) outside: Outside,
    /// Objects that are read as they would be, when nothing is to be done but to look; see [`crate::preview`].
    pub(crate) assumed: Option<Assumed>,
    /// When to look again though nothing happened.
    pub resync: Duration,
}

impl<C: Controller> Context<C> {
    /// Forgets an object that is gone.
    pub fn forget(&self, about: &Ref) {
        self.watches.keep_only(about, &HashSet::new());
        self.probes.keep_only(about, &[]);
        self.metrics.waits(C::NAME, about, &[]);
        self.metrics.conditions(about, &[]);
        self.published.take_new(about, &[]);
        self.last_valid.lock().unwrap_or_else(PoisonError::into_inner).remove(about);
        self.backoff.reset(about);
        self.write_limit.forget(about);
        self.apply_cache.forget(about);
        self.outside.forget(about);
    }
}

/// A process that is no longer the leader reports no metrics of objects: another process does.
impl<C: Controller> Drop for Context<C> {
    fn drop(&mut self) {
        self.metrics.clear(C::NAME, &C::Kind::kind(&()));
    }
}

/// Brings the cluster to what an object asks for, as far as it can, and says how far it got.
///
/// The object is read from the API: the watch that triggered this reconcile may not have seen yet the status that the last
/// one wrote, and comparing with an old status would lose the new one.
pub async fn reconcile<C: Controller>(about: &Ref, context: &Context<C>) -> Result<Action, Error> {
    let Some(object) = read(about, &context.client).await? else {
        context.forget(about);
        return Ok(Action::await_change());
    };
    Reconcile::new(&object, about, context).run().await
}

/// Reports on the object that its reconcile fails repeatedly.
pub async fn report_failure<C: Controller>(about: &Ref, error: &Error, context: &Context<C>) {
    // If the object cannot be read or its status not be written, the log and the metric have to do.
    if let Ok(Some(object)) = read(about, &context.client).await {
        let _ = Reconcile::new(&object, about, context).report(&Outcome::Failed(error)).await;
    }
}

async fn read(about: &Ref, client: &Client) -> Result<Option<DynamicObject>, Error> {
    match about.api(client.clone()).get(&about.name).await {
        Ok(object) => Ok(Some(object)),
        Err(error) if is_not_found(&error) => Ok(None),
        Err(source) => Err(Error::ReadFailed { object: Box::new(about.clone()), source: Box::new(source) }),
    }
}

pub(crate) struct Reconcile<'a, C: Controller> {
    pub(crate) object: &'a DynamicObject,
    pub(crate) about: &'a Ref,
    pub(crate) context: &'a Context<C>,
    pub(crate) owner: Owner,
    pub(crate) now: Timestamp,
}

impl<'a, C: Controller> Reconcile<'a, C> {
    pub(crate) fn new(object: &'a DynamicObject, about: &'a Ref, context: &'a Context<C>) -> Self {
        let uid = object.metadata.uid.clone().unwrap_or_default();
        let owner = Owner { reference: about.clone(), uid, manager: context.manager };
        Self { object, about, context, owner, now: Timestamp::now() }
    }

    async fn run(&self) -> Result<Action, Error> {
        if self.object.metadata.deletion_timestamp.is_some() {
            return self.release_finalizer().await;
        }
        let value = serde_json::to_value(self.object).unwrap_or(Value::Null);
        let existing = self.context.children.of(&self.owner);
        let retained = self.context.controller.retention(&value);
        let is_there = |one: &&Retained| one.may_differ() && existing.iter().any(|(child, _)| *child == one.object);
        if !self.is_paused() {
            // What is refused here is asked for again by the plan, which says so; nothing of it goes meanwhile.
            self.executor(&existing).retain(retained.iter().filter(is_there)).await?;
        }
        let parsed = match self.timed(Stage::Validate, || self.context.controller.parse(&value)) {
            Ok(parsed) => parsed,
            Err(problems) => return self.invalid(&problems, value, None).await,
        };
        if let Some(finalizer) = C::FINALIZER
            && !finalizer::has(self.object, finalizer)
        {
            // The change comes back through the watch and starts the next reconcile.
            finalizer::add(&self.context.client, self.object, self.about, finalizer).await?;
            return Ok(Action::await_change());
        }
        let inputs = self.read_inputs(parsed, &existing).await?;
        match self.timed(Stage::Validate, || self.context.controller.validate(&inputs)) {
            Verdict::Invalid(problems) => self.invalid(&problems, value, Some(&inputs)).await,
            Verdict::Wait(mut waits) => {
                self.watch_only(&[&inputs], &existing);
                waits.extend(self.untold(&inputs, &waits));
                let action = self.write_status(&Outcome::Waiting(&waits)).await?;
                Ok(self.paced(&Made::default(), &inputs, None).unwrap_or(action))
            }
            Verdict::Valid(valid) => {
                self.watch_only(&[&inputs], &existing);
                if !self.is_paused() {
                    self.guard(&inputs).await?;
                }
                self.remember_valid(&inputs.object);
                let plan = self.timed(Stage::Plan, || self.context.controller.plan(&valid, &inputs));
                self.execute(&plan, &inputs, &retained).await
            }
        }
    }

    /// Applies a plan as far as it goes, or only reads how its children are while the object is paused.
    async fn execute(&self, plan: &Plan, inputs: &Inputs<C::Kind>, retained: &[Retained]) -> Result<Action, Error> {
        self.check(plan)?;
        self.check_places(plan)?;
        let existing = self.context.children.of(&self.owner);
        if self.is_paused() {
            let mut observed = self.executor(&existing).observe(plan).await?;
            observed.left = self.untold(inputs, &waits_of(&observed));
            let action = self.write_status(&Outcome::Paused(&observed, plan)).await?;
            return Ok(self.paced(&Made::default(), inputs, None).unwrap_or(action));
        }
        let started = Instant::now();
        let applied = self.executor(&existing).apply_retaining(plan, retained).await;
        self.context.metrics.observe_duration(C::NAME, Stage::Apply, started.elapsed());
        let mut applied = applied?;
        let made = self.make_calls(plan, inputs, &mut applied).await?;
        let untold = self.untold(inputs, &waits_of(&applied));
        applied.left.extend(untold);
        self.write_status(&Outcome::Applied(&applied, plan)).await?;
        for event in self.context.published.take_new(self.about, &plan.events) {
            let (uid, events) = (&self.owner.uid, &self.context.events);
            events.publish(self.about, uid, event.warning, event.reason, &event.note).await;
        }
        for note in &applied.corrected {
            self.context.events.publish(self.about, &self.owner.uid, false, "DriftCorrected", note).await;
        }
        if let Some(refused) = &applied.refused {
            return Err(Error::ChildRefused(refused.message(self.object.metadata.namespace.as_deref())));
        }
        Ok(self.paced(&made, inputs, Some((&applied, plan))).unwrap_or_else(|| self.requeue(&applied)))
    }

    fn requeue(&self, applied: &Applied) -> Action {
        let resync = self.resync();
        Action::requeue(applied.requeue_after.map_or(resync, |after| after.min(resync)))
    }

    pub(crate) fn is_paused(&self) -> bool {
        report::is_paused(self.object)
    }

    fn remember_valid(&self, object: &C::Kind) {
        let mut last = self.context.last_valid.lock().unwrap_or_else(PoisonError::into_inner);
        last.insert(self.about.clone(), (self.owner.uid.clone(), object.clone()));
    }

    /// Reports that the spec is wrong. What must go on all the same is applied, and what the last valid spec asked for is looked
    /// at.
    async fn invalid(
        &self,
        problems: &Problems,
        value: Value,
        inputs: Option<&Inputs<C::Kind>>,
    ) -> Result<Action, Error> {
        match self.maintain(value, inputs).await {
            Ok(None) => {
                self.write_status(&Outcome::Invalid(problems, None)).await?;
                // A wrong spec waits for a change, not for time.
                Ok(Action::await_change())
            }
            Ok(Some((applied, plan))) => {
                self.write_status(&Outcome::Invalid(problems, Some((&applied, &plan)))).await?;
                let is_refused = applied.refused.is_some();
                Ok(if is_refused { Action::requeue(MAINTAIN_INTERVAL) } else { self.requeue(&applied) })
            }
            Err(error) => {
                tracing::warn!(%error, reason = error.reason(), "the spec is invalid, and its maintenance fails");
                self.write_status(&Outcome::Invalid(problems, None)).await?;
                Ok(Action::requeue(MAINTAIN_INTERVAL))
            }
        }
    }

    /// The last object of this uid that was valid, if one is known since the operator started.
    pub(crate) fn last_valid(&self) -> Option<C::Kind> {
        let last = self.context.last_valid.lock().unwrap_or_else(PoisonError::into_inner).get(self.about).cloned();
        last.filter(|(uid, _)| *uid == self.owner.uid).map(|(_, object)| object)
    }

    async fn maintain(&self, value: Value, before: Option<&Inputs<C::Kind>>) -> Result<Option<(Applied, Plan)>, Error> {
        let last = self.last_valid();
        let was_valid = last.is_some();
        let existing = self.context.children.of(&self.owner);
        let Some(object) = last.or_else(|| serde_json::from_value(value).ok()) else {
            self.watch_only(&before.into_iter().collect::<Vec<_>>(), &existing);
            return Ok(None);
        };
        let inputs = self.read_inputs(object, &existing).await?;
        self.watch_only(&before.into_iter().chain([&inputs]).collect::<Vec<_>>(), &existing);
        let executor = self.executor(&existing);
        if let Some(plan) = self.context.controller.maintain(&inputs) {
            let plan = Plan { partial: true, ..plan };
            self.check(&plan)?;
            if plan.calls().next().is_some() {
                return Err(broken::<C>("maintain() has calls".to_owned()));
            }
            let applied = if self.is_paused() { executor.observe(&plan).await? } else { executor.apply(&plan).await? };
            return Ok(Some((applied, plan)));
        }
        match self.context.controller.validate(&inputs) {
            Verdict::Valid(valid) if was_valid => {
                let plan = self.context.controller.plan(&valid, &inputs);
                Ok(Some((executor.observe(&plan).await?, plan)))
            }
            _ => Ok(None),
        }
    }

    /// A child elsewhere would be left behind when the object goes.
    pub(crate) fn check_places(&self, plan: &Plan) -> Result<(), Error> {
        let far = plan.children().find(|child| !self.owner.garbage_collects(&child.object.metadata));
        match far.filter(|_| !C::CROSS_NAMESPACE) {
            Some(child) => {
                Err(broken::<C>(format!("{} is in another namespace, and CROSS_NAMESPACE is false", child.reference())))
            }
            None => Ok(()),
        }
    }

    /// What only a bug in the operator can get wrong.
    pub(crate) fn check(&self, plan: &Plan) -> Result<(), Error> {
        let children = self.context.controller.children();
        // A kind whose steps have no conditions of their own puts them under those about the whole.
        let conditions = if C::CONDITIONS.is_empty() { C::SUMMARY } else { C::CONDITIONS };
        let remote = self.context.outside.handle.is_some();
        let summary = C::SUMMARY;
        let declared = Declared { kind: &self.about.resource, conditions, summary, children: &children, remote };
        declared.flaw(plan).map_or(Ok(()), |flaw| Err(broken::<C>(flaw)))
    }

    async fn release_finalizer(&self) -> Result<Action, Error> {
        let Some(finalizer) = C::FINALIZER.filter(|finalizer| finalizer::has(self.object, finalizer)) else {
            return Ok(Action::await_change());
        };
        if finalizer::has(self.object, finalizer::ORPHAN) {
            // Orphans are children; what lives outside the cluster is none.
            if let Some(action) = self.farewell().await? {
                return Ok(action);
            }
            self.release(finalizer).await?;
            return Ok(Action::await_change());
        }
        if let Some(held) = self.waits_for_retention().await? {
            self.write_status(&Outcome::Deleting(&held)).await?;
            return Ok(Action::requeue(CLEANUP_INTERVAL));
        }
        let kinds = self.context.controller.children();
        let namespace = self.context.namespace.as_deref();
        let waves = self.context.controller.teardown();
        let cross_namespace = if C::CROSS_NAMESPACE { kinds.as_slice() } else { &[] };
        let jobs = kinds.iter().find(|kind| **kind == KindRef::of::<Job>()).cloned();
        let cleanup = Cleanup { cross_namespace, jobs, waves: &waves, namespace, timeout: C::CLEANUP_TIMEOUT };
        match cleanup.run(&self.executor(&[]), self.object).await? {
            Progress::Done => {}
            Progress::Waiting(waits, deadline) => {
                self.write_status(&Outcome::Deleting(&waits)).await?;
                return Ok(Action::requeue(deadline.min(CLEANUP_INTERVAL)));
            }
            Progress::GaveUp(note) => {
                tracing::warn!(note, "cleanup given up");
                self.context.events.publish(self.about, &self.owner.uid, true, "CleanupAbandoned", &note).await;
            }
        }
        if let Some(action) = self.farewell().await? {
            return Ok(action);
        }
        self.release(finalizer).await?;
        Ok(Action::await_change())
    }

    /// Brings up to date what becomes of data, and says what has not followed. That holds the object for as long as it takes:
    /// data that is lost cannot be restored. The annotation that skips the cleanup releases it.
    async fn waits_for_retention(&self) -> Result<Option<Vec<Wait>>, Error> {
        let value = serde_json::to_value(self.object).unwrap_or(Value::Null);
        let retained = self.context.controller.retention(&value);
        let executor = self.executor(&[]);
        let held = async {
            let mut waits = executor.retain(&retained).await?;
            for one in &retained {
                waits.extend(executor.unconfirmed(one).await?);
            }
            Ok(waits)
        };
        match held.await {
            Ok(waits) if waits.is_empty() => Ok(None),
            _ if finalizer::is_skipped(self.object) => Ok(None),
            held => held.map(Some),
        }
    }

    pub(crate) async fn write_status(&self, outcome: &Outcome<'_>) -> Result<Action, Error> {
        let started = Instant::now();
        let said = self.report(outcome).await;
        self.context.metrics.observe_duration(C::NAME, Stage::Report, started.elapsed());
        said?;
        Ok(Action::requeue(self.resync()))
    }

    async fn report(&self, outcome: &Outcome<'_>) -> Result<(), Error> {
        let types = Types { summary: C::SUMMARY, steps: C::CONDITIONS };
        let summary = |state: Summary<'_>| self.context.controller.summary(state);
        let report = report::report(self.object, self.context.manager, types, outcome, summary, self.now);
        self.context.metrics.waits(C::NAME, self.about, &report.waits);
        self.context.metrics.conditions(self.about, &report.conditions);
        if !report.changed || !C::REPORTS {
            return Ok(());
        }
        report::write(&self.context.client, self.about, &self.owner.uid, self.context.manager, &report).await?;
        if let Some(transition) = &report.transition {
            let stuck = report.waits.iter().any(|wait| wait.failed);
            let warning = stuck || matches!(outcome, Outcome::Invalid(..) | Outcome::Failed(_));
            let (reason, message) = (&transition.reason, &transition.message);
            tracing::info!(reason, message, "{} is now {:?}", transition.condition, transition.status);
            self.context.events.publish(self.about, &self.owner.uid, warning, reason, message).await;
        }
        Ok(())
    }

    /// With jitter, so that objects that came together do not come back together.
    pub(crate) fn resync(&self) -> Duration {
        self.context.resync.mul_f64(rand::random_range(0.9..=1.1))
    }

    pub(crate) fn executor<'e>(&'e self, existing: &'e [(Ref, ObjectMeta)]) -> Executor<'e> {
        let (write_limit, apply_cache) = (Some(&self.context.write_limit), Some(&self.context.apply_cache));
        Executor { client: &self.context.client, owner: &self.owner, existing, now: self.now, write_limit, apply_cache }
    }

    fn timed<T>(&self, stage: Stage, work: impl FnOnce() -> T) -> T {
        let started = Instant::now();
        let done = work();
        self.context.metrics.observe_duration(C::NAME, stage, started.elapsed());
        done
    }
}

pub(crate) fn broken<C: Controller>(what: String) -> Error {
    Error::BrokenPlan { controller: C::NAME, what }
}
