//! What Prometheus sees: how long each step of a reconcile takes, what fails, how much is queued, what is waited for, and
//! the conditions of each object.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use c5c3_api::blocks::{Condition, ConditionStatus};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::error::{Error, Stage};
use crate::object::Ref;
use crate::remote::Verb;
use crate::wait::Wait;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StageLabels {
    controller: &'static str,
    step: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ErrorLabels {
    controller: &'static str,
    step: &'static str,
    reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ControllerLabels {
    controller: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct WaitLabels {
    controller: &'static str,
    reason: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OperatorLabels {
    operator: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ConditionLabels {
    kind: String,
    namespace: String,
    name: String,
    r#type: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct QuestionLabels {
    controller: &'static str,
    result: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CallLabels {
    controller: &'static str,
    verb: &'static str,
    result: &'static str,
}

/// The reasons that each object of each controller is waiting for, to take them back when they change.
type Waiting = HashMap<(&'static str, Ref), Vec<WaitLabels>>;

/// The metrics of a process. Cheap to clone; all clones count together.
#[derive(Clone)]
pub struct Metrics {
    registry: Arc<Registry>,
    durations: Family<StageLabels, Histogram, fn() -> Histogram>,
    errors: Family<ErrorLabels, Counter>,
    queued: Family<ControllerLabels, Gauge>,
    waits: Family<WaitLabels, Gauge>,
    leader: Family<OperatorLabels, Gauge>,
    watch_errors: Family<ControllerLabels, Counter>,
    waiting: Arc<Mutex<Waiting>>,
    reconciles: Family<ControllerLabels, Counter>,
    conditions: Family<ConditionLabels, Gauge>,
    said: Arc<Mutex<HashMap<Ref, Vec<ConditionLabels>>>>,
    questions: Family<QuestionLabels, Counter>,
    calls: Family<CallLabels, Counter>,
    others: Arc<Mutex<Registry>>,
}

fn seconds() -> Histogram {
    Histogram::new([0.001, 0.005, 0.02, 0.1, 0.5, 2.0, 10.0, 60.0])
}

impl Default for Metrics {
    fn default() -> Self {
        let durations = Family::<StageLabels, Histogram, fn() -> Histogram>::new_with_constructor(seconds);
        let errors = Family::<ErrorLabels, Counter>::default();
        let queued = Family::<ControllerLabels, Gauge>::default();
        let waits = Family::<WaitLabels, Gauge>::default();
        let leader = Family::<OperatorLabels, Gauge>::default();
        let watch_errors = Family::<ControllerLabels, Counter>::default();
        let reconciles = Family::<ControllerLabels, Counter>::default();
        let conditions = Family::<ConditionLabels, Gauge>::default();
        let questions = Family::<QuestionLabels, Counter>::default();
        let calls = Family::<CallLabels, Counter>::default();
        let mut registry = Registry::with_prefix("c5c3");
        registry.register("remote_questions", "Questions to a remote, by result", questions.clone());
        registry.register("remote_calls", "Calls to a remote, by verb and result", calls.clone());
        registry.register("reconcile_duration_seconds", "Time spent in each step of a reconcile", durations.clone());
        registry.register("reconcile_errors", "Reconciles that failed, by step and reason", errors.clone());
        registry.register("queue_depth", "Objects that are due and not yet being reconciled", queued.clone());
        registry.register("waits", "Objects that wait for something, by reason", waits.clone());
        registry.register("leader", "Whether this process is the leader of the operator", leader.clone());
        registry.register("watch_errors", "Watches that failed and were started again", watch_errors.clone());
        registry.register("reconciles", "Reconciles that succeeded", reconciles.clone());
        registry.register(
            "condition",
            "The conditions of an object: 1 is True, 0 is False, -1 is Unknown",
            conditions.clone(),
        );
        Self {
            registry: Arc::new(registry),
            durations,
            errors,
            queued,
            waits,
            leader,
            watch_errors,
            waiting: Arc::default(),
            reconciles,
            conditions,
            said: Arc::default(),
            questions,
            calls,
            others: Arc::default(),
        }
    }
}

impl Metrics {
    /// Records how long a step took.
    pub fn observe_duration(&self, controller: &'static str, stage: Stage, time: Duration) {
        self.durations.get_or_create(&StageLabels { controller, step: stage.name() }).observe(time.as_secs_f64());
    }

    /// Adds metrics of a library, such as those of a client, with their own names. `add` is called once for each process.
    pub fn register(&self, add: impl FnOnce(&mut Registry)) {
        add(&mut self.others.lock().expect("no one panics with the lock"));
    }

    /// Counts a question to a remote: `ok`, or the reason of its failure.
    pub(crate) fn asked(&self, controller: &'static str, result: &'static str) {
        self.questions.get_or_create(&QuestionLabels { controller, result }).inc();
    }

    /// Counts a call to a remote: `ok`, or the reason of its failure.
    pub(crate) fn called(&self, controller: &'static str, verb: Verb, result: &'static str) {
        self.calls.get_or_create(&CallLabels { controller, verb: verb.name(), result }).inc();
    }

    /// Counts a reconcile that succeeded.
    pub fn succeeded(&self, controller: &'static str) {
        self.reconciles.get_or_create(&ControllerLabels { controller }).inc();
    }

    /// Records the conditions of an object in the place of those before: none when it is gone.
    pub fn conditions(&self, object: &Ref, conditions: &[Condition]) {
        let labels = |condition: &Condition| ConditionLabels {
            kind: object.resource.kind.clone(),
            namespace: object.namespace.clone().unwrap_or_default(),
            name: object.name.clone(),
            r#type: condition.r#type.clone(),
        };
        let mut said = self.said.lock().expect("no one panics with the lock");
        let now: Vec<ConditionLabels> = conditions.iter().map(labels).collect();
        for (labels, condition) in now.iter().zip(conditions) {
            let value = match condition.status {
                ConditionStatus::True => 1,
                ConditionStatus::False => 0,
                ConditionStatus::Unknown => -1,
            };
            self.conditions.get_or_create(labels).set(value);
        }
        for before in said.remove(object).unwrap_or_default() {
            if !now.contains(&before) {
                self.conditions.remove(&before);
            }
        }
        if !now.is_empty() {
            said.insert(object.clone(), now);
        }
    }

    /// Counts a failed reconcile.
    pub fn failed(&self, controller: &'static str, error: &Error) {
        let labels = ErrorLabels { controller, step: error.stage().name(), reason: error.reason() };
        self.errors.get_or_create(&labels).inc();
    }

    /// Counts a watch that broke.
    pub fn watch_failed(&self, controller: &'static str) {
        self.watch_errors.get_or_create(&ControllerLabels { controller }).inc();
    }

    /// Records how many objects are queued.
    pub fn queued(&self, controller: &'static str, count: usize) {
        self.queued.get_or_create(&ControllerLabels { controller }).set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// Records what an object waits for, in the place of what it waited for before.
    pub fn waits(&self, controller: &'static str, object: &Ref, waits: &[Wait]) {
        let mut waiting = self.waiting.lock().expect("no one panics with the lock");
        let now: Vec<WaitLabels> = waits.iter().map(|wait| WaitLabels { controller, reason: wait.reason() }).collect();
        for labels in &now {
            self.waits.get_or_create(labels).inc();
        }
        let key = (controller, object.clone());
        let before = if now.is_empty() { waiting.remove(&key) } else { waiting.insert(key, now) };
        for labels in before.into_iter().flatten() {
            self.waits.get_or_create(&labels).dec();
        }
    }

    /// Takes back everything about objects of a kind, when their controller ends.
    pub fn clear(&self, controller: &'static str, kind: &str) {
        let of_kind = |object: &&Ref| object.resource.kind == kind;
        let said: Vec<Ref> = {
            let said = self.said.lock().expect("no one panics with the lock");
            said.keys().filter(of_kind).cloned().collect()
        };
        let waiting: Vec<Ref> = {
            let waiting = self.waiting.lock().expect("no one panics with the lock");
            waiting.keys().filter(|(by, _)| *by == controller).map(|(_, object)| object.clone()).collect()
        };
        for object in &said {
            self.conditions(object, &[]);
        }
        for object in &waiting {
            self.waits(controller, object, &[]);
        }
        self.queued(controller, 0);
    }

    /// Records whether this process leads.
    pub fn set_leader(&self, operator: &'static str, leads: bool) {
        self.leader.get_or_create(&OperatorLabels { operator }).set(leads.into());
    }

    /// The metrics in Prometheus' text format.
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        let others = self.others.lock().expect("no one panics with the lock");
        let _ = encode_registry(&mut text, &self.registry)
            .and_then(|()| encode_registry(&mut text, &others))
            .and_then(|()| encode_eof(&mut text));
        text
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Secret;

    use super::*;
    use crate::condition::ConditionState;

    #[test]
    fn the_conditions_of_an_object_are_gauges_until_it_is_gone() {
        let metrics = Metrics::default();
        let tree = Ref::namespaced::<Secret>("orchard", "tree");
        let said = [ConditionState::met("Ready", "Ready", ""), ConditionState::unmet("Ripe", "TooSmall", "")];
        let conditions: Vec<Condition> =
            said.iter().map(|said| said.to_condition(None, None, jiff::Timestamp::UNIX_EPOCH)).collect();
        metrics.conditions(&tree, &conditions);
        let line =
            |kind: &str| format!(r#"c5c3_condition{{kind="Secret",namespace="orchard",name="tree",type="{kind}"}} "#);
        assert!(metrics.text().contains(&format!("{}1", line("Ready"))), "{}", metrics.text());
        assert!(metrics.text().contains(&format!("{}0", line("Ripe"))));
        metrics.conditions(&tree, &conditions[..1]);
        assert!(metrics.text().contains(&line("Ready")) && !metrics.text().contains(&line("Ripe")));
        metrics.clear("garden", "Secret");
        assert!(!metrics.text().contains("orchard"));
    }

    #[test]
    fn the_metrics_of_a_client_keep_their_names_and_the_text_has_one_end() {
        let (metrics, answers) = (Metrics::default(), Counter::<u64>::default());
        metrics.register(|registry| registry.register("keystone_answers", "Answers", answers.clone()));
        answers.inc();
        let text = metrics.text();
        assert!(text.contains("\nkeystone_answers_total 1\n"), "{text}");
        assert_eq!((text.matches("# EOF").count(), text.ends_with("# EOF\n")), (1, true));
    }

    #[test]
    fn a_wait_is_counted_while_it_lasts() {
        let metrics = Metrics::default();
        let (tree, key) = (Ref::namespaced::<Secret>("orchard", "tree"), Ref::namespaced::<Secret>("orchard", "key"));
        metrics.waits("garden", &tree, &[Wait::on(&key)]);
        assert!(metrics.text().contains(r#"c5c3_waits{controller="garden",reason="WaitingForSecret"} 1"#));
        metrics.waits("garden", &tree, &[]);
        assert!(metrics.text().contains(r#"c5c3_waits{controller="garden",reason="WaitingForSecret"} 0"#));
    }
}
