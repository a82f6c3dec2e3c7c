//! Spread constraints that a pod would rather break than wait for: its own, or what holds for those that have none.

use std::collections::{BTreeMap, BTreeSet};

use crate::filter::Search;
use crate::filter::spread::{counts_for, has_labels};
use crate::model::node::Node;
use crate::model::pod_terms::{HOSTNAME, Spread};

use super::BEST;

/// The fewer of its like are near, the better.
pub(super) fn scores(search: &Search<'_>, nodes: &[&Node]) -> Vec<i64> {
    let wants = &search.pod.wants.spread;
    let unsaid = if wants.is_empty() { Spread::unsaid(search.pod, &search.snapshot.services) } else { Vec::new() };
    let loose: Vec<&Spread> = wants.iter().filter(|constraint| !constraint.is_strict).chain(&unsaid).collect();
    if loose.is_empty() {
        return vec![0; nodes.len()];
    }
    // Who says nothing does not mind that a node has no zone.
    let is_out = |node: &Node| unsaid.is_empty() && !has_labels(node, &loose);
    let kept: Vec<&Node> = nodes.iter().copied().filter(|node| !is_out(node)).collect();
    let counts: Vec<Crowd<'_>> = loose.iter().map(|constraint| Crowd::of(search, constraint, &kept)).collect();
    let crowded = |node: &Node| (!is_out(node)).then(|| counts.iter().map(|crowd| crowd.at(search, node)).sum::<f64>());
    inverted(&nodes.iter().map(|node| crowded(node)).collect::<Vec<_>>())
}

/// How many pods of a constraint are where.
struct Crowd<'a> {
    constraint: &'a Spread,
    pods: BTreeMap<&'a str, usize>,
    /// With more values, each one counts more.
    weight: f64,
}

impl<'a> Crowd<'a> {
    fn of(search: &Search<'a>, constraint: &'a Spread, kept: &[&'a Node]) -> Self {
        let of = |node: &'a Node| node.labels.get(&constraint.topology).map(String::as_str);
        let values: BTreeSet<&str> = kept.iter().copied().filter_map(of).collect();
        let mut pods = BTreeMap::new();
        for node in search.snapshot.nodes.values().filter(|node| counts_for(constraint, search.pod, node)) {
            if let Some(value) = of(node).filter(|value| values.contains(value)) {
                *pods.entry(value).or_insert(0) += fellows(search, constraint, node);
            }
        }
        let size = if constraint.topology == HOSTNAME { kept.len() } else { values.len() };
        Self { constraint, pods, weight: number(size + 2).ln() }
    }

    fn at(&self, search: &Search<'_>, node: &Node) -> f64 {
        let Some(value) = node.labels.get(&self.constraint.topology) else { return 0.0 };
        let count = if self.constraint.topology == HOSTNAME {
            fellows(search, self.constraint, node)
        } else {
            self.pods.get(value.as_str()).copied().unwrap_or(0)
        };
        #[expect(clippy::cast_precision_loss, reason = "a skew is a small number")]
        let allowed = (self.constraint.max_skew - 1) as f64;
        number(count) * self.weight + allowed
    }
}

fn fellows(search: &Search<'_>, constraint: &Spread, node: &Node) -> usize {
    let pods = search.snapshot.on(&node.name).pods.values();
    pods.filter(|other| constraint.counts(other, &search.pod.namespace)).count()
}

#[expect(clippy::cast_precision_loss, reason = "there are fewer pods than a float can count")]
fn number(count: usize) -> f64 {
    count as f64
}

/// Turns crowds into scores: the emptiest place has 100, a node that is out has none.
fn inverted(crowds: &[Option<f64>]) -> Vec<i64> {
    #[expect(clippy::cast_possible_truncation, reason = "crowds are small")]
    let rounded: Vec<Option<i64>> = crowds.iter().map(|crowd| crowd.map(|crowd| crowd.round() as i64)).collect();
    let least = rounded.iter().flatten().min().copied().unwrap_or(0);
    let most = rounded.iter().flatten().max().copied().unwrap_or(0);
    let score = |crowd: &Option<i64>| match crowd {
        None => 0,
        Some(_) if most == 0 => BEST,
        Some(crowd) => BEST * (most + least - crowd) / most,
    };
    rounded.iter().map(score).collect()
}
