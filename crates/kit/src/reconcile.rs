//! One reconcile: read, validate, plan, apply, report.

use std::collections::HashMap;
use std::sync::Arc;
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
use crate::controller::{Cleanup, Controller, Verdict};
use crate::error::{Error, Stage};
use crate::events::Events;
use crate::finalizer::{self, Progress};
use crate::inputs::{Found, Inputs};
use crate::metrics::Metrics;
use crate::object::Ref;
use crate::ownership::Owner;
use crate::report::{self, Outcome};
use crate::watches::Watches;

/// How often a reference may lead to another before it is taken for a circle.
const DEEPEST_REFERENCE: usize = 8;

/// What is left behind is looked at again this often while an object is being deleted.
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
    /// When to look again though nothing happened.
    pub resync: Duration,
}

/// Brings the cluster to what `object` asks for, as far as it can, and says how far it got.
pub async fn reconcile<C: Controller>(object: Arc<DynamicObject>, context: Arc<Context<C>>) -> Result<Action, Error> {
    let reconcile = Reconcile::new(&object, &context);
    let result = reconcile.run().await;
    match &result {
        Ok(_) => context.backoff.reset(&reconcile.about),
        Err(error) => {
            context.metrics.failed(C::NAME, error);
            tracing::warn!(%error, reason = error.reason(), "reconcile failed; it is tried again");
        }
    }
    result
}

/// How long to wait after a failure. A failure that repeats is said on the object, too.
pub async fn failed<C: Controller>(object: &DynamicObject, error: &Error, context: &Context<C>) {
    let reconcile = Reconcile::new(object, context);
    // If the status cannot be written either, the log and the metric have to do.
    if !matches!(error, Error::ReportFailed { .. }) {
        let _ = reconcile.report(&Outcome::Failed(error)).await;
    }
}

struct Reconcile<'a, C: Controller> {
    object: &'a DynamicObject,
    context: &'a Context<C>,
    about: Ref,
    owner: Owner,
    now: Timestamp,
}

impl<'a, C: Controller> Reconcile<'a, C> {
    fn new(object: &'a DynamicObject, context: &'a Context<C>) -> Self {
        let about = Ref::of(&ApiResource::erase::<C::Kind>(&()), &object.metadata);
        let uid = object.metadata.uid.clone().unwrap_or_default();
        let owner = Owner { reference: about.clone(), uid, manager: context.manager };
        Self { object, context, about, owner, now: Timestamp::now() }
    }

    async fn run(&self) -> Result<Action, Error> {
        let value = serde_json::to_value(self.object).unwrap_or(Value::Null);
        let parsed = self.timed(Stage::Validate, || self.context.controller.parse(&value));
        let parsed = match parsed {
            Ok(parsed) => parsed,
            // Even an object that cannot be read can be let go.
            Err(_) if self.is_going() => return self.let_go(Cleanup::default()).await,
            Err(problems) => return self.say(&Outcome::Invalid(&problems)).await,
        };
        let inputs = self.read(parsed).await?;
        if self.is_going() {
            return self.let_go(self.context.controller.cleanup(&inputs)).await;
        }
        if let Some(finalizer) = C::FINALIZER
            && !finalizer::has(self.object, finalizer)
        {
            // The change comes back through the watch and starts the next reconcile.
            finalizer::add(&self.context.client, self.object, &self.about, finalizer).await?;
            return Ok(Action::await_change());
        }
        match self.timed(Stage::Validate, || self.context.controller.validate(&inputs)) {
            Verdict::Invalid(problems) => self.say(&Outcome::Invalid(&problems)).await,
            Verdict::Wait(waits) => self.say(&Outcome::Waiting(&waits)).await,
            Verdict::Valid(valid) => self.carry_out(&inputs, &valid).await,
        }
    }

    async fn carry_out(&self, inputs: &Inputs<C::Kind>, valid: &C::Valid) -> Result<Action, Error> {
        let plan = self.timed(Stage::Plan, || self.context.controller.plan(valid, inputs));
        let known = self.context.controller.children();
        for step in &plan.steps {
            let broken = |what| Error::BrokenPlan { controller: C::NAME, what };
            if !C::CONDITIONS.contains(&step.condition) {
                return Err(broken(format!("{} is not in CONDITIONS", step.condition)));
            }
            if let Some(child) = step.children.iter().find(|child| !known.contains(&child.resource)) {
                return Err(broken(format!("{} is of a kind that is not in children()", child.reference())));
            }
        }
        let existing = self.context.children.of(&self.owner);
        let started = Instant::now();
        let applied = self.executor(&existing).apply(&plan).await;
        self.context.metrics.took(C::NAME, Stage::Apply, started.elapsed());
        let applied = applied?;
        let again = applied.again_after;
        let action = self.say(&Outcome::Applied(&applied, &plan)).await?;
        Ok(again.map_or(action, Action::requeue))
    }

    /// Fetches everything that the object refers to, and what that refers to in turn, and watches it from now on.
    async fn read(&self, object: C::Kind) -> Result<Inputs<C::Kind>, Error> {
        let started = Instant::now();
        let mut inputs = Inputs::new(object, self.now);
        for _ in 0..DEEPEST_REFERENCE {
            let new: Vec<Ref> = self
                .context
                .controller
                .needs(&inputs)
                .into_iter()
                .filter(|reference| !inputs.has_read(reference))
                .collect();
            if new.is_empty() {
                break;
            }
            for reference in new {
                let found =
                    reference.api(self.context.client.clone()).get_opt(&reference.name).await.map_err(|source| {
                        Error::ReadFailed { object: Box::new(reference.clone()), source: Box::new(source) }
                    })?;
                inputs.insert(reference, found.map_or(Found::Missing, |found| Found::Object(Box::new(found))));
            }
        }
        self.context.watches.set(&self.about, inputs.references().cloned().collect());
        self.context.metrics.took(C::NAME, Stage::Read, started.elapsed());
        Ok(inputs)
    }

    async fn let_go(&self, cleanup: Cleanup) -> Result<Action, Error> {
        let Some(finalizer) = C::FINALIZER.filter(|finalizer| finalizer::has(self.object, finalizer)) else {
            return Ok(Action::await_change());
        };
        let existing = self.context.children.of(&self.owner);
        match finalizer::clean_up(&self.executor(&existing), self.object, &cleanup).await? {
            Progress::Done => {}
            Progress::Waiting(waits, deadline) => {
                self.say(&Outcome::Deleting(&waits)).await?;
                return Ok(Action::requeue(deadline.min(CLEANUP_INTERVAL)));
            }
            Progress::GaveUp(left) => {
                let left: Vec<String> = left.iter().map(ToString::to_string).collect();
                let note = format!("left behind, and to be deleted by hand: {}", left.join(", "));
                tracing::warn!(left = left.join(", "), "cleanup given up");
                self.context.events.publish(&self.about, &self.owner.uid, true, "CleanupAbandoned", &note).await;
            }
        }
        finalizer::remove(&self.context.client, self.object, &self.about, finalizer).await?;
        Ok(Action::await_change())
    }

    async fn say(&self, outcome: &Outcome<'_>) -> Result<Action, Error> {
        let started = Instant::now();
        let said = self.report(outcome).await;
        self.context.metrics.took(C::NAME, Stage::Report, started.elapsed());
        said?;
        Ok(match outcome {
            // A wrong spec waits for a change, not for time.
            Outcome::Invalid(_) => Action::await_change(),
            _ => Action::requeue(self.context.resync.mul_f64(rand::random_range(0.9..=1.1))),
        })
    }

    async fn report(&self, outcome: &Outcome<'_>) -> Result<(), Error> {
        let report = report::report(self.object, C::CONDITIONS, outcome, self.now);
        self.context.metrics.waits(C::NAME, &self.about, &report.waits);
        if !report.changed {
            return Ok(());
        }
        report::write(&self.context.client, &self.about, &self.owner.uid, self.context.manager, &report).await?;
        if let Some(ready) = &report.turned {
            let stuck = report.waits.iter().any(|wait| wait.failed);
            let warning = stuck || matches!(outcome, Outcome::Invalid(_) | Outcome::Failed(_));
            tracing::info!(reason = ready.reason, message = ready.message, "Ready is now {:?}", ready.status);
            self.context.events.publish(&self.about, &self.owner.uid, warning, &ready.reason, &ready.message).await;
        }
        Ok(())
    }

    fn executor<'e>(&'e self, existing: &'e [(Ref, ObjectMeta)]) -> Executor<'e> {
        Executor { client: &self.context.client, owner: &self.owner, existing, now: self.now }
    }

    fn timed<T>(&self, stage: Stage, work: impl FnOnce() -> T) -> T {
        let started = Instant::now();
        let done = work();
        self.context.metrics.took(C::NAME, stage, started.elapsed());
        done
    }

    fn is_going(&self) -> bool {
        self.object.metadata.deletion_timestamp.is_some()
    }
}
