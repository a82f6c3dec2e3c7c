//! How many pods a disruption budget allows to be evicted, from the pods that it is about.

use std::collections::BTreeMap;
use std::time::Duration;

use c5c3_events::News;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::ResourceExt;

use crate::owners::is_going;
use crate::pods::is_ready;
use crate::shares::{self, Round};

/// How long a pod that was evicted may take to be marked as going, before it is taken to stay.
const EVICTION: SignedDuration = SignedDuration::from_mins(2);

/// How many pods there should be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Scale {
    pub(super) expected: i32,
    /// Pods that no one looks after, whose number no one can tell.
    pub(super) unmanaged: Vec<String>,
}

/// What the status becomes, what is told, and when to look again.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Outcome {
    pub(super) status: PodDisruptionBudgetStatus,
    pub(super) told: Vec<(News, &'static str, String)>,
    pub(super) again: Option<Duration>,
}

/// Whether the pods' owners have to be asked how many there should be: a plain number of pods that must stay needs none.
pub(super) fn needs_scale(budget: &PodDisruptionBudget) -> bool {
    let spec = budget.spec.as_ref();
    spec.is_some_and(|spec| {
        spec.max_unavailable.is_some() || matches!(spec.min_available, Some(IntOrString::String(_)))
    })
}

/// Judges a budget.
pub(super) fn judge(
    budget: &PodDisruptionBudget,
    pods: &[Pod],
    scale: Result<Scale, String>,
    now: Timestamp,
) -> Outcome {
    let mut told = Vec::new();
    if pods.is_empty() {
        told.push((News::Normal, "NoPods", "No matching pods found".to_owned()));
    }
    let before = budget.status.clone().unwrap_or_default();
    let scale = match scale {
        Ok(scale) => scale,
        Err(why) => {
            let message = format!("Failed to calculate the number of expected pods: {why}");
            told.push((News::Warning, "CalculateExpectedPodCountFailed", message));
            let status = PodDisruptionBudgetStatus { disruptions_allowed: 0, ..before };
            let status = with_condition(budget, status, Some(("SyncFailed", why)), now);
            return Outcome { status, told, again: None };
        }
    };
    if !scale.unmanaged.is_empty() {
        told.push((News::Warning, "UnmanagedPods", unmanaged()));
    }
    let (disrupted, again) = disrupted(&before, pods, now, &mut told);
    let healthy = |pod: &&Pod| !is_going(&pod.metadata) && !disrupted.contains_key(&pod.name_any()) && is_ready(pod);
    let current = i32::try_from(pods.iter().filter(healthy).count()).unwrap_or(i32::MAX);
    let (expected, desired) = wanted(budget, pods, &scale);
    let allowed = if expected > 0 { (current - desired).max(0) } else { 0 };
    let status = PodDisruptionBudgetStatus {
        current_healthy: current,
        desired_healthy: desired,
        expected_pods: expected,
        disruptions_allowed: allowed,
        disrupted_pods: Some(disrupted).filter(|disrupted| !disrupted.is_empty()),
        observed_generation: budget.metadata.generation,
        ..before
    };
    Outcome { status: with_condition(budget, status, None, now), told, again }
}

fn unmanaged() -> String {
    "Pods selected by this PodDisruptionBudget were found to be unmanaged. As a result, the status of the PDB cannot be \
     calculated correctly, which may result in undefined behavior. To account for these pods please set \
     \".spec.minAvailable\" field of the PDB to an integer value."
        .into()
}

/// How many pods are expected, and how many of them have to be healthy.
fn wanted(budget: &PodDisruptionBudget, pods: &[Pod], scale: &Scale) -> (i32, i32) {
    let Some(spec) = &budget.spec else { return (0, 0) };
    let share = |of: Option<&IntOrString>| shares::of(of, scale.expected, Round::Up);
    if spec.max_unavailable.is_some() {
        return (scale.expected, (scale.expected - share(spec.max_unavailable.as_ref())).max(0));
    }
    match &spec.min_available {
        Some(IntOrString::Int(least)) => (i32::try_from(pods.len()).unwrap_or(i32::MAX), *least),
        Some(least) => (scale.expected, share(Some(least))),
        None => (0, 0),
    }
}

/// The pods that were evicted and are not yet seen to go.
fn disrupted(
    status: &PodDisruptionBudgetStatus,
    pods: &[Pod],
    now: Timestamp,
    told: &mut Vec<(News, &'static str, String)>,
) -> (BTreeMap<String, Time>, Option<Duration>) {
    let (mut kept, mut again) = (BTreeMap::new(), None::<Duration>);
    for (name, when) in status.disrupted_pods.iter().flatten() {
        let there = pods.iter().any(|pod| pod.name_any() == *name && !is_going(&pod.metadata));
        if !there {
            continue;
        }
        let left = Duration::try_from(EVICTION.saturating_sub(now.duration_since(when.0))).unwrap_or_default();
        if left.is_zero() {
            let message = format!("Pod was expected by PDB to be deleted but it wasn't: {name}");
            told.push((News::Warning, "NotDeleted", message));
        } else {
            kept.insert(name.clone(), when.clone());
            again = again.into_iter().chain([left]).min();
        }
    }
    (kept, again)
}

fn with_condition(
    budget: &PodDisruptionBudget,
    mut status: PodDisruptionBudgetStatus,
    failed: Option<(&str, String)>,
    now: Timestamp,
) -> PodDisruptionBudgetStatus {
    let allowed = status.disruptions_allowed > 0;
    let usual = if allowed { "SufficientPods" } else { "InsufficientPods" };
    let (reason, message) = failed.unwrap_or((usual, String::new()));
    let conditions = status.conditions.get_or_insert_default();
    let truth = if allowed { "True" } else { "False" };
    let found = conditions.iter().position(|condition| condition.type_ == "DisruptionAllowed");
    let since = found.map(|found| &conditions[found]).filter(|condition| condition.status == truth);
    let condition = Condition {
        type_: "DisruptionAllowed".into(),
        status: truth.into(),
        reason: reason.into(),
        message,
        last_transition_time: since.map_or(Time(now), |condition| condition.last_transition_time.clone()),
        observed_generation: budget.metadata.generation,
    };
    match found {
        Some(found) => conditions[found] = condition,
        None => conditions.push(condition),
    }
    status
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::testing;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_000_000 + second).unwrap()
    }

    fn budget(spec: Value, status: Value) -> PodDisruptionBudget {
        let mut budget = json!({"metadata": {"name": "b", "generation": 3}});
        budget["spec"] = spec;
        budget["status"] = testing::with(
            json!({"currentHealthy": 0, "desiredHealthy": 0, "disruptionsAllowed": 0, "expectedPods": 0}),
            status,
        );
        testing::of(budget)
    }

    fn pod(name: &str, ready: bool, going: bool) -> Pod {
        let truth = if ready { "True" } else { "False" };
        testing::of(json!({
            "metadata": {"name": name, "deletionTimestamp": going.then(|| at(0))},
            "status": {"conditions": [{"type": "Ready", "status": truth}]},
        }))
    }

    fn judged(spec: Value, expected: i32) -> (i32, i32, i32, i32) {
        let pods = [
            pod("a", true, false),
            pod("b", true, false),
            pod("c", true, false),
            pod("d", false, false),
            pod("e", true, true),
        ];
        let scale = Ok(Scale { expected, unmanaged: Vec::new() });
        let status = judge(&budget(spec, json!({})), &pods, scale, at(0)).status;
        (status.expected_pods, status.desired_healthy, status.current_healthy, status.disruptions_allowed)
    }

    #[test]
    fn what_may_go_is_what_is_healthy_beyond_what_must_be() {
        assert_eq!(judged(json!({"minAvailable": 2}), 0), (5, 2, 3, 1));
        assert_eq!(judged(json!({"minAvailable": 4}), 0), (5, 4, 3, 0));
        assert_eq!(judged(json!({"minAvailable": "50%"}), 5), (5, 3, 3, 0), "a share is rounded up");
        assert_eq!(judged(json!({"maxUnavailable": 3}), 5), (5, 2, 3, 1));
        assert_eq!(judged(json!({"maxUnavailable": "30%"}), 5), (5, 3, 3, 0));
        assert_eq!(judged(json!({"maxUnavailable": 9}), 5), (5, 0, 3, 3));
        assert_eq!(judged(json!({"maxUnavailable": 1}), 0), (0, 0, 3, 0), "without pods there is nothing to allow");
    }

    #[test]
    fn a_pod_that_was_evicted_is_not_healthy_until_it_is_gone_or_has_stayed_for_too_long() {
        let pods = [pod("a", true, false), pod("b", true, false), pod("c", true, true)];
        let status = json!({"disruptedPods": {"a": at(-30), "b": at(-130), "c": at(-10), "gone": at(-10)}});
        let outcome = judge(&budget(json!({"minAvailable": 1}), status), &pods, Ok(Scale::default()), at(0));
        assert_eq!(outcome.status.disrupted_pods.unwrap().into_keys().collect::<Vec<_>>(), ["a"]);
        assert_eq!((outcome.status.current_healthy, outcome.again), (1, Some(Duration::from_secs(90))));
        assert_eq!(outcome.told[0].1, "NotDeleted");
    }

    #[test]
    fn the_condition_says_whether_and_why_not() {
        let said = |status: &PodDisruptionBudgetStatus| {
            let condition = &status.conditions.as_ref().unwrap()[0];
            (condition.status.clone(), condition.reason.clone(), condition.last_transition_time.0)
        };
        let pods = [pod("a", true, false)];
        let first = judge(&budget(json!({"minAvailable": 0}), json!({})), &pods, Ok(Scale::default()), at(0)).status;
        assert_eq!(said(&first), ("True".into(), "SufficientPods".into(), at(0)));
        let mut known = budget(json!({"minAvailable": 0}), json!({}));
        known.status = Some(first.clone());
        assert_eq!(judge(&known, &pods, Ok(Scale::default()), at(9)).status, first, "nothing changed, nothing is said");
        let failed = judge(&known, &pods, Err("no owner".into()), at(9)).status;
        assert_eq!(said(&failed), ("False".into(), "SyncFailed".into(), at(9)));
        assert_eq!(failed.disruptions_allowed, 0);
    }
}
