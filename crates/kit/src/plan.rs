//! A plan: the complete set of children, in steps that wait for each other. It holds no client and makes no choices
//! when it is carried out.

use std::borrow::Cow;
use std::fmt::{self, Write as _};
use std::time::Duration;

use serde_json::{Map, Value};

use crate::condition::ConditionState;
use crate::object::Ref;
use crate::remote::Call;
use crate::wait::Wait;

pub use crate::child::{Basis, Child};

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
    /// Conditions that are not those of a step; see [`Plan::condition`].
    pub conditions: Vec<ConditionState>,
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
            conditions: Vec::new(),
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

    /// States a condition that is not true when a step is done, such as one that holds while something is under way. It takes the
    /// place of what the steps of that condition would say.
    pub fn condition(mut self, state: ConditionState) -> Self {
        self.conditions.push(state);
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
            for child in &step.released {
                let _ = writeln!(text, "-- {child} is used no more, and deleted");
            }
            for call in &step.calls {
                let _ = writeln!(text, "-> {call}");
            }
        }
        for step in &self.removed_steps {
            let _ = writeln!(text, "== dropped: {step}");
        }
        for state in &self.conditions {
            let ConditionState { condition, status, reason, message } = state;
            let _ = writeln!(text, "== {condition} is {status:?}, {reason}: {message}");
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
    /// Children of before that nothing uses any more.
    pub released: Vec<Ref>,
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
            released: Vec::new(),
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

    /// Says that nothing uses these children of before any more: they are deleted though this step, or one that needs it, is not
    /// done. Credentials that were replaced are revoked so, whatever else is wrong.
    pub fn released(mut self, children: impl IntoIterator<Item = Ref>) -> Self {
        self.released.extend(children);
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
