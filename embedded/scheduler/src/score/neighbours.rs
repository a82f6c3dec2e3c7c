//! The pods that a pod had rather be near, or far from, and those that feel so about it.

use std::collections::HashMap;

use crate::filter::Search;
use crate::model::node::Node;
use crate::model::pod_terms::Term;

use super::BEST;

/// What it is worth to be near a pod that must have this one near.
const NEEDED: i64 = 1;

/// The more wanted company and the less unwanted, the better.
pub(super) fn scores(search: &Search<'_>, nodes: &[&Node]) -> Vec<i64> {
    let worth = worths(search);
    let of = |node: &&Node| -> i64 {
        let here = worth.iter().filter(|((key, value), _)| node.labels.get(*key).is_some_and(|v| v == value));
        here.map(|(_, worth)| worth).sum()
    };
    let scores: Vec<i64> = nodes.iter().map(of).collect();
    let (Some(least), Some(most)) = (scores.iter().min().copied(), scores.iter().max().copied()) else { return scores };
    if least == most {
        return vec![0; nodes.len()];
    }
    scores.into_iter().map(|score| BEST * (score - least) / (most - least)).collect()
}

/// What each value of each label of nodes is worth.
fn worths<'a>(search: &'a Search<'_>) -> HashMap<(&'a str, &'a str), i64> {
    let Search { pod, snapshot, .. } = search;
    let mut worths = HashMap::new();
    let mut add = |node: &'a Node, term: &'a Term, weight: i64| {
        if let Some(value) = node.labels.get(&term.topology) {
            *worths.entry((term.topology.as_str(), value.as_str())).or_insert(0) += weight;
        }
    };
    let own_namespace = snapshot.namespaces.get(&pod.namespace);
    for (node, other) in snapshot.neighbours() {
        for (weight, term) in &pod.wants.neighbours.preferred {
            if term.means(other, snapshot.namespaces.get(&other.namespace)) {
                add(node, term, *weight);
            }
        }
        let needed = other.wants.neighbours.near.iter().map(|term| (NEEDED, term));
        let preferred = other.wants.neighbours.preferred.iter().map(|(weight, term)| (*weight, term));
        for (weight, term) in needed.chain(preferred).filter(|(_, term)| term.means(pod, own_namespace)) {
            add(node, term, weight);
        }
    }
    worths
}
