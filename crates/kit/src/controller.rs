//! What an operator supplies for one kind: what to read, how to tell good from bad, and what should be there.

use std::fmt::Debug;
use std::time::Duration;

use c5c3_api::{Problems, problem};
use jiff::Timestamp;
use kube::api::DynamicObject;
use kube::{Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::condition::ConditionState;
use crate::inputs::{Found, Inputs};
use crate::object::{KindRef, Ref};
use crate::plan::Plan;
use crate::preview::Ahead;
use crate::probe::Probe;
use crate::remote::{Farewell, Question, RemoteHandle};
use crate::retention::Retained;
use crate::summary::{SUMMARY, Summary};
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

/// A controller for one kind.
pub trait Controller: Send + Sync + Sized + 'static {
    /// The kind.
    type Kind: Resource<DynamicType = ()> + Serialize + DeserializeOwned + Clone + Debug + Send + Sync + 'static;
    /// Proof that the inputs are good: after this type nothing can fail.
    type Valid: Send + Sync;

    /// The controller's name, in metrics and logs.
    const NAME: &'static str;

    /// The conditions that the controller writes, in the order of its steps. Those of [`Controller::SUMMARY`] are added to
    /// them.
    const CONDITIONS: &'static [&'static str];

    /// Held on each object while it has children that garbage collection does not reach, that go in an order, or that
    /// decide about data: those in other namespaces, and those that [`Controller::teardown`] and
    /// [`Controller::retention`] name.
    const FINALIZER: Option<&'static str> = None;

    /// How long a deletion waits for each wave of such children before it goes on all the same and names what is left.
    const CLEANUP_TIMEOUT: Duration = Duration::from_mins(10);

    /// How long a deletion waits for [`Controller::farewell`] before it goes on all the same and names what is left. Without
    /// a limit it waits, visibly, until the remote has answered or a person skips it.
    const FAREWELL_PATIENCE: Option<Duration> = None;

    /// Whether there are children in other namespaces than the object's, or in none. They are looked for when it goes.
    const CROSS_NAMESPACE: bool = false;

    /// The conditions that [`Controller::summary`] may write, the most important one first.
    const SUMMARY: &'static [&'static str] = SUMMARY;

    /// Whether services are asked whether they live; see [`Controller::probes`].
    const PROBES: bool = false;

    /// Whether the status of objects of this kind is the controller's to write. It is not for a kind of others, such as Node:
    /// then nothing is reported but metrics and events.
    const REPORTS: bool = true;

    /// Which objects the controller looks after, as a label selector; all of them by default. An object that loses the label is
    /// forgotten, and its children stay as they are.
    fn selector(&self) -> Option<String> {
        None
    }

    /// What of an object, beside its desired state and its labels and annotations, starts a reconcile when it changes: such as
    /// conditions that others write.
    fn trigger(&self, _: &DynamicObject) -> Option<String> {
        None
    }

    /// The kinds of all children, watched by label.
    fn children(&self) -> Vec<KindRef>;

    /// The kinds that [`Controller::needs`] may name beside those of children. No others are read: what an operator is
    /// allowed is made of this.
    fn reads(&self) -> Vec<KindRef> {
        Vec::new()
    }

    /// The kinds of own children whose live objects, with their status, are inputs; see [`Inputs::own`]. They are among
    /// [`Controller::children`], and Secrets are not: those are read by name.
    fn observes(&self) -> Vec<KindRef> {
        Vec::new()
    }

    /// The kinds of objects that other controllers make of own children and that are inputs too, such as the Jobs of a CronJob
    /// and the pods of a Job; see [`Inputs::own`]. The child's template says whose they are
    /// ([`crate::ownership::Owner::mark_template`]). They are read and never written: the controller that made them deletes
    /// them.
    fn descendants(&self) -> Vec<KindRef> {
        Vec::new()
    }

    /// What the object refers to. It is asked again with what was found until it names nothing new, so that a
    /// reference may come out of another object.
    fn needs(&self, inputs: &Inputs<Self::Kind>) -> Vec<Ref>;

    /// Services that are asked whether they live, once everything that the object refers to has been read. They are asked
    /// again on a timer of their own, and an answer that turns starts a reconcile. It needs [`Controller::PROBES`].
    fn probes(&self, _: &Inputs<Self::Kind>) -> Vec<Probe> {
        Vec::new()
    }

    /// What lives outside Kubernetes and belongs to objects of this kind; none by default. It is asked for once, when the
    /// controller starts. See [`crate::remote`].
    fn remote(&self) -> Option<RemoteHandle> {
        None
    }

    /// The same for a remote that is reached through the cluster's own API, such as the programs of own pods; by default it is
    /// [`Controller::remote`]. What the client is used for is among [`Controller::rights`].
    fn remote_in(&self, _: &Client) -> Option<RemoteHandle> {
        self.remote()
    }

    /// What a remote of [`Controller::remote_in`] does with the client: a kind, a subresource of it such as `/proxy` or an empty
    /// text, and the verbs.
    fn rights(&self) -> Vec<(KindRef, &'static str, &'static [&'static str])> {
        Vec::new()
    }

    /// Pure: what the remote is asked before the plan is made, also when the object is being deleted. It is called again with
    /// the answers until it names nothing new, so that a question may come out of another answer. What fails is an input of
    /// the plan too, and a wait that is always told.
    fn questions(&self, _: &Inputs<Self::Kind>) -> Vec<Question> {
        Vec::new()
    }

    /// Pure: what must happen at the remote before the object goes. It is called again after its calls were made, until it
    /// asks for nothing. It needs a [`Controller::FINALIZER`].
    fn farewell(&self, _: &Inputs<Self::Kind>) -> Farewell {
        Farewell::new()
    }

    /// Pure: what the object refers to and must not be deleted before it. The controller's [`Controller::FINALIZER`] is put on
    /// each of them once it is available, and removed when the last object that refers to it goes. They are among
    /// [`Controller::needs`], in the object's namespace.
    fn guards(&self, _: &Self::Kind) -> Vec<Ref> {
        Vec::new()
    }

    /// The kinds that [`Controller::guards`] may name, for the rights to put finalizers on them.
    fn guarded(&self) -> Vec<KindRef> {
        Vec::new()
    }

    /// Pure: tells good inputs from bad ones, all problems at once.
    fn validate(&self, inputs: &Inputs<Self::Kind>) -> Verdict<Self::Valid>;

    /// Pure: the complete set of children, in order.
    fn plan(&self, valid: &Self::Valid, inputs: &Inputs<Self::Kind>) -> Plan;

    /// Pure: what the plan leads to and does not hold yet, for who asks before the object is changed; see [`crate::preview`].
    fn ahead(&self, _: &Self::Valid, _: &Inputs<Self::Kind>) -> Vec<Ahead> {
        Vec::new()
    }

    /// Pure: what must go on although the spec is wrong, such as the rotation of keys and what says how healthy things are.
    /// It is given the last object that was valid, or, when none is known since the operator started, the present one. What
    /// the plan does not hold stays as it is.
    fn maintain(&self, _: &Inputs<Self::Kind>) -> Option<Plan> {
        None
    }

    /// Pure: what is said of the object as a whole; see [`crate::report`]. What it leaves out stays as it was said before.
    fn summary(&self, state: Summary<'_>) -> Vec<ConditionState> {
        state.standard()
    }

    /// Pure: the children that decide whether data outlives the object, as it asks for now. It is given as the API holds it,
    /// since what it says of data holds even if the rest of it is wrong; see [`crate::retention`].
    fn retention(&self, _: &Value) -> Vec<Retained> {
        Vec::new()
    }

    /// The kinds of children that go one after the other when the object goes: those of a wave are deleted when all of
    /// the wave before are gone. What is in no wave goes with the object itself. It needs a [`Controller::FINALIZER`]. A kind may
    /// be in two waves: then children that are [`crate::Child::last_of_its_kind`] go in the last, and the others in the first.
    fn teardown(&self) -> Vec<Vec<KindRef>> {
        Vec::new()
    }

    /// From what the API holds to the type: the rules that the command line and the webhook apply too.
    fn parse(&self, object: &Value) -> Result<Self::Kind, Problems> {
        parse(object)
    }
}

/// What a controller finds wrong with an object by itself, whatever the cluster holds: what `validate` says when nothing that
/// the object refers to is there. Nothing is said of an object that breaks the rules of its kind, which [`parse`] tells.
pub(crate) fn review<C: Controller>(controller: &C, object: &Value) -> Problems {
    let Ok(parsed) = controller.parse(object) else { return Problems::default() };
    let mut inputs = Inputs::new(parsed, Timestamp::UNIX_EPOCH);
    // What is missing leads to nothing, so this ends.
    while let Some(reference) = controller.needs(&inputs).into_iter().find(|needed| !inputs.has_read(needed)) {
        inputs.insert(reference, Found::Missing);
    }
    match controller.validate(&inputs) {
        Verdict::Invalid(problems) => problems,
        Verdict::Valid(_) | Verdict::Wait(_) => Problems::default(),
    }
}

/// Checks an object against everything that is known of its kind, and reads it.
///
/// Fields that this version does not know are left out, not refused: a newer CRD may have added them, and its API server
/// fills their defaults into every object. The status is ours and no reason to call a spec wrong.
pub fn parse<K: Resource<DynamicType = ()> + DeserializeOwned>(object: &Value) -> Result<K, Problems> {
    let mut object = object.clone();
    let status = object.as_object_mut().and_then(|object| object.remove("status"));
    if let Some(kind) = c5c3_api::find(&K::api_version(&()), &K::kind(&())) {
        kind.schema().prune(&mut object);
        let problems = kind.check(&object, None);
        if !problems.is_empty() {
            return Err(problems);
        }
        kind.normalize(&mut object);
    }
    let with_status = status.map(|status| {
        let mut object = object.clone();
        object["status"] = status;
        object
    });
    if let Some(parsed) = with_status.and_then(|object| serde_json::from_value(object).ok()) {
        return Ok(parsed);
    }
    serde_json::from_value(object).map_err(|error| vec![problem("", error.to_string(), "")].into())
}
