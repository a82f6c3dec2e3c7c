//! What is decided for sets, pods and nodes as they may be.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::ResourceExt;
use serde_json::{Value, json};

use super::decide::{Plan, Seen, plan};
use super::eligible;

const NOW: &str = "2026-01-01T01:00:00Z";

fn set(change: &Value) -> DaemonSet {
    let mut spec = json!({"selector": {"matchLabels": {"app": "d"}}, "template": {"spec": {"containers": []}}});
    spec.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
    serde_json::from_value(json!({"metadata": {"name": "d", "uid": "d"}, "spec": spec})).unwrap()
}

/// A node from words: `n1 no-schedule`.
fn node(words: &str) -> Node {
    let (name, taint) = words.split_once(' ').unwrap_or((words, ""));
    let effect = match taint {
        "no-schedule" => Some("NoSchedule"),
        "no-execute" => Some("NoExecute"),
        _ => None,
    };
    let taints: Vec<Value> = effect.map(|effect| json!({"key": "k", "effect": effect})).into_iter().collect();
    serde_json::from_value(json!({"metadata": {"name": name}, "spec": {"taints": taints}})).unwrap()
}

/// A pod from words: its name, its node, and what is to be said of it: `a n1 old ready`.
fn pod(set: &DaemonSet, words: &str) -> Pod {
    let has = |word: &str| words.split(' ').any(|one| one == word);
    let mut parts = words.split(' ');
    let (name, node) = (parts.next().unwrap(), parts.next().unwrap());
    let mut pod = eligible::pod(set, if has("old") { "old" } else { "new" }, node);
    pod.metadata.name = Some(name.into());
    if !has("unplaced") {
        pod.spec.as_mut().unwrap().node_name = Some(node.into());
    }
    let phase = ["Failed", "Succeeded"].into_iter().find(|phase| has(phase)).unwrap_or("Running");
    let ready = has("ready")
        .then(|| json!([{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]));
    pod.status = serde_json::from_value(json!({"phase": phase, "conditions": ready})).unwrap();
    if has("going") {
        pod.metadata.deletion_timestamp = Some(serde_json::from_value(json!(NOW)).unwrap());
    }
    pod
}

fn planned(change: &Value, nodes: &[&str], pods: &[&str], patience: Duration) -> Plan {
    let set = set(change);
    let nodes: Vec<Node> = nodes.iter().map(|words| node(words)).collect();
    let pods: Vec<Pod> = pods.iter().map(|words| pod(&set, words)).collect();
    let now: Timestamp = NOW.parse().unwrap();
    let seen = Seen { set: &set, hash: "new", nodes: &nodes, pods: &pods, collisions: None, now };
    plan(&seen, &|_| patience)
}

/// The plan in short: `+n1 -a`.
fn short(change: &Value, nodes: &[&str], pods: &[&str]) -> String {
    let plan = planned(change, nodes, pods, Duration::ZERO);
    let created = plan.create.iter().map(|node| format!("+{node}"));
    let deleted = plan.delete.iter().map(|pod| format!("-{}", pod.name_any()));
    created.chain(deleted).collect::<Vec<_>>().join(" ")
}

#[test]
fn every_node_that_should_has_one_pod() {
    for (nodes, pods, expected) in [
        (&["n1", "n2"][..], &[][..], "+n1 +n2"),
        (&["n1", "n2"], &["a n1 ready"], "+n2"),
        (&["n1", "n2"], &["a n1 unplaced", "b n2 ready"], ""),
        (&["n1 no-schedule"], &[], ""),
        (&["n1 no-schedule"], &["a n1 ready"], ""),
        (&["n1 no-execute"], &["a n1 ready"], "-a"),
        (&["n1 no-execute"], &["a n1 going"], ""),
        (&["n1"], &["a n1 ready", "b n1 ready"], "-b"),
        (&["n1"], &["a n1 going"], ""),
        (&["n1"], &["a n1 Failed"], "-a"),
        (&["n1"], &["a n1 Succeeded"], "-a"),
        (&["n1"], &["a n1 Failed going"], "+n1"),
        // Its node was deleted before it got there.
        (&["n1"], &["a n1 ready", "b n2 unplaced"], "-b"),
        (&["n1"], &["a n1 ready", "b n2 ready"], ""),
    ] {
        assert_eq!(short(&json!({}), nodes, pods), expected, "{nodes:?} {pods:?}");
    }
}

#[test]
fn a_pod_that_keeps_failing_is_left_for_a_while() {
    let plan = planned(&json!({}), &["n1"], &["a n1 Failed"], Duration::from_secs(9));
    assert!(plan.delete.is_empty() && plan.create.is_empty());
    assert_eq!(plan.again, Some(Duration::from_secs(9)));
}

#[test]
fn an_update_takes_no_more_pods_at_once_than_may_be_missing() {
    let at_most =
        |count: Value| json!({"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": count}}});
    let nodes = &["n1", "n2", "n3", "n4"];
    let old = &["a n1 old ready", "b n2 old ready", "c n3 old ready", "d n4 old ready"];
    for (count, pods, expected) in [
        (json!(1), old, "-a"),
        (json!(2), old, "-a -b"),
        (json!("50%"), old, "-a -b"),
        (json!(0), old, "-a"),
        (json!(1), &["a n1", "b n2 old ready", "c n3 old ready", "d n4 old ready"], ""),
        (json!(2), &["a n1", "b n2 old ready", "c n3 old ready", "d n4 old ready"], "-b"),
        (json!(1), &["a n1 ready", "b n2 old ready", "c n3 old ready", "d n4 old ready"], "-b"),
        // What is not available is no loss, however many there are.
        (json!(1), &["a n1 old", "b n2 old", "c n3 old ready", "d n4 old ready"], "-a -b"),
        (json!(1), &["a n1 old going", "b n2 old ready", "c n3 old ready", "d n4 old ready"], ""),
    ] {
        assert_eq!(short(&at_most(count.clone()), nodes, pods), expected, "{count} of {pods:?}");
    }
    let on_delete = json!({"updateStrategy": {"type": "OnDelete"}});
    assert_eq!(short(&on_delete, nodes, old), "");
}

#[test]
fn a_surge_puts_the_new_pod_beside_the_old_one() {
    let surge = json!({"updateStrategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}});
    let nodes = &["n1", "n2"];
    for (pods, expected) in [
        (&["a n1 old ready", "b n2 old ready"][..], "+n1"),
        (&["a n1 old ready", "x n1", "b n2 old ready"], ""),
        (&["a n1 old ready", "x n1 ready", "b n2 old ready"], "-a"),
        (&["x n1 ready", "b n2 old ready"], "+n2"),
        // An old one that is not ready makes room at once.
        (&["a n1 old", "x n1", "b n2 old ready"], "-a"),
        (&["a n1 old", "b n2 old ready"], "+n1 +n2"),
        (&["x n1 ready", "y n2 ready"], ""),
    ] {
        assert_eq!(short(&surge, nodes, pods), expected, "{pods:?}");
    }
}

#[test]
fn the_status_counts_nodes() {
    let nodes = &["n1", "n2", "n3", "n4 no-schedule"];
    let pods = &["a n1 ready", "b n2 old", "c n4 ready"];
    let status = planned(&json!({}), nodes, pods, Duration::ZERO).status;
    assert_eq!(
        serde_json::to_value(status).unwrap(),
        json!({"desiredNumberScheduled": 3, "currentNumberScheduled": 2, "numberReady": 1, "numberAvailable": 1,
            "numberUnavailable": 2, "updatedNumberScheduled": 1, "numberMisscheduled": 1})
    );
}
