//! Where a pod goes, or why it goes nowhere.

use std::collections::{BTreeMap, BTreeSet};

use crate::filter::{Search, filter};
use crate::model::node::Node;
use crate::model::pod::Pod;
use crate::reason::{Reason, Rule};
use crate::score::score;
use crate::snapshot::{ClaimStep, Snapshot};

/// What is to become of a pod.
#[derive(Debug, Eq, PartialEq)]
pub enum Decision {
    /// It goes to a node.
    Place {
        /// The node's name.
        node: String,
        /// What must happen for its claims before.
        steps: Vec<ClaimStep>,
    },
    /// It waits.
    Wait {
        /// Why, for people.
        message: String,
        /// What must change before it is worth another try.
        rules: BTreeSet<Rule>,
    },
}

/// Decides on a pod. The same cluster and the same pod give the same answer; of nodes that are equally good, the first by
/// name is taken.
pub fn decide(snapshot: &Snapshot, pod: &Pod) -> Decision {
    if snapshot.nodes.is_empty() {
        let message = "no nodes available to schedule pods".to_owned();
        return Decision::Wait { message, rules: BTreeSet::from([Rule::Nodes]) };
    }
    let search = match Search::new(snapshot, pod) {
        Ok(search) => search,
        Err(reason) => return nowhere(snapshot, pod, &reason),
    };
    let (mut found, mut rejected) = (Vec::new(), Vec::new());
    for node in snapshot.nodes.values() {
        match filter(&search, node) {
            Ok(steps) => found.push((node, steps)),
            Err(reasons) => rejected.push((node, reasons)),
        }
    }
    let nodes: Vec<&Node> = found.iter().map(|(node, _)| *node).collect();
    let best =
        score(&search, &nodes).into_iter().zip(found).reduce(|best, next| if next.0 > best.0 { next } else { best });
    match best {
        Some((_, (node, steps))) => Decision::Place { node: node.name.clone(), steps },
        None => Decision::Wait {
            message: joined(&[available(&histogram(&rejected), rejected.len()), preemption(snapshot, pod, &rejected)]),
            rules: rejected.iter().flat_map(|(_, reasons)| reasons).map(Reason::rule).collect(),
        },
    }
}

/// No node does, for a reason that is not about nodes.
fn nowhere(snapshot: &Snapshot, pod: &Pod, reason: &Reason) -> Decision {
    let rejected: Vec<_> = snapshot.nodes.values().map(|node| (node, vec![reason.clone()])).collect();
    let message = joined(&[available(&reason.to_string(), rejected.len()), preemption(snapshot, pod, &rejected)]);
    Decision::Wait { message, rules: BTreeSet::from([reason.rule()]) }
}

fn available(reasons: &str, nodes: usize) -> String {
    format!("0/{nodes} nodes are available: {reasons}.")
}

/// Every reason with the number of nodes that have it, in the order of that text.
fn histogram(rejected: &[(&Node, Vec<Reason>)]) -> String {
    counted(rejected.iter().flat_map(|(_, reasons)| reasons).map(ToString::to_string))
}

fn counted(reasons: impl Iterator<Item = String>) -> String {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for reason in reasons {
        *counts.entry(reason).or_default() += 1;
    }
    let mut lines: Vec<String> = counts.into_iter().map(|(reason, count)| format!("{count} {reason}")).collect();
    lines.sort();
    lines.join(", ")
}

/// What upstream says of preemption, where that is true here as well. No one is preempted here; where upstream might find
/// someone to go, nothing is said.
fn preemption(snapshot: &Snapshot, pod: &Pod, rejected: &[(&Node, Vec<Reason>)]) -> String {
    if pod.wants.never_preempts {
        return "preemption: not eligible due to preemptionPolicy=Never.".into();
    }
    let is_due_to_pods = |reasons: &[Reason]| reasons.iter().all(Reason::is_due_to_pods);
    let has_lesser =
        |node: &Node| snapshot.on(&node.name).pods.values().any(|other| other.wants.priority < pod.wants.priority);
    if rejected.iter().any(|(node, reasons)| is_due_to_pods(reasons) && has_lesser(node)) {
        return String::new();
    }
    let said = rejected.iter().map(|(_, reasons)| {
        let due = is_due_to_pods(reasons);
        if due { "No preemption victims found for incoming pod" } else { "Preemption is not helpful for scheduling" }
    });
    format!("preemption: {}", available(&counted(said.map(str::to_owned)), rejected.len()))
}

fn joined(sentences: &[String]) -> String {
    let said: Vec<&str> = sentences.iter().map(String::as_str).filter(|sentence| !sentence.is_empty()).collect();
    said.join(" ")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::testing::{Cluster, asking};

    fn taints(key: &str, value: &str) -> Value {
        json!({"taints": [{"key": key, "value": value, "effect": "NoSchedule"}]})
    }

    #[test]
    fn a_pod_that_fits_nowhere_is_told_what_each_node_lacks() {
        let cluster =
            Cluster::of(&["ash", "oak"]).node("elm", json!({}), taints("node-role.kubernetes.io/control-plane", ""));
        let full = ["ash", "oak"]
            .iter()
            .fold(cluster, |cluster, node| cluster.pod(node, &format!("on-{node}"), asking(json!({"memory": "2Gi"}))));
        assert_eq!(
            full.says(asking(json!({"memory": "2Gi"}))),
            "0/3 nodes are available: 1 node(s) had untolerated taint {node-role.kubernetes.io/control-plane: }, 2 \
             Insufficient memory. preemption: 0/3 nodes are available: 1 Preemption is not helpful for scheduling, 2 No \
             preemption victims found for incoming pod."
        );
    }

    #[test]
    fn what_is_too_large_for_an_empty_node_is_not_for_want_of_victims() {
        let said = Cluster::of(&["oak"]).says(asking(json!({"cpu": "64"})));
        let wanted = "0/1 nodes are available: 1 Insufficient cpu. preemption: 0/1 nodes are available: 1 Preemption is not \
                      helpful for scheduling.";
        assert_eq!(said, wanted);
    }

    #[test]
    fn nothing_is_said_of_preemption_where_upstream_might_find_a_victim() {
        let cluster = Cluster::of(&["oak"]).pod("oak", "lesser", asking(json!({"cpu": "3"})));
        let mut important = asking(json!({"cpu": "1"}));
        important["spec"]["priority"] = json!(1000);
        assert_eq!(cluster.says(important.clone()), "0/1 nodes are available: 1 Insufficient cpu.");
        important["spec"]["preemptionPolicy"] = json!("Never");
        let never =
            "0/1 nodes are available: 1 Insufficient cpu. preemption: not eligible due to preemptionPolicy=Never.";
        assert_eq!(cluster.says(important), never);
    }

    #[test]
    fn without_nodes_there_is_nothing_to_count() {
        assert_eq!(Cluster::default().says(json!({})), "no nodes available to schedule pods");
    }

    #[test]
    fn a_pod_that_names_its_node_is_told_about_that_one() {
        let named = |names: Value| {
            let here = json!([{"key": "metadata.name", "operator": "In", "values": names}]);
            json!({"spec": {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchFields": here}],
            }}}}})
        };
        let cluster = Cluster::of(&["ash", "elm"]).node("oak", json!({}), taints("storm", "near"));
        assert_eq!(cluster.says(named(json!(["elm"]))), "elm");
        assert_eq!(
            cluster.says_first(named(json!(["oak"]))),
            "0/3 nodes are available: 1 node(s) had untolerated taint {storm: near}, 2 node(s) didn't satisfy plugin(s) \
             [NodeAffinity]."
        );
        let nobody = cluster.says_first(named(json!([])));
        assert_eq!(nobody, "0/3 nodes are available: pod affinity terms conflict.");
    }

    #[test]
    fn a_selector_that_no_node_has_is_told_as_such() {
        let said = Cluster::of(&["ash", "oak"]).says_first(json!({"spec": {"nodeSelector": {"disk": "ssd"}}}));
        assert_eq!(said, "0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector.");
    }
}
