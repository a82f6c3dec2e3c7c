//! A plan: the complete set of children, in steps that wait for each other. It holds no client and makes no choices
//! when it is carried out.

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
use crate::readiness;
use crate::wait::Wait;

/// What should be there.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Applied in order; a step starts when all before it are done, or when those are that its [`Node`] names.
    pub steps: Vec<Step>,
    /// Fields of the status that are the operator's own, such as `endpoint`.
    pub status: Map<String, Value>,
    /// When to look again though nothing changed: for what no watch can tell, such as a date in the plan.
    pub again_after: Option<Duration>,
    /// The reason of `Ready` when all steps are done.
    pub ready_reason: &'static str,
}

impl Default for Plan {
    fn default() -> Self {
        Self { steps: Vec::new(), status: Map::new(), again_after: None, ready_reason: "Ready" }
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

    /// Sets a field of the status.
    pub fn status(mut self, field: &str, value: impl Into<Value>) -> Self {
        self.status.insert(field.into(), value.into());
        self
    }

    /// Sets the reason of `Ready` when all steps are done.
    pub fn ready_reason(self, reason: &'static str) -> Self {
        Self { ready_reason: reason, ..self }
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
            for wait in &step.waits {
                let _ = writeln!(text, "-- {}", wait.message(None));
            }
            for child in &step.children {
                if child.is_kept() {
                    let _ = writeln!(text, "-- stays when its owner goes:");
                }
                if child.unwaited {
                    let _ = writeln!(text, "-- nobody waits for it:");
                }
                let value = serde_json::to_value(child.redacted()).unwrap_or_default();
                let _ = writeln!(text, "{}", serde_json::to_string_pretty(&value).unwrap_or_default());
            }
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
    /// What must come true beside the children being ready, before this step's children are applied.
    pub waits: Vec<Wait>,
    /// What the condition says when all is done.
    pub done: String,
    /// Where the step is in a graph; without one it follows all steps before it.
    pub node: Option<Node>,
}

/// A step's place in a graph of steps. What it does not need does not hold it up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// The step's name; several steps may share a condition, which is true when all of them are done.
    pub name: &'static str,
    /// The names of the steps that must be done before this one starts. They come before it in the plan. Once its
    /// children exist they are left as they are while one of these is not ready, and judged by what they say themselves.
    pub needs: Vec<&'static str>,
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.needs.as_slice() {
            [] => f.write_str(self.name),
            needs => write!(f, "{} after {}", self.name, needs.join(", ")),
        }
    }
}

impl Step {
    /// A step with nothing in it.
    pub fn new(condition: &'static str) -> Self {
        Self { condition, children: Vec::new(), waits: Vec::new(), done: "done".into(), node: None }
    }

    /// Puts the step into a graph: it starts when the steps that it needs are done, whatever becomes of others.
    pub fn node(self, name: &'static str, needs: impl Into<Vec<&'static str>>) -> Self {
        Self { node: Some(Node { name, needs: needs.into() }), ..self }
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

    /// Adds a wait that stands before the step.
    pub fn wait(mut self, wait: Wait) -> Self {
        self.waits.push(wait);
        self
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
    /// Keys of a Secret that get random values when it is made, with the length of each; see [`crate::generated`].
    pub generated: BTreeMap<String, usize>,
    /// What is said in the place of new random values; see [`Child::irreplaceable`].
    pub lost: Option<Wait>,
    /// Whether the object stays when its owner goes. Where that is chosen, one that an owner of the same name has left is
    /// taken over; see [`Child::kept`].
    pub kept: Option<bool>,
    /// Whether it starts only when others of the same base have ended; see [`crate::job`].
    pub serial: bool,
    /// Whether its step is done although the object is not ready: nothing depends on it.
    pub unwaited: bool,
    /// What there is to say when it is waited for.
    pub because: Option<String>,
}

impl Child {
    /// A child from a typed object. Its status is left out: that belongs to someone else.
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
            generated: BTreeMap::new(),
            lost: None,
            kept: None,
            serial: false,
            unwaited: false,
            because: None,
        }
    }

    /// Leaves the object there when its owner goes, or not. Either way it is taken over from an owner of the same name
    /// before, who may have been told otherwise.
    pub fn kept(self, kept: bool) -> Self {
        Self { kept: Some(kept), ..self }
    }

    /// Makes up no random values in the place of lost ones, and waits for someone to bring them back: something that is there
    /// already knows the old ones, and would not take others.
    pub fn irreplaceable(self, lost: Wait) -> Self {
        Self { lost: Some(lost), ..self }
    }

    /// Whether the object stays when its owner goes.
    pub(crate) fn is_kept(&self) -> bool {
        self.kept == Some(true)
    }

    /// Starts only when others of the same base have ended.
    pub fn serial(self) -> Self {
        Self { serial: true, ..self }
    }

    /// Lets nobody wait for the object to be ready.
    pub fn unwaited(self) -> Self {
        Self { unwaited: true, ..self }
    }

    /// Says why the object is needed, or what it needs, to who waits for it.
    pub fn because(self, because: impl Into<String>) -> Self {
        Self { because: Some(because.into()), ..self }
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
        for (key, length) in &self.generated {
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
