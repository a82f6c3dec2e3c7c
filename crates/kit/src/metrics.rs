//! What Prometheus sees: how long each step of a reconcile takes, what fails, how much is queued, what is waited for.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::error::{Error, Stage};
use crate::object::Ref;
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
        let mut registry = Registry::with_prefix("c5c3");
        registry.register("reconcile_duration_seconds", "Time spent in each step of a reconcile", durations.clone());
        registry.register("reconcile_errors", "Reconciles that failed, by step and reason", errors.clone());
        registry.register("queue_depth", "Objects that are due and not yet being reconciled", queued.clone());
        registry.register("waits", "What objects are waiting for, by reason", waits.clone());
        registry.register("leader", "Whether this process leads for the operator", leader.clone());
        registry.register("watch_errors", "Watches that broke and were started again", watch_errors.clone());
        Self {
            registry: Arc::new(registry),
            durations,
            errors,
            queued,
            waits,
            leader,
            watch_errors,
            waiting: Arc::default(),
        }
    }
}

impl Metrics {
    /// Records how long a step took.
    pub fn took(&self, controller: &'static str, stage: Stage, time: Duration) {
        self.durations.get_or_create(&StageLabels { controller, step: stage.name() }).observe(time.as_secs_f64());
    }

    /// Counts a failed reconcile.
    pub fn failed(&self, controller: &'static str, error: &Error) {
        let labels = ErrorLabels { controller, step: error.stage().name(), reason: error.reason() };
        self.errors.get_or_create(&labels).inc();
    }

    /// Counts a watch that broke.
    pub fn watch_broke(&self, controller: &'static str) {
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

    /// Records whether this process leads.
    pub fn leads(&self, operator: &'static str, leads: bool) {
        self.leader.get_or_create(&OperatorLabels { operator }).set(leads.into());
    }

    /// The metrics in Prometheus' text format.
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Secret;

    use super::*;

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
