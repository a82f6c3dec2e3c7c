//! One reconcile: read, validate, plan, apply, report.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use kube::Client;
use kube::api::DynamicObject;
use kube::core::{ApiResource, ObjectMeta, PartialObjectMeta};
use kube::runtime::controller::Action;
use kube::runtime::reflector::Store;
use serde_json::Value;

use crate::apply::Executor;
use crate::backoff::Backoff;
use crate::brake::Brake;
use crate::controller::{Controller, Verdict};
use crate::error::{Error, Stage};
use crate::events::Events;
use crate::finalizer::{self, Cleanup, Progress};
use crate::inputs::{Found, Inputs};
use crate::metrics::Metrics;
use crate::object::{KindRef, Ref, is_not_found, is_unknown_kind};
use crate::ownership::Owner;
use crate::plan::Plan;
use crate::report::{self, Outcome};
use crate::retention::Retained;
use crate::wait::Wait;
use crate::watches::Watches;

/// How often a reference may lead to another before it is taken for a circle.
const DEEPEST_REFERENCE: usize = 8;

/// How often a deletion looks whether what it waits for is gone, beside being told by watches.
const CLEANUP_INTERVAL: Duration = Duration::from_secs(5);

/// The metadata of every child of one controller, kind by kind, as the watches know it.
#[derive(Default)]
pub struct Children {
    stores: HashMap<ApiResource, Store<PartialObjectMeta<DynamicObject>>>,
}

impl Children {
    /// Adds the store of a kind.
    pub fn insert(&mut self, resource: ApiResource, store: Store<PartialObjectMeta<DynamicObject>>) {
        self.stores.insert(resource, store);
    }

    /// The children of one owner.
    pub fn of(&self, owner: &Owner) -> Vec<(Ref, ObjectMeta)> {
        let mut children = Vec::new();
        for (resource, store) in &self.stores {
            for child in store.state() {
                if owner.owns(&child.metadata) {
                    children.push((Ref::of(resource, &child.metadata), child.metadata.clone()));
                }
            }
        }
        children.sort_by_key(|(reference, _)| reference.to_string());
        children
    }
}

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
    pub children: Children,
    /// The watches on what objects refer to.
    pub watches: Watches,
    /// Where events go.
    pub events: Events,
    /// Where numbers go.
    pub metrics: Metrics,
    /// Failures in a row.
    pub backoff: Backoff<Ref>,
    /// What was written lately.
    pub brake: Brake,
    /// When to look again though nothing happened.
    pub resync: Duration,
}

impl<C: Controller> Context<C> {
    /// Forgets an object that is gone.
    pub fn forget(&self, about: &Ref) {
        self.watches.keep_only(about, &std::collections::HashSet::new());
        self.metrics.waits(C::NAME, about, &[]);
        self.backoff.reset(about);
        self.brake.forget(about);
    }
}

/// Brings the cluster to what an object asks for, as far as it can, and says how far it got.
///
/// The object is read anew: the watch that asked for this reconcile may not have heard yet of the status that the last
/// one wrote, and comparing with an old status would lose the new one.
pub async fn reconcile<C: Controller>(about: &Ref, context: &Context<C>) -> Result<Action, Error> {
    let Some(object) = read(about, &context.client).await? else {
        context.forget(about);
        return Ok(Action::await_change());
    };
    Reconcile::new(&object, about, context).run().await
}

/// Says on the object that reconciling it fails again and again.
pub async fn say_failed<C: Controller>(about: &Ref, error: &Error, context: &Context<C>) {
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

struct Reconcile<'a, C: Controller> {
    object: &'a DynamicObject,
    about: &'a Ref,
    context: &'a Context<C>,
    owner: Owner,
    now: Timestamp,
}

impl<'a, C: Controller> Reconcile<'a, C> {
    fn new(object: &'a DynamicObject, about: &'a Ref, context: &'a Context<C>) -> Self {
        let uid = object.metadata.uid.clone().unwrap_or_default();
        let owner = Owner { reference: about.clone(), uid, manager: context.manager };
        Self { object, about, context, owner, now: Timestamp::now() }
    }

    async fn run(&self) -> Result<Action, Error> {
        if self.object.metadata.deletion_timestamp.is_some() {
            return self.let_go().await;
        }
        let value = serde_json::to_value(self.object).unwrap_or(Value::Null);
        let existing = self.context.children.of(&self.owner);
        let retained = self.context.controller.retention(&value);
        let is_there = |one: &&Retained| one.may_differ() && existing.iter().any(|(child, _)| *child == one.object);
        // What is refused here is asked for again by the plan, which says so; nothing of it goes meanwhile.
        self.executor(&existing).retain(retained.iter().filter(is_there)).await?;
        let parsed = match self.timed(Stage::Validate, || self.context.controller.parse(&value)) {
            Ok(parsed) => parsed,
            Err(problems) => return self.say(&Outcome::Invalid(&problems)).await,
        };
        if let Some(finalizer) = C::FINALIZER
            && !finalizer::has(self.object, finalizer)
        {
            // The change comes back through the watch and starts the next reconcile.
            finalizer::add(&self.context.client, self.object, self.about, finalizer).await?;
            return Ok(Action::await_change());
        }
        let inputs = self.read_references(parsed).await?;
        match self.timed(Stage::Validate, || self.context.controller.validate(&inputs)) {
            Verdict::Invalid(problems) => self.say(&Outcome::Invalid(&problems)).await,
            Verdict::Wait(waits) => self.say(&Outcome::Waiting(&waits)).await,
            Verdict::Valid(valid) => self.carry_out(&inputs, &valid, &retained).await,
        }
    }

    async fn carry_out(
        &self,
        inputs: &Inputs<C::Kind>,
        valid: &C::Valid,
        retained: &[Retained],
    ) -> Result<Action, Error> {
        let plan = self.timed(Stage::Plan, || self.context.controller.plan(valid, inputs));
        self.check(&plan)?;
        let existing = self.context.children.of(&self.owner);
        let started = Instant::now();
        let applied = self.executor(&existing).apply_retaining(&plan, retained).await;
        self.context.metrics.took(C::NAME, Stage::Apply, started.elapsed());
        let applied = applied?;
        self.say(&Outcome::Applied(&applied, &plan)).await?;
        if let Some(refused) = &applied.refused {
            return Err(Error::ChildRefused(refused.message(self.object.metadata.namespace.as_deref())));
        }
        let resync = self.resync();
        Ok(Action::requeue(applied.again_after.map_or(resync, |after| after.min(resync))))
    }

    /// What only a bug in the operator can get wrong.
    fn check(&self, plan: &Plan) -> Result<(), Error> {
        let known = self.context.controller.children();
        let mut names = Vec::new();
        for step in &plan.steps {
            if !C::CONDITIONS.contains(&step.condition) {
                return Err(broken::<C>(format!("{} is not in CONDITIONS", step.condition)));
            }
            let stranger = step.children.iter().find(|child| !known.iter().any(|kind| kind.resource == child.resource));
            if let Some(child) = stranger {
                return Err(broken::<C>(format!("{} is of a kind that is not in children()", child.reference())));
            }
            if let Some(node) = &step.node {
                if let Some(need) = node.needs.iter().find(|need| !names.contains(*need)) {
                    return Err(broken::<C>(format!("{} needs {need}, which does not come before it", node.name)));
                }
                names.push(node.name);
            }
        }
        Ok(())
    }

    /// Fetches everything that the object refers to, and what that refers to in turn, and watches it from now on.
    async fn read_references(&self, object: C::Kind) -> Result<Inputs<C::Kind>, Error> {
        let started = Instant::now();
        let mut inputs = Inputs::new(object, self.now).with_entropy(rand::random());
        for _ in 0..DEEPEST_REFERENCE {
            let named = self.context.controller.needs(&inputs);
            let new: Vec<Ref> = named.into_iter().filter(|reference| !inputs.has_read(reference)).collect();
            if new.is_empty() {
                self.context.watches.keep_only(self.about, &inputs.references().cloned().collect());
                let probes = self.context.controller.probes(&inputs);
                if !C::PROBES && !probes.is_empty() {
                    return Err(broken::<C>("there are probes, and PROBES says that there are none".to_owned()));
                }
                for probe in probes {
                    let answer = probe.ask(&self.context.client).await;
                    inputs.insert_answer(probe, answer);
                }
                self.context.metrics.took(C::NAME, Stage::Read, started.elapsed());
                return Ok(inputs);
            }
            for reference in new {
                self.may_read(&reference)?;
                self.context.watches.add(self.about, &reference);
                let found = match reference.api(self.context.client.clone()).get(&reference.name).await {
                    Ok(found) => Found::Object(Box::new(found)),
                    Err(error) if is_unknown_kind(&error) => Found::UnknownKind,
                    Err(error) if is_not_found(&error) => Found::Missing,
                    Err(source) => {
                        return Err(Error::ReadFailed { object: Box::new(reference), source: Box::new(source) });
                    }
                };
                inputs.insert(reference, found);
            }
        }
        Err(broken::<C>(format!("needs() goes deeper than {DEEPEST_REFERENCE} references")))
    }

    /// What only a bug in the operator can get wrong: it would be refused where it has no more rights than it says it needs.
    fn may_read(&self, reference: &Ref) -> Result<(), Error> {
        let controller = &self.context.controller;
        let is_it = |kind: &KindRef| kind.resource == reference.resource;
        if controller.reads().iter().any(is_it) || controller.children().iter().any(is_it) {
            return Ok(());
        }
        Err(broken::<C>(format!("{reference} is of a kind that is not in reads()")))
    }

    async fn let_go(&self) -> Result<Action, Error> {
        let Some(finalizer) = C::FINALIZER.filter(|finalizer| finalizer::has(self.object, finalizer)) else {
            return Ok(Action::await_change());
        };
        if finalizer::has(self.object, finalizer::ORPHAN) {
            finalizer::remove(&self.context.client, self.object, self.about, finalizer).await?;
            return Ok(Action::await_change());
        }
        if let Some(held) = self.held_by_data().await? {
            self.say(&Outcome::Deleting(&held)).await?;
            return Ok(Action::requeue(CLEANUP_INTERVAL));
        }
        let kinds = self.context.controller.children();
        let namespace = self.context.namespace.as_deref();
        let waves = self.context.controller.teardown();
        let cleanup = Cleanup { kinds: &kinds, waves: &waves, namespace, patience: C::PATIENCE };
        match cleanup.run(&self.executor(&[]), self.object).await? {
            Progress::Done => {}
            Progress::Waiting(waits, deadline) => {
                self.say(&Outcome::Deleting(&waits)).await?;
                return Ok(Action::requeue(deadline.min(CLEANUP_INTERVAL)));
            }
            Progress::GaveUp(left) => {
                let note = format!("left behind, and to be deleted by hand: {}", left.join(", "));
                tracing::warn!(left = left.join(", "), "cleanup given up");
                self.context.events.publish(self.about, &self.owner.uid, true, "CleanupAbandoned", &note).await;
            }
        }
        finalizer::remove(&self.context.client, self.object, self.about, finalizer).await?;
        Ok(Action::await_change())
    }

    /// Brings up to date what becomes of data, and says what has not followed. That holds the object for as long as it takes:
    /// what is lost is lost. It is let go when someone asks for it.
    async fn held_by_data(&self) -> Result<Option<Vec<Wait>>, Error> {
        let value = serde_json::to_value(self.object).unwrap_or(Value::Null);
        let retained = self.context.controller.retention(&value);
        let executor = self.executor(&[]);
        let held = async {
            let mut waits = executor.retain(&retained).await?;
            for one in &retained {
                waits.extend(executor.unfollowed(one).await?);
            }
            Ok(waits)
        };
        match held.await {
            Ok(waits) if waits.is_empty() => Ok(None),
            _ if finalizer::is_skipped(self.object) => Ok(None),
            held => held.map(Some),
        }
    }

    async fn say(&self, outcome: &Outcome<'_>) -> Result<Action, Error> {
        let started = Instant::now();
        let said = self.report(outcome).await;
        self.context.metrics.took(C::NAME, Stage::Report, started.elapsed());
        said?;
        Ok(match outcome {
            // A wrong spec waits for a change, not for time.
            Outcome::Invalid(_) => Action::await_change(),
            _ => Action::requeue(self.resync()),
        })
    }

    async fn report(&self, outcome: &Outcome<'_>) -> Result<(), Error> {
        let report = report::report(self.object, self.context.manager, C::CONDITIONS, outcome, self.now);
        self.context.metrics.waits(C::NAME, self.about, &report.waits);
        if !report.changed {
            return Ok(());
        }
        report::write(&self.context.client, self.about, &self.owner.uid, self.context.manager, &report).await?;
        if let Some(ready) = &report.turned {
            let stuck = report.waits.iter().any(|wait| wait.failed);
            let warning = stuck || matches!(outcome, Outcome::Invalid(_) | Outcome::Failed(_));
            tracing::info!(reason = ready.reason, message = ready.message, "Ready is now {:?}", ready.status);
            self.context.events.publish(self.about, &self.owner.uid, warning, &ready.reason, &ready.message).await;
        }
        Ok(())
    }

    /// With jitter, so that objects that came together do not come back together.
    fn resync(&self) -> Duration {
        self.context.resync.mul_f64(rand::random_range(0.9..=1.1))
    }

    fn executor<'e>(&'e self, existing: &'e [(Ref, ObjectMeta)]) -> Executor<'e> {
        let brake = Some(&self.context.brake);
        Executor { client: &self.context.client, owner: &self.owner, existing, now: self.now, brake }
    }

    fn timed<T>(&self, stage: Stage, work: impl FnOnce() -> T) -> T {
        let started = Instant::now();
        let done = work();
        self.context.metrics.took(C::NAME, stage, started.elapsed());
        done
    }
}

fn broken<C: Controller>(what: String) -> Error {
    Error::BrokenPlan { controller: C::NAME, what }
}
