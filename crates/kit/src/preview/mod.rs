//! What a changed object leads to: it is read, validated and planned against a live cluster by the functions of a reconcile, and
//! nothing is written. An apply is a dry run of the API, so that its defaults and its admission count; the report is a value.
//!
//! What follows from a status that other controllers have yet to write is not foreseen: a plan is what the next reconcile would
//! do, and [`Ahead`] what it is known to lead to.

mod children;
mod difference;

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use c5c3_api::Problems;
use kube::Client;
use kube::api::DynamicObject;
use kube::core::{ApiResource, ObjectMeta};
use serde_json::Value;

use crate::apply_cache::ApplyCache;
use crate::backoff::Backoff;
use crate::children::Children;
use crate::controller::{Controller, Verdict};
use crate::error::Error;
use crate::events::{Events, Published};
use crate::metrics::Metrics;
use crate::object::Ref;
use crate::ownership::{STEP, label};
use crate::plan::{Child, Decision, Plan};
use crate::probes::Probes;
use crate::prune;
use crate::reconcile::{Context, Reconcile};
use crate::remote::Outside;
use crate::wait::Wait;
use crate::watches::Watches;
use crate::write_limit::WriteLimit;

pub use difference::{FieldChange, differing};

/// How long all questions to a remote may take together: from where a person sits it is often out of reach.
pub(crate) const LONGEST_ASKING: Duration = Duration::from_secs(5);

/// Objects as they would be. They are read in the place of those that are there.
#[derive(Clone, Default)]
pub struct Assumed(HashMap<Ref, DynamicObject>);

impl Assumed {
    /// Takes an object to be like this.
    pub fn insert(&mut self, object: Ref, would_be: DynamicObject) {
        self.0.insert(object, would_be);
    }

    pub(crate) fn get(&self, object: &Ref) -> Option<&DynamicObject> {
        self.0.get(object)
    }
}

/// Names the objects, never what they say: there are Secrets among them.
impl fmt::Debug for Assumed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys().map(ToString::to_string)).finish()
    }
}

/// What an object leads to.
#[derive(Clone, Debug)]
pub struct Preview {
    /// The object.
    pub about: Ref,
    /// Whether it is paused: then nothing is applied.
    pub paused: bool,
    /// What its operator refuses about it; then there is no plan.
    pub problems: Problems,
    /// What is waited for before there is a plan, and questions to a remote that were not answered.
    pub waits: Vec<Wait>,
    /// The steps of the plan, in order.
    pub steps: Vec<StepPreview>,
    /// Children that are no longer wanted, and are deleted when nothing stands on them any more.
    pub deleted: Vec<Ref>,
    /// What the plan leads to and does not hold yet, in order.
    pub ahead: Vec<Ahead>,
}

/// A step of a plan.
#[derive(Clone, Debug)]
pub struct StepPreview {
    /// Its name, or its condition if it has none.
    pub name: String,
    /// The steps that it comes after.
    pub needs: Vec<String>,
    /// Whether it cannot be planned yet. Its children stay as they are.
    pub undecided: bool,
    /// What is waited for before its children are applied.
    pub waits: Vec<Wait>,
    /// Its children.
    pub children: Vec<Change>,
    /// Calls to a remote, in words.
    pub calls: Vec<String>,
}

/// What becomes of a child.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Fate {
    /// It stays as it is.
    Unchanged,
    /// It is created.
    Created,
    /// These fields change.
    Changed(Vec<FieldChange>),
    /// The API would not take it, or it belongs to another owner.
    Refused(Box<Wait>),
}

/// A child, and what becomes of it.
#[derive(Clone)]
pub struct Change {
    /// The child.
    pub object: Ref,
    /// What becomes of it.
    pub fate: Fate,
    /// Why it is not ready now, if it stays as it is.
    pub wait: Option<Wait>,
    /// The child as it would be.
    pub after: DynamicObject,
    /// The child as it is.
    pub before: Option<Box<DynamicObject>>,
}

impl Change {
    /// Whether anything becomes of it.
    pub fn is_change(&self) -> bool {
        matches!(self.fate, Fate::Created | Fate::Changed(_))
    }
}

/// Names the child; a Secret's content is never printed.
impl fmt::Debug for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Change")
            .field("object", &self.object.to_string())
            .field("fate", &self.fate)
            .finish_non_exhaustive()
    }
}

/// Something that a plan leads to and does not hold yet, such as the last migrations of an upgrade.
#[derive(Clone, Debug)]
pub struct Ahead {
    /// What happens, in words.
    pub what: String,
    /// The Job that does it.
    pub job: Option<Child>,
    /// Whether there is no way back from there.
    pub irreversible: bool,
}

impl Ahead {
    /// Something that happens.
    pub fn new(what: impl Into<String>) -> Self {
        Self { what: what.into(), job: None, irreversible: false }
    }

    /// Says which Job does it.
    pub fn job(self, job: Child) -> Self {
        Self { job: Some(job), ..self }
    }

    /// Says that there is no way back from there.
    pub fn irreversible(self) -> Self {
        Self { irreversible: true, ..self }
    }
}

/// What an object leads to; see the module.
pub(crate) async fn preview<C: Controller>(
    controller: C,
    manager: &'static str,
    client: Client,
    object: DynamicObject,
    assumed: Assumed,
) -> Result<Preview, Error> {
    let about = Ref::of(&ApiResource::erase::<C::Kind>(&()), &object.metadata);
    let (metrics, (triggers, _)) = (Metrics::default(), tokio::sync::mpsc::channel(1));
    let context = Context {
        watches: Watches::new(client.clone(), C::NAME, metrics.clone(), triggers),
        probes: Probes::default(),
        events: Events::new(client.clone(), manager),
        published: Published::default(),
        last_valid: Mutex::default(),
        backoff: Backoff::new(Duration::ZERO, Duration::ZERO),
        write_limit: WriteLimit::default(),
        apply_cache: ApplyCache::default(),
        releasing: tokio::sync::Mutex::default(),
        outside: Outside::new(controller.remote_in(&client), Duration::ZERO, Duration::ZERO),
        resync: Duration::ZERO,
        namespace: None,
        children: Arc::new(Children::default()),
        assumed: Some(assumed),
        controller,
        manager,
        client,
        metrics,
    };
    Reconcile::new(&object, &about, &context).preview().await
}

impl<C: Controller> Reconcile<'_, C> {
    async fn preview(&self) -> Result<Preview, Error> {
        let mut preview = Preview {
            about: self.about.clone(),
            paused: self.is_paused(),
            problems: Problems::default(),
            waits: Vec::new(),
            steps: Vec::new(),
            deleted: Vec::new(),
            ahead: Vec::new(),
        };
        let value = serde_json::to_value(self.object).unwrap_or(Value::Null);
        let parsed = match self.context.controller.parse(&value) {
            Ok(parsed) => parsed,
            Err(problems) => return Ok(Preview { problems, ..preview }),
        };
        let existing = self.existing_children().await?;
        let inputs = self.read_inputs(parsed, &existing).await?;
        match self.context.controller.validate(&inputs) {
            Verdict::Invalid(problems) => preview.problems = problems,
            Verdict::Wait(waits) => {
                preview.waits = waits;
                let untold = self.untold(&inputs, &preview.waits);
                preview.waits.extend(untold);
            }
            Verdict::Valid(valid) => {
                let plan = self.context.controller.plan(&valid, &inputs);
                self.check(&plan)?;
                self.check_places(&plan)?;
                let told: Vec<Wait> = plan.steps.iter().flat_map(|step| step.waits.clone()).collect();
                preview.waits = self.untold(&inputs, &told);
                for step in &plan.steps {
                    preview.steps.push(self.preview_step(step, &existing).await?);
                }
                preview.deleted = deleted(&plan, &existing);
                preview.ahead = self.context.controller.ahead(&valid, &inputs);
            }
        }
        Ok(preview)
    }
}

/// The children that go because of this plan. Those of steps that cannot be planned yet stay.
fn deleted(plan: &Plan, existing: &[(Ref, ObjectMeta)]) -> Vec<Ref> {
    if plan.partial {
        return Vec::new();
    }
    let wanted: HashSet<Ref> = plan.children().map(Child::reference).collect();
    let kept = prune::kept(plan, existing, &wanted);
    let undecided: Vec<&str> =
        plan.steps.iter().filter(|step| step.decision == Decision::Undecided).map(crate::Step::title).collect();
    let is_undecided = |meta: &ObjectMeta| label(meta, STEP).is_some_and(|step| undecided.contains(&step.as_str()));
    // Without a step's name it goes when all steps are done, and until then it is not known.
    let may_go = |meta: &ObjectMeta| {
        meta.deletion_timestamp.is_none()
            && !is_undecided(meta)
            && (label(meta, STEP).is_some() || undecided.is_empty())
    };
    let goes =
        existing.iter().filter(|(child, meta)| !wanted.contains(child) && !kept.contains(&child) && may_go(meta));
    goes.map(|(child, _)| child.clone()).collect()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::json;

    use super::*;
    use crate::plan::Step;

    fn child(name: &str, step: &str) -> (Ref, ObjectMeta) {
        let meta = json!({"name": name, "namespace": "orchard", "labels": {STEP: step}});
        (Ref::namespaced::<ConfigMap>("orchard", name), serde_json::from_value(meta).unwrap())
    }

    #[test]
    fn what_is_no_longer_wanted_goes_unless_its_step_is_not_known_yet() {
        let apple = ConfigMap { metadata: child("apple", "").1, ..ConfigMap::default() };
        let plan = Plan::new()
            .step(Step::new("Ready").node("tree", []).child(Child::new(&apple)))
            .step(Step::new("Ready").node("cellar", []).undecided([]));
        let existing = [child("apple", "tree"), child("pear", "tree"), child("cider", "cellar")];
        let names: Vec<String> = deleted(&plan, &existing).into_iter().map(|gone| gone.name).collect();
        assert_eq!(names, ["pear"]);
        assert!(deleted(&Plan { partial: true, ..plan }, &existing).is_empty());
    }

    #[test]
    fn what_is_assumed_is_never_printed() {
        let mut assumed = Assumed::default();
        let mut secret = DynamicObject::new("key", &ApiResource::erase::<ConfigMap>(&())).within("orchard");
        secret.data = json!({"data": {"password": "riddle"}});
        assumed.insert(Ref::namespaced::<ConfigMap>("orchard", "key"), secret);
        assert_eq!(format!("{assumed:?}"), r#"{"configmap/orchard/key"}"#);
    }
}
