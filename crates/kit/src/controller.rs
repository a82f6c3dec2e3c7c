//! What an operator supplies for one kind: what to read, how to tell good from bad, and what should be there.

use std::fmt::Debug;
use std::time::Duration;

use c5c3_api::{Problems, problem};
use kube::Resource;
use kube::core::ApiResource;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::inputs::Inputs;
use crate::object::Ref;
use crate::plan::Plan;
use crate::wait::Wait;

/// Whether the inputs are good enough to make a plan from.
#[derive(Debug)]
pub enum Verdict<V> {
    /// They are, and this is the proof.
    Valid(V),
    /// Something is not there yet. Children stay as they are.
    Wait(Vec<Wait>),
    /// The spec is wrong and waits for a change. Children stay as they are: the last good configuration keeps running.
    Invalid(Problems),
}

/// What must go before an object may go.
#[derive(Clone, Debug)]
pub struct Cleanup {
    /// Objects that are deleted and waited for, beside every child in another namespace.
    pub delete: Vec<Ref>,
    /// How long is waited before the object is let go all the same, and what is left is named in an event.
    pub patience: Duration,
}

impl Default for Cleanup {
    fn default() -> Self {
        Self { delete: Vec::new(), patience: Duration::from_mins(10) }
    }
}

/// A controller for one kind.
pub trait Controller: Send + Sync + Sized + 'static {
    /// The kind.
    type Kind: Resource<DynamicType = ()> + Serialize + DeserializeOwned + Clone + Debug + Send + Sync + 'static;
    /// Proof that the inputs are good: after this type nothing can fail.
    type Valid: Send + Sync;

    /// The controller's name, in metrics and logs.
    const NAME: &'static str;

    /// The conditions that the controller writes, in the order of its steps. `Ready` is added to them.
    const CONDITIONS: &'static [&'static str];

    /// Held on each object while it has children that garbage collection does not reach.
    const FINALIZER: Option<&'static str> = None;

    /// The kinds of all children, watched by label.
    fn children(&self) -> Vec<ApiResource>;

    /// What the object refers to. It is asked again with what was found until it names nothing new, so that a
    /// reference may come out of another object.
    fn needs(&self, inputs: &Inputs<Self::Kind>) -> Vec<Ref>;

    /// Pure: tells good inputs from bad ones, all problems at once.
    fn validate(&self, inputs: &Inputs<Self::Kind>) -> Verdict<Self::Valid>;

    /// Pure: the complete set of children, in order.
    fn plan(&self, valid: &Self::Valid, inputs: &Inputs<Self::Kind>) -> Plan;

    /// Pure: what must go before the object may go. Asked only with a [`Self::FINALIZER`].
    fn cleanup(&self, _inputs: &Inputs<Self::Kind>) -> Cleanup {
        Cleanup::default()
    }

    /// From what the API holds to the type: the rules that the command line and the webhook apply too.
    fn parse(&self, object: &Value) -> Result<Self::Kind, Problems> {
        parse(object)
    }
}

/// Checks an object against everything that is known of its kind, and reads it.
pub fn parse<K: Resource<DynamicType = ()> + DeserializeOwned>(object: &Value) -> Result<K, Problems> {
    let mut object = object.clone();
    if let Some(kind) = c5c3_api::find(&K::api_version(&()), &K::kind(&())) {
        let problems = kind.check(&object, None);
        if !problems.is_empty() {
            return Err(problems);
        }
        kind.normalize(&mut object);
    }
    serde_json::from_value(object).map_err(|error| vec![problem("", error.to_string(), "")].into())
}
