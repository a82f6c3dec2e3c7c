//! How much room a node has left, and how evenly it is used.

use crate::filter::Search;
use crate::model::node::Node;
use crate::model::resources::{CPU, MEMORY, Resources};

use super::BEST;

const COMPARED: [&str; 2] = [CPU, MEMORY];

/// The emptier, the better.
pub(super) fn room(search: &Search<'_>, nodes: &[&Node]) -> Vec<i64> {
    let room = |node: &&Node| {
        let mut used = search.snapshot.on(&node.name).footprint.clone();
        used.add(&search.pod.wants.footprint);
        let has = |resource: &&&str| node.allocatable.get(resource) > 0;
        let left: Vec<i64> = COMPARED.iter().filter(has).map(|resource| left(node, &used, resource)).collect();
        left.iter().sum::<i64>() / i64::try_from(left.len().max(1)).unwrap_or(1)
    };
    nodes.iter().map(room).collect()
}

fn left(node: &Node, used: &Resources, resource: &str) -> i64 {
    let there_is = node.allocatable.get(resource);
    let left = i128::from(there_is.saturating_sub(used.get(resource)).max(0));
    i64::try_from(left * i128::from(BEST) / i128::from(there_is)).unwrap_or(0)
}

/// The closer the used parts of cpu and memory are, the better. Who asks for nothing changes nothing about that.
pub(super) fn balance(search: &Search<'_>, nodes: &[&Node]) -> Vec<i64> {
    let requests = &search.pod.wants.requests;
    if COMPARED.iter().all(|resource| requests.get(resource) == 0) {
        return vec![0; nodes.len()];
    }
    let balance = |node: &&Node| {
        let mut used = search.snapshot.on(&node.name).requests.clone();
        used.add(requests);
        let [cpu, memory] = COMPARED.map(|resource| part(node, &used, resource));
        let apart = (cpu - memory).abs() / 2.0;
        #[expect(clippy::cast_possible_truncation, reason = "between 0 and 100")]
        let score = ((1.0 - apart) * 100.0) as i64;
        score
    };
    nodes.iter().map(balance).collect()
}

#[expect(clippy::cast_precision_loss, reason = "a score needs no more than two digits")]
fn part(node: &Node, used: &Resources, resource: &str) -> f64 {
    let there_is = node.allocatable.get(resource);
    if there_is == 0 { 0.0 } else { (used.get(resource) as f64 / there_is as f64).clamp(0.0, 1.0) }
}
