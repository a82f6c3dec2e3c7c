//! Which changes of the cluster are worth another try for a pod that waits.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::model::node::Node;
use crate::model::pod::Pod;
use crate::model::pod_terms::Term;
use crate::model::resources::Resources;
use crate::reason::Rule;

/// Something that has changed.
#[derive(Clone, Debug)]
pub enum Change {
    /// A node has come.
    NodeCame,
    /// A node has gone.
    NodeWent,
    /// Taints of a node, or its cordon.
    NodeTaints,
    /// Labels of a node.
    NodeLabels,
    /// A node has more to give.
    NodeGrew,
    /// A pod has come to a node, or its labels have changed there.
    PodCame(Arc<Pod>),
    /// A pod has left its node, or asks for less there.
    PodWent(Arc<Pod>),
    /// A claim, a volume or a class.
    Storage,
    /// Labels of a namespace.
    Namespace,
}

/// What has changed between two versions of a node, so far as a pod may wait for it.
pub fn of_node(before: Option<&Node>, now: Option<&Node>) -> Vec<Change> {
    match (before, now) {
        (None, None) => Vec::new(),
        (None, Some(_)) => vec![Change::NodeCame],
        (Some(_), None) => vec![Change::NodeWent],
        (Some(before), Some(now)) => {
            let taints = (&before.taints, before.is_cordoned) != (&now.taints, now.is_cordoned);
            let changes = [
                (taints, Change::NodeTaints),
                (before.labels != now.labels, Change::NodeLabels),
                (grew(&before.allocatable, &now.allocatable), Change::NodeGrew),
            ];
            changes.into_iter().filter(|(is_so, _)| *is_so).map(|(_, change)| change).collect()
        }
    }
}

fn grew(before: &Resources, now: &Resources) -> bool {
    now.iter().any(|(resource, amount)| amount > before.get(resource))
}

/// What has changed between two versions of a pod that is on a node.
pub fn of_placed(before: Option<&Arc<Pod>>, now: &Arc<Pod>) -> Vec<Change> {
    let Some(before) = before else { return vec![Change::PodCame(now.clone())] };
    let mut changes = Vec::new();
    if before.wants.labels != now.wants.labels {
        changes.extend([Change::PodWent(before.clone()), Change::PodCame(now.clone())]);
    } else if before.is_deleting != now.is_deleting || grew(&now.wants.requests, &before.wants.requests) {
        // A pod that is going counts no more for the spread of its like, though it still holds what it has.
        changes.push(Change::PodWent(before.clone()));
    }
    changes
}

/// Whether a change is worth another try for a pod that waits because of those rules.
pub fn may_help(change: &Change, waiting: &Pod, rules: &BTreeSet<Rule>) -> bool {
    rules.iter().any(|rule| helps(change, waiting, *rule))
}

fn helps(change: &Change, waiting: &Pod, rule: Rule) -> bool {
    match change {
        Change::NodeCame => true,
        Change::NodeWent => rule == Rule::Spread,
        Change::NodeTaints => matches!(rule, Rule::Taints | Rule::Spread),
        Change::NodeLabels => matches!(rule, Rule::Choice | Rule::Spread | Rule::Neighbours | Rule::Volumes),
        Change::NodeGrew => rule == Rule::Resources,
        Change::PodCame(pod) => match rule {
            Rule::Spread => is_counted(waiting, pod),
            Rule::Neighbours => is_meant(&waiting.wants.neighbours.near, pod),
            _ => false,
        },
        Change::PodWent(pod) => match rule {
            Rule::Spread => is_counted(waiting, pod),
            Rule::Neighbours => {
                is_meant(&waiting.wants.neighbours.far, pod) || is_meant(&pod.wants.neighbours.far, waiting)
            }
            Rule::Resources => true,
            Rule::Ports => !pod.wants.ports.is_empty(),
            Rule::Volumes => !pod.wants.claims.is_empty(),
            _ => false,
        },
        Change::Storage => rule == Rule::Volumes,
        Change::Namespace => rule == Rule::Neighbours,
    }
}

/// Whether a term may speak of a pod. Whether the namespace fits as well shows when it is tried.
fn is_meant(terms: &[Term], pod: &Pod) -> bool {
    terms.iter().any(|term| term.selects(pod))
}

fn is_counted(waiting: &Pod, pod: &Pod) -> bool {
    pod.namespace == waiting.namespace && waiting.wants.spread.iter().any(|constraint| constraint.selects(pod))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::testing::{asking, node, pod};

    fn helps_against(change: &Change, waiting: &Pod, rule: Rule) -> bool {
        may_help(change, waiting, &BTreeSet::from([rule]))
    }

    #[test]
    fn a_node_helps_with_what_has_changed_about_it() {
        let before = node("oak", &json!({}), &json!({"unschedulable": true}));
        let relabelled = node("oak", &json!({"disk": "ssd"}), &json!({"unschedulable": true}));
        let uncordoned = node("oak", &json!({}), &json!({}));
        assert!(of_node(Some(&before), Some(&before)).is_empty());
        assert!(matches!(of_node(Some(&before), Some(&relabelled))[..], [Change::NodeLabels]));
        assert!(matches!(of_node(Some(&before), Some(&uncordoned))[..], [Change::NodeTaints]));
        let waiting = pod("waiting", json!({}));
        assert!(helps_against(&Change::NodeTaints, &waiting, Rule::Taints));
        assert!(!helps_against(&Change::NodeTaints, &waiting, Rule::Choice));
        assert!(helps_against(&Change::NodeLabels, &waiting, Rule::Choice));
        assert!(helps_against(&Change::NodeCame, &waiting, Rule::Nodes));
    }

    #[test]
    fn a_pod_helps_only_those_who_speak_of_it() {
        let web = || Arc::new(pod("web", json!({"metadata": {"labels": {"app": "web"}}})));
        let affine = |kind: &str, app: &str| -> Value {
            let term = json!({"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": "zone"});
            json!({"spec": {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}})
        };
        let cases = [
            (Change::PodCame(web()), affine("podAffinity", "web"), true),
            (Change::PodCame(web()), affine("podAffinity", "db"), false),
            (Change::PodCame(web()), affine("podAntiAffinity", "web"), false),
            (Change::PodWent(web()), affine("podAntiAffinity", "web"), true),
            (Change::PodWent(web()), affine("podAntiAffinity", "db"), false),
        ];
        for (change, waiting, wanted) in cases {
            assert_eq!(helps_against(&change, &pod("waiting", waiting.clone()), Rule::Neighbours), wanted, "{waiting}");
        }
        let room = pod("waiting", asking(json!({"cpu": "1"})));
        assert!(helps_against(&Change::PodWent(web()), &room, Rule::Resources));
        assert!(!helps_against(&Change::PodCame(web()), &room, Rule::Resources));
    }
}
