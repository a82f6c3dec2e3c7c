//! A plan: the complete set of children, in steps that wait for each other. It holds no client and makes no choices
//! when it is carried out.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::time::Duration;

use kube::Resource;
use kube::api::DynamicObject;
use kube::core::{ApiResource, TypeMeta};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::hash;
use crate::object::Ref;
use crate::ownership::{JOB_GROUP, VERSION};
use crate::readiness;
use crate::remote::Call;
use crate::wait::Wait;

/// What should be there.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Applied in order. A step of a graph starts when the steps are done that its [`Node`] needs; a step without a node
    /// starts when all steps before it are done, and its children are not changed until then.
    pub steps: Vec<Step>,
    /// The names of steps that have left the plan on purpose; see [`Plan::without_step`].
    pub removed_steps: Vec<StepName>,
    /// Fields of the status that are the operator's own, such as `endpoint`.
    pub status: Map<String, Value>,
    /// When to look again though nothing changed: for what no watch can tell, such as a date in the plan.
    pub requeue_after: Option<Duration>,
    /// The reason of `Ready` when all steps are done.
    pub ready_reason: &'static str,
    /// What is to be told as events, each once while it stays in the plan.
    pub events: Vec<PlannedEvent>,
    /// Whether the steps that wait are those of an upgrade: the reason of `Progressing`.
    pub upgrading: bool,
    /// Whether the plan holds only some of the children: then nothing is pruned.
    pub partial: bool,
    /// How often a remote is asked though nothing changed; see [`Plan::resync`].
    pub resync: Option<Duration>,
}

/// Something that happened and is told as an event of the object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedEvent {
    /// The event's reason.
    pub reason: &'static str,
    /// The event's text.
    pub note: String,
    /// Whether the event is a Warning, or Normal.
    pub warning: bool,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            steps: Vec::new(),
            removed_steps: Vec::new(),
            status: Map::new(),
            requeue_after: None,
            ready_reason: "Ready",
            events: Vec::new(),
            upgrading: false,
            partial: false,
            resync: None,
        }
    }
}

impl Plan {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a step after the others.
    pub fn step(mut self, step: Step) -> Self {
        self.steps.push(step);
        self
    }

    /// Says that the step of that name has left the plan on purpose. Its children are deleted as soon as the steps are done
    /// that name it among their needs, where it counts as done. Children of a step that is neither in the plan nor dropped
    /// are deleted only when the whole plan is done.
    pub fn without_step(mut self, step: impl Into<StepName>) -> Self {
        self.removed_steps.push(step.into());
        self
    }

    /// Sets a field of the status.
    pub fn status(mut self, field: &str, value: impl Into<Value>) -> Self {
        self.status.insert(field.into(), value.into());
        self
    }

    /// Sets the reason of `Ready` when all steps are done.
    pub fn ready_reason(self, reason: &'static str) -> Self {
        Self { ready_reason: reason, ..self }
    }

    /// Tells of something with a Normal event, when it is new for this object.
    pub fn event(mut self, reason: &'static str, note: impl Into<String>) -> Self {
        self.events.push(PlannedEvent { reason, note: note.into(), warning: false });
        self
    }

    /// Tells of something with a Warning, when it is new for this object.
    pub fn failed_event(mut self, reason: &'static str, note: impl Into<String>) -> Self {
        self.events.push(PlannedEvent { reason, note: note.into(), warning: true });
        self
    }

    /// Says whether the steps that wait are those of an upgrade.
    pub fn upgrading(self, upgrading: bool) -> Self {
        Self { upgrading, ..self }
    }

    /// Says how often the remote is asked again though nothing changed, to find what others changed there; zero is never.
    /// Without it the kit's own period holds.
    pub fn resync(self, period: Option<Duration>) -> Self {
        Self { resync: period, ..self }
    }

    /// Every call of every step.
    pub fn calls(&self) -> impl Iterator<Item = &Call> {
        self.steps.iter().flat_map(|step| &step.calls)
    }

    /// Every child of every step.
    pub fn children(&self) -> impl Iterator<Item = &Child> {
        self.steps.iter().flat_map(|step| &step.children)
    }

    /// The plan as text for golden tests: complete, deterministic, without a secret in it.
    pub fn golden(&self) -> String {
        let mut text = String::new();
        for step in &self.steps {
            match &step.node {
                None => drop(writeln!(text, "== {}", step.condition)),
                Some(node) => drop(writeln!(text, "== {}: {node}", step.condition)),
            }
            if step.decision == Decision::Undecided {
                let _ = writeln!(text, "-- undecided: existing children stay as they are");
            }
            for wait in &step.waits {
                let _ = writeln!(text, "-- {}", wait.message(None));
            }
            for child in &step.children {
                if child.is_kept() {
                    let _ = writeln!(text, "-- is retained when its owner is deleted:");
                }
                if child.readiness_optional {
                    let _ = writeln!(text, "-- its readiness is not waited for:");
                }
                if child.adoptable {
                    let _ = writeln!(text, "-- an unclaimed object of this name is adopted:");
                }
                match &child.basis {
                    Basis::Any => {}
                    Basis::Absent => drop(writeln!(text, "-- created only if it does not exist:")),
                    Basis::Version(version) => drop(writeln!(text, "-- applied to resourceVersion {version}:")),
                }
                let value = serde_json::to_value(child.redacted()).unwrap_or_default();
                let _ = writeln!(text, "{}", serde_json::to_string_pretty(&value).unwrap_or_default());
            }
            for call in &step.calls {
                let _ = writeln!(text, "-> {call}");
            }
        }
        for step in &self.removed_steps {
            let _ = writeln!(text, "== dropped: {step}");
        }
        if !self.status.is_empty() {
            let _ = writeln!(text, "== status\n{}", Value::Object(self.status.clone()));
        }
        text
    }
}

/// Children that belong together, and the condition that says whether they are done.
#[derive(Clone, Debug)]
pub struct Step {
    /// The condition's type, such as `DatabaseReady`.
    pub condition: &'static str,
    /// What is applied.
    pub children: Vec<Child>,
    /// Calls to the remote, made in this order once the children are ready. The step is done when a plan has none.
    pub calls: Vec<Call>,
    /// What must come true beside the children being ready, before this step's children are applied.
    pub waits: Vec<Wait>,
    /// What the condition says when all is done.
    pub done: String,
    /// Where the step is in a graph; without one it follows all steps before it.
    pub node: Option<Node>,
    /// The condition's reason when the step is done.
    pub done_reason: &'static str,
    /// The condition's reason while the step waits for a child; `WaitingFor<Kind>` when absent.
    pub waiting_reason: Option<&'static str>,
    /// What it means that the step has no children.
    pub decision: Decision,
}

/// Whether the children of a step are known. "Not known yet" and "none wanted" are different things: the first keeps what
/// exists, the second deletes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Decision {
    /// The step's children are those that it lists, and there are some.
    #[default]
    Planned,
    /// The step cannot be planned yet; see [`Step::undecided`].
    Undecided,
    /// The step has no children on purpose; see [`Step::childless`].
    Childless,
}

/// The name of a step. It is also the value of a label of the step's children ([`STEP`](crate::ownership::STEP)), so that it
/// has to fit a label. A step of a part that a user names, such as a cell, has an owned name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StepName(Cow<'static, str>);

impl StepName {
    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&'static str> for StepName {
    fn from(name: &'static str) -> Self {
        Self(Cow::Borrowed(name))
    }
}

impl From<String> for StepName {
    fn from(name: String) -> Self {
        Self(Cow::Owned(name))
    }
}

impl From<&StepName> for StepName {
    fn from(name: &StepName) -> Self {
        name.clone()
    }
}

impl PartialEq<str> for StepName {
    fn eq(&self, other: &str) -> bool {
        self.0 == other
    }
}

impl PartialEq<&str> for StepName {
    fn eq(&self, other: &&str) -> bool {
        self.0 == *other
    }
}

impl fmt::Display for StepName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The names of steps that another one needs.
pub trait Needs {
    /// The names.
    fn names(self) -> Vec<StepName>;
}

impl<const N: usize> Needs for [&'static str; N] {
    fn names(self) -> Vec<StepName> {
        self.into_iter().map(StepName::from).collect()
    }
}

impl Needs for &[&'static str] {
    fn names(self) -> Vec<StepName> {
        self.iter().copied().map(StepName::from).collect()
    }
}

impl Needs for Vec<&'static str> {
    fn names(self) -> Vec<StepName> {
        self.into_iter().map(StepName::from).collect()
    }
}

impl Needs for Vec<StepName> {
    fn names(self) -> Vec<StepName> {
        self
    }
}

/// A step's place in a graph of steps. What it does not need does not hold it up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// The step's name; several steps may share a condition, which is true when all of them are done.
    pub name: StepName,
    /// The names of the steps that must be done before this one starts. They come before it in the plan. While one of them
    /// is not done, no child of this step is created and none changes its version; other changes of children that exist
    /// are applied.
    pub needs: Vec<StepName>,
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.needs.as_slice() {
            [] => write!(f, "{}", self.name),
            needs => {
                let needs: Vec<&str> = needs.iter().map(StepName::as_str).collect();
                write!(f, "{} after {}", self.name, needs.join(", "))
            }
        }
    }
}

impl Step {
    /// A step with nothing in it.
    pub fn new(condition: &'static str) -> Self {
        Self {
            condition,
            children: Vec::new(),
            calls: Vec::new(),
            waits: Vec::new(),
            done: "done".into(),
            node: None,
            done_reason: "Done",
            waiting_reason: None,
            decision: Decision::Planned,
        }
    }

    /// Puts the step into a graph: it starts when the steps that it needs are done, whatever becomes of others.
    pub fn node(self, name: impl Into<StepName>, needs: impl Needs) -> Self {
        Self { node: Some(Node { name: name.into(), needs: needs.names() }), ..self }
    }

    /// Says that the step cannot be planned yet. All of its existing children are kept, nothing is applied, and the step is
    /// not done.
    pub fn undecided(mut self, waits: impl IntoIterator<Item = Wait>) -> Self {
        self.waits.extend(waits);
        Self { decision: Decision::Undecided, ..self }
    }

    /// Says that the step has no children on purpose: it only waits, or nothing is wanted of it. Existing children of the
    /// step are deleted.
    pub fn childless(self) -> Self {
        Self { decision: Decision::Childless, ..self }
    }

    /// Adds a child.
    pub fn child(mut self, child: Child) -> Self {
        self.children.push(child);
        self
    }

    /// Adds children.
    pub fn children(mut self, children: impl IntoIterator<Item = Child>) -> Self {
        self.children.extend(children);
        self
    }

    /// Adds a call to a remote.
    pub fn call(mut self, call: Call) -> Self {
        self.calls.push(call);
        self
    }

    /// The waits for the calls to be made.
    pub(crate) fn pending(&self) -> Vec<Wait> {
        self.calls.iter().map(Call::pending).collect()
    }

    /// Adds a wait that stands before the step.
    pub fn wait(mut self, wait: Wait) -> Self {
        self.waits.push(wait);
        self
    }

    /// The step's name, or its condition if it is outside a graph.
    pub(crate) fn title(&self) -> &str {
        self.node.as_ref().map_or(self.condition, |node| node.name.as_str())
    }

    /// Why the step is not done although nothing is waited for: it is undecided, and does not say why.
    pub(crate) fn unplanned(&self) -> Option<String> {
        let is_unplanned = self.decision == Decision::Undecided && self.waits.is_empty();
        is_unplanned.then(|| format!("{} cannot be planned yet", self.title()))
    }

    /// Sets the condition's reasons when the step is done, and while it waits for a child.
    pub fn reasons(self, done: &'static str, waiting: &'static str) -> Self {
        Self { done_reason: done, waiting_reason: Some(waiting), ..self }
    }

    /// Sets what the condition says when all is done.
    pub fn done(self, message: impl Into<String>) -> Self {
        Self { done: message.into(), ..self }
    }
}

/// An object that should be there.
#[derive(Clone)]
pub struct Child {
    /// Its kind.
    pub resource: ApiResource,
    /// The object, with just the fields that are ours.
    pub object: DynamicObject,
    /// Of objects that differ only by content hash, how many older ones are kept.
    pub keep_previous: usize,
    /// How long after a failure the object is deleted and made again; never when absent.
    pub retry_after: Option<Duration>,
    /// Keys of a Secret that get random values when it is made, with the length of each; see [`crate::random_secret`].
    pub random_keys: BTreeMap<String, usize>,
    /// What is said in the place of new random values; see [`Child::irreplaceable`].
    pub lost: Option<Wait>,
    /// Whether the object stays when its owner goes. Where that is chosen, one that an owner of the same name has left is
    /// taken over; see [`Child::kept`].
    pub kept: Option<bool>,
    /// Which state of the object the child was planned from; see [`Child::based_on`].
    pub basis: Basis,
    /// Whether an unclaimed object of that name is adopted; see [`Child::adoptable`].
    pub adoptable: bool,
    /// Whether its step is done although the object is not ready: nothing depends on it.
    pub readiness_optional: bool,
    /// What there is to say when it is waited for.
    pub because: Option<String>,
    /// What to do if an object of that name belongs to another owner; see [`Child::on_conflict`].
    pub on_conflict: Option<String>,
}

/// Which state of an object a write is based on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Basis {
    /// Whatever is there: our fields are written over it.
    #[default]
    Any,
    /// Nothing is there.
    Absent,
    /// The object with this resourceVersion.
    Version(String),
}

impl Child {
    /// A child from a typed object. Its status is left out: that belongs to its own controller.
    pub fn new<K: Resource<DynamicType = ()> + Serialize>(object: &K) -> Self {
        let mut value = serde_json::to_value(object).expect("a Kubernetes object is JSON");
        if let Some(fields) = value.as_object_mut() {
            fields.remove("status");
        }
        let mut object: DynamicObject = serde_json::from_value(value).expect("a Kubernetes object has metadata");
        object.types = Some(TypeMeta::resource::<K>());
        Self::dynamic(ApiResource::erase::<K>(&()), object)
    }

    /// A child from an object that was put together by hand, of which just the fields are there that are ours.
    pub fn dynamic(resource: ApiResource, object: DynamicObject) -> Self {
        Self {
            resource,
            object,
            keep_previous: 0,
            retry_after: None,
            random_keys: BTreeMap::new(),
            lost: None,
            kept: None,
            basis: Basis::Any,
            adoptable: false,
            readiness_optional: false,
            because: None,
            on_conflict: None,
        }
    }

    /// Leaves the object there when its owner goes, or not. Either way it is taken over from an owner of the same name
    /// before, who may have been told otherwise.
    pub fn kept(self, kept: bool) -> Self {
        Self { kept: Some(kept), ..self }
    }

    /// Generates no random values in the place of lost ones, and waits until the old ones are restored: something that exists
    /// already uses the old ones, and would not accept others.
    pub fn irreplaceable(self, lost: Wait) -> Self {
        Self { lost: Some(lost), ..self }
    }

    /// Whether the object stays when its owner goes.
    pub(crate) fn is_kept(&self) -> bool {
        self.kept == Some(true)
    }

    /// Puts a Job into a group: of all Jobs of one owner and group, one runs at a time. A Job without a group has its base as
    /// its group; see [`crate::job`].
    pub fn job_group(mut self, group: &'static str) -> Self {
        self.object.metadata.labels.get_or_insert_default().insert(JOB_GROUP.into(), group.into());
        self
    }

    /// Says which version of its software the object runs. A change of it waits for the steps that the child's step needs, as
    /// creation does; other changes of an existing object do not wait.
    pub fn version(mut self, version: impl Into<String>) -> Self {
        self.object.metadata.annotations.get_or_insert_default().insert(VERSION.into(), version.into());
        self
    }

    /// Writes the object only in the state that the plan was made from: with the resourceVersion that was read, or, if
    /// `None` was there, by creating it. If it was changed or created meanwhile, the API answers with a conflict, and the next
    /// reconcile reads it again. For objects where a lost update is a lost secret.
    pub fn based_on(self, resource_version: Option<String>) -> Self {
        Self { basis: resource_version.map_or(Basis::Absent, Basis::Version), ..self }
    }

    /// Takes over an object of that name that no label, annotation or owner reference claims, such as a Secret that was
    /// restored from a backup, instead of refusing it as foreign.
    pub fn adoptable(self) -> Self {
        Self { adoptable: true, ..self }
    }

    /// Does not wait for the object to be ready.
    pub fn readiness_optional(self) -> Self {
        Self { readiness_optional: true, ..self }
    }

    /// Says why the object is needed, or what it needs, to who waits for it.
    pub fn because(self, because: impl Into<String>) -> Self {
        Self { because: Some(because.into()), ..self }
    }

    /// Says what to do if an object of that name belongs to another owner, in the place of deleting or renaming that object.
    pub fn on_conflict(self, remedy: impl Into<String>) -> Self {
        Self { on_conflict: Some(remedy.into()), ..self }
    }

    /// What the object lacks to be ready, as it is now; none when it is.
    pub(crate) fn wait(&self, live: &DynamicObject) -> Option<Wait> {
        let wait = readiness::wait(&self.reference(), live)?;
        Some(match &self.because {
            Some(because) => wait.because(because.clone()),
            None => wait,
        })
    }

    /// Keeps that many older objects of the same base; see [`crate::config`].
    pub fn keep_previous(self, count: usize) -> Self {
        Self { keep_previous: count, ..self }
    }

    /// Makes the object again some time after it failed; see [`crate::job`].
    pub fn retry_after(self, delay: Duration) -> Self {
        Self { retry_after: Some(delay), ..self }
    }

    /// Which object this is.
    pub fn reference(&self) -> Ref {
        Ref::of(&self.resource, &self.object.metadata)
    }

    /// The object with each value of a Secret replaced by its hash: what may be printed.
    pub fn redacted(&self) -> DynamicObject {
        let mut object = self.object.clone();
        if self.resource.kind == "Secret" && self.resource.group.is_empty() {
            for field in ["data", "stringData"] {
                if let Some(Value::Object(values)) = object.data.get_mut(field) {
                    for value in values.values_mut() {
                        *value = format!("<secret {}>", hash::of_json(value)).into();
                    }
                }
            }
        }
        for (key, length) in &self.random_keys {
            object.data["data"][key] = format!("<{length} random characters, made once>").into();
        }
        object
    }
}

/// Names the object; a Secret's content is never printed.
impl fmt::Debug for Child {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Child").field(&self.reference().to_string()).finish()
    }
}
