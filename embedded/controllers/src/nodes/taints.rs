//! Taints that say what is wrong with a node, and which pods may stay on it all the same.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod, Taint, Toleration};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::health::{condition, ready};

pub(super) const NOT_READY: &str = "node.kubernetes.io/not-ready";
pub(super) const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
pub(super) const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

/// Conditions that keep new pods away while they are true.
const PRESSURES: [(&str, &str); 4] = [
    ("MemoryPressure", "node.kubernetes.io/memory-pressure"),
    ("DiskPressure", "node.kubernetes.io/disk-pressure"),
    ("PIDPressure", "node.kubernetes.io/pid-pressure"),
    ("NetworkUnavailable", "node.kubernetes.io/network-unavailable"),
];

/// The taints that follow from what a node is like.
fn due(node: &Node) -> Vec<(&'static str, &'static str)> {
    let mut due = Vec::new();
    match ready(node) {
        "True" => {}
        "False" => due.extend([(NOT_READY, "NoSchedule"), (NOT_READY, "NoExecute")]),
        _ => due.extend([(UNREACHABLE, "NoSchedule"), (UNREACHABLE, "NoExecute")]),
    }
    for (name, taint) in PRESSURES {
        if condition(node, name).is_some_and(|condition| condition.status == "True") {
            due.push((taint, "NoSchedule"));
        }
    }
    if node.spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true) {
        due.push((UNSCHEDULABLE, "NoSchedule"));
    }
    due
}

/// Whether a taint is one that follows from what a node is like.
fn is_ours(taint: &Taint) -> bool {
    let keys = PRESSURES.iter().map(|(_, key)| *key).chain([NOT_READY, UNREACHABLE, UNSCHEDULABLE]);
    keys.into_iter().any(|key| key == taint.key) && matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute")
}

fn is(taint: &Taint, key: &str, effect: &str) -> bool {
    taint.key == key && taint.effect == effect
}

/// The taints that a node should have. None: it has them.
pub(super) fn wanted(node: &Node, now: Timestamp) -> Option<Vec<Taint>> {
    let before = node.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap_or_default();
    let due = due(node);
    let stays = |taint: &&Taint| !is_ours(taint) || due.iter().any(|(key, effect)| is(taint, key, effect));
    let mut taints: Vec<Taint> = before.iter().filter(stays).cloned().collect();
    for (key, effect) in due {
        if !taints.iter().any(|taint| is(taint, key, effect)) {
            taints.push(Taint { key: key.into(), effect: effect.into(), value: None, time_added: Some(Time(now)) });
        }
    }
    (taints != before).then_some(taints)
}

/// The taints of a node that pods have to leave it for.
pub(super) fn expelling(node: &Node) -> Vec<&Taint> {
    let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
    taints.filter(|taint| taint.effect == "NoExecute").collect()
}

/// How long a pod may stay on a node with these taints.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Stay {
    Forever,
    For(Duration),
    Over,
}

/// How long a pod may stay: the shortest of what it tolerates, and not at all what it does not tolerate.
pub(super) fn stay(pod: &Pod, taints: &[&Taint], now: Timestamp) -> Stay {
    let tolerations = pod.spec.as_ref().and_then(|spec| spec.tolerations.as_deref()).unwrap_or_default();
    let mut shortest: Option<Duration> = None;
    for taint in taints {
        let fitting: Vec<&Toleration> = tolerations.iter().filter(|one| tolerates(one, taint)).collect();
        if fitting.is_empty() {
            return Stay::Over;
        }
        let Some(seconds) = fitting.iter().filter_map(|toleration| toleration.toleration_seconds).min() else {
            continue;
        };
        let allowed = Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
        let since = taint.time_added.as_ref().map_or(now, |time| time.0);
        let passed = Duration::try_from(now.duration_since(since)).unwrap_or_default();
        let left = allowed.saturating_sub(passed);
        shortest = Some(shortest.map_or(left, |shortest| shortest.min(left)));
    }
    match shortest {
        None => Stay::Forever,
        Some(left) if left.is_zero() => Stay::Over,
        Some(left) => Stay::For(left),
    }
}

fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let (key, effect) = (text(&toleration.key), text(&toleration.effect));
    let same_value = text(&toleration.value) == text(&taint.value);
    let exists = toleration.operator.as_deref() == Some("Exists");
    (effect.is_empty() || effect == taint.effect)
        && if key.is_empty() { exists } else { key == taint.key && (exists || same_value) }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::testing::of;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_000_000 + second).unwrap()
    }

    fn node(ready: &str, spec: Value) -> Node {
        let mut node = json!({"status": {"conditions": [{"type": "Ready", "status": ready},
                                                        {"type": "DiskPressure", "status": "False"}]}});
        node["spec"] = spec;
        of(node)
    }

    fn told(taints: Option<Vec<Taint>>) -> Vec<String> {
        let short = |key: &str| key.trim_start_matches("node.kubernetes.io/").to_owned();
        taints.into_iter().flatten().map(|taint| format!("{}:{}", short(&taint.key), taint.effect)).collect()
    }

    #[test]
    fn taints_follow_from_conditions_and_leave_those_of_others() {
        let own = json!({"taints": [{"key": "gpu", "effect": "NoSchedule"}]});
        let unreachable = ["unreachable:NoSchedule", "unreachable:NoExecute"];
        assert_eq!(wanted(&node("True", own.clone()), at(0)), None);
        assert_eq!(told(wanted(&node("Unknown", json!({})), at(0))), unreachable);
        assert_eq!(told(wanted(&node("False", own), at(0)))[..2], ["gpu:NoSchedule", "not-ready:NoSchedule"]);
        assert_eq!(told(wanted(&node("True", json!({"unschedulable": true})), at(0))), ["unschedulable:NoSchedule"]);
        let mut known = node("Unknown", json!({}));
        known.spec.as_mut().unwrap().taints = wanted(&known, at(0));
        assert_eq!(wanted(&known, at(9)), None, "the time that it was added stays");
        known.status = node("True", json!({})).status;
        assert_eq!(wanted(&known, at(9)), Some(Vec::new()));
    }

    #[test]
    fn a_pod_stays_for_as_long_as_it_tolerates_all_taints() {
        let taint = |key: &str| Taint {
            key: key.into(),
            effect: "NoExecute".into(),
            value: None,
            time_added: Some(Time(at(0))),
        };
        let (one, two) = (taint(UNREACHABLE), taint("other"));
        let seconds = |key: &str, seconds: i64| json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds});
        let table = [
            (json!([]), vec![&one], Stay::Over),
            (json!([]), vec![], Stay::Forever),
            (json!([{"operator": "Exists"}]), vec![&one, &two], Stay::Forever),
            (json!([seconds(UNREACHABLE, 300)]), vec![&one], Stay::For(Duration::from_secs(290))),
            (json!([seconds(UNREACHABLE, 10)]), vec![&one], Stay::Over),
            (json!([seconds(UNREACHABLE, 300)]), vec![&one, &two], Stay::Over),
            (
                json!([seconds(UNREACHABLE, 300), seconds("other", 60)]),
                vec![&one, &two],
                Stay::For(Duration::from_secs(50)),
            ),
            (json!([{"key": UNREACHABLE, "effect": "NoSchedule", "operator": "Exists"}]), vec![&one], Stay::Over),
            (json!([{"key": UNREACHABLE, "value": "x"}]), vec![&one], Stay::Over),
        ];
        for (tolerations, taints, expected) in table {
            let pod: Pod = of(json!({"spec": {"containers": [], "tolerations": tolerations}}));
            assert_eq!(stay(&pod, &taints, at(10)), expected, "{tolerations}");
        }
    }
}
