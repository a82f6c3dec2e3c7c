//! Spread constraints that a pod would rather wait for than break.

use std::collections::BTreeMap;

use super::taints;
use crate::model::node::Node;
use crate::model::pod::Pod;
use crate::model::pod_terms::Spread;
use crate::reason::Reason;
use crate::snapshot::Snapshot;

/// How many pods of a constraint each value of its label has.
pub(super) struct Count<'a> {
    constraint: &'a Spread,
    pods: BTreeMap<&'a str, i64>,
}

/// Counts for every strict constraint of the pod.
pub(super) fn counts<'a>(snapshot: &'a Snapshot, pod: &'a Pod) -> Vec<Count<'a>> {
    let strict: Vec<&Spread> = pod.wants.spread.iter().filter(|constraint| constraint.is_strict).collect();
    let counted = |constraint: &&'a Spread| {
        let mut pods = BTreeMap::new();
        // A node that lacks the label of one constraint counts for none.
        let nodes =
            snapshot.nodes.values().filter(|node| has_labels(node, &strict) && counts_for(constraint, pod, node));
        for node in nodes {
            let Some(value) = node.labels.get(&constraint.topology) else { continue };
            let fellows = snapshot.on(&node.name).pods.values();
            let count = fellows.filter(|other| constraint.counts(other, &pod.namespace)).count();
            *pods.entry(value.as_str()).or_insert(0) += i64::try_from(count).unwrap_or(i64::MAX);
        }
        Count { constraint, pods }
    };
    strict.iter().map(counted).collect()
}

/// Whether a node counts for a constraint: upstream leaves out, as the constraint says, those that the pod cannot go to.
pub(crate) fn counts_for(constraint: &Spread, pod: &Pod, node: &Node) -> bool {
    (!constraint.heeds_choice || pod.wants.nodes.allows(node))
        && (!constraint.heeds_taints || taints::untolerated(pod, node).is_none())
}

pub(crate) fn has_labels(node: &Node, constraints: &[&Spread]) -> bool {
    constraints.iter().all(|constraint| node.labels.contains_key(&constraint.topology))
}

/// Whether the pod would make its like too uneven on this node.
pub(super) fn uneven(pod: &Pod, counts: &[Count<'_>], node: &Node) -> Option<Reason> {
    counts.iter().find_map(|Count { constraint, pods }| {
        let Some(value) = node.labels.get(&constraint.topology) else { return Some(Reason::SpreadLabel) };
        let domains = i64::try_from(pods.len()).unwrap_or(i64::MAX);
        let emptiest = if domains < constraint.min_domains { 0 } else { pods.values().min().copied().unwrap_or(0) };
        let here = pods.get(value.as_str()).copied().unwrap_or(0) + i64::from(constraint.selects(pod));
        (here - emptiest > constraint.max_skew).then_some(Reason::Spread)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::testing::Cluster;

    /// Two zones: north with oak and elm, south with ash; and two web pods in the north.
    fn zones() -> Cluster {
        let web = || json!({"metadata": {"labels": {"app": "web", "hash": "one"}}});
        Cluster::default()
            .node("ash", json!({"zone": "south", "disk": "ssd"}), json!({}))
            .node("elm", json!({"zone": "north"}), json!({}))
            .node("oak", json!({"zone": "north"}), json!({}))
            .pod("oak", "web-1", web())
            .pod("elm", "web-2", web())
    }

    fn web(more: Value) -> Value {
        let mut constraint = json!({
            "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "web"}},
        });
        for (key, value) in more.as_object().unwrap() {
            constraint[key] = value.clone();
        }
        json!({"metadata": {"labels": {"app": "web", "hash": "two"}}, "spec": {"topologySpreadConstraints": [constraint]}})
    }

    #[test]
    fn the_fullest_place_exceeds_the_emptiest_by_no_more_than_the_skew() {
        let cases = [
            ("south is two behind", json!({}), "ash"),
            ("a skew of two lets south catch up only", json!({"maxSkew": 2}), "ash"),
            ("a skew of three allows all", json!({"maxSkew": 3}), "ash elm oak"),
            ("by host, only ash has none", json!({"topologyKey": "kubernetes.io/hostname"}), "ash"),
            ("loose constraints keep nobody away", json!({"whenUnsatisfiable": "ScheduleAnyway"}), "ash elm oak"),
            ("pods of another revision do not count", json!({"matchLabelKeys": ["hash"]}), "ash elm oak"),
            ("with too few zones the emptiest has none", json!({"maxSkew": 2, "minDomains": 3}), "ash"),
            ("enough zones are enough", json!({"maxSkew": 3, "minDomains": 2}), "ash elm oak"),
            ("no selector selects nobody", json!({"labelSelector": null}), "ash elm oak"),
        ];
        for (what, constraint, wanted) in cases {
            assert_eq!(zones().suitable(web(constraint)), wanted, "{what}");
        }
    }

    #[test]
    fn nodes_that_the_pod_cannot_go_to_count_as_its_policies_say() {
        let mut in_the_north = web(json!({}));
        in_the_north["spec"]["nodeSelector"] = json!({"zone": "north"});
        assert_eq!(zones().suitable(in_the_north), "elm oak", "only the north counts");
        let mut in_the_north = web(json!({"nodeAffinityPolicy": "Ignore"}));
        in_the_north["spec"]["nodeSelector"] = json!({"zone": "north"});
        assert_eq!(zones().suitable(in_the_north), "", "the south counts, and cannot be filled");
        let tainted = || {
            let taint = json!({"taints": [{"key": "storm", "effect": "NoSchedule"}]});
            zones().node("ash", json!({"zone": "south"}), taint)
        };
        assert_eq!(tainted().suitable(web(json!({}))), "");
        assert_eq!(tainted().suitable(web(json!({"nodeTaintsPolicy": "Honor"}))), "elm oak");
    }

    #[test]
    fn messages_tell_a_missing_label_from_a_skew() {
        let cluster = zones().node("fir", json!({}), json!({})).node(
            "ash",
            json!({"zone": "south"}),
            json!({"unschedulable": true}),
        );
        assert_eq!(
            cluster.says(web(json!({}))),
            "0/4 nodes are available: 1 node(s) didn't match pod topology spread constraints (missing required label), \
             1 node(s) were unschedulable, 2 node(s) didn't match pod topology spread constraints. preemption: 0/4 nodes \
             are available: 2 No preemption victims found for incoming pod, 2 Preemption is not helpful for scheduling."
        );
    }

    #[test]
    fn pods_that_are_going_or_of_other_namespaces_do_not_count() {
        let going = json!({"metadata": {"labels": {"app": "web"}, "deletionTimestamp": "2026-01-01T00:00:00Z"}});
        let foreign = json!({"metadata": {"labels": {"app": "web"}, "namespace": "elsewhere"}});
        let cluster = Cluster::of(&["ash", "oak"]).pod("oak", "going", going).pod("oak", "foreign", foreign);
        assert_eq!(cluster.suitable(web(json!({"topologyKey": "kubernetes.io/hostname"}))), "ash oak");
    }
}
