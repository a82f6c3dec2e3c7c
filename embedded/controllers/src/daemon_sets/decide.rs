//! What to do about a set, its pods and the nodes as they are.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{DaemonSet, DaemonSetStatus};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::ResourceExt;

use super::eligible::{Verdict, judge, node_of};
use super::{HASH, rolling, spec, status};
use crate::owners::is_going;
use crate::pods;
use crate::queue::Again;

/// What there is.
pub(super) struct Seen<'s> {
    pub(super) set: &'s DaemonSet,
    /// The hash of the set's template.
    pub(super) hash: &'s str,
    pub(super) nodes: &'s [Node],
    pub(super) pods: &'s [Pod],
    pub(super) collisions: Option<i32>,
    pub(super) now: Timestamp,
}

impl<'s> Seen<'s> {
    /// The pods on a node or bound for it. One that has ended and is on its way out is as good as gone.
    pub(super) fn on(&self, node: &str) -> Vec<&'s Pod> {
        let is_there = |pod: &&Pod| node_of(pod) == Some(node) && !(is_going(&pod.metadata) && pods::is_finished(pod));
        self.pods.iter().filter(is_there).collect()
    }

    /// Whether a pod is of the set's template.
    pub(super) fn is_new(&self, pod: &Pod) -> bool {
        pod.labels().get(HASH).is_some_and(|hash| hash == self.hash)
    }

    pub(super) fn is_available(&self, pod: &Pod) -> bool {
        pods::is_available(pod, spec(self.set).min_ready_seconds.unwrap_or(0), self.now)
    }
}

/// What is to be done, and what is to be reported then.
#[derive(Debug, Default)]
pub(super) struct Plan {
    /// The nodes that get a pod.
    pub(super) create: Vec<String>,
    pub(super) delete: Vec<Pod>,
    /// The pods of those that are deleted because they ended, each with its node.
    pub(super) ended: Vec<(Pod, String)>,
    pub(super) status: DaemonSetStatus,
    pub(super) again: Again,
}

impl Plan {
    fn look_again(&mut self, after: Duration) {
        self.again = Some(self.again.map_or(after, |again| again.min(after)));
    }
}

/// Decides. `patience` is how long a failed pod on a node is left as it is.
pub(super) fn plan(seen: &Seen<'_>, patience: &dyn Fn(&str) -> Duration) -> Plan {
    let mut plan = Plan { status: status::count(seen), ..Plan::default() };
    let seconds = spec(seen.set).min_ready_seconds.unwrap_or(0);
    let left = seen.pods.iter().filter_map(|pod| pods::until_available(pod, seconds, seen.now));
    plan.again = left.filter(|left| !left.is_zero()).min();
    for node in seen.nodes {
        populate(seen, node, patience, &mut plan);
    }
    let exists = |name: &str| seen.nodes.iter().any(|node| node.name_any() == name);
    let is_lost = |pod: &&Pod| {
        let placed = pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some());
        !placed && !is_going(&pod.metadata) && node_of(pod).is_some_and(|node| !exists(node))
    };
    plan.delete.extend(seen.pods.iter().filter(is_lost).cloned());
    let strategy = spec(seen.set).update_strategy.and_then(|strategy| strategy.type_);
    // What is missing or too much comes first: an update on top of it would take too many.
    if plan.create.is_empty() && plan.delete.is_empty() && strategy.as_deref() != Some("OnDelete") {
        rolling::update(seen, &mut plan);
    }
    plan
}

/// Sees to one node: the pod that it lacks, those that it has too many, those that ended.
fn populate(seen: &Seen<'_>, node: &Node, patience: &dyn Fn(&str) -> Duration, plan: &mut Plan) {
    let name = node.name_any();
    let pods = seen.on(&name);
    let verdict = judge(seen.set, node);
    if verdict == Verdict::Leave {
        plan.delete.extend(pods.into_iter().filter(|pod| !is_going(&pod.metadata)).cloned());
        return;
    }
    if pods.is_empty() {
        if verdict == Verdict::Run {
            plan.create.push(name);
        }
        return;
    }
    let mut running = Vec::new();
    for pod in pods.into_iter().filter(|pod| !is_going(&pod.metadata)) {
        let left = if pods::phase(pod) == "Failed" { patience(&name) } else { Duration::ZERO };
        if !pods::is_finished(pod) {
            running.push(pod);
        } else if left.is_zero() {
            plan.ended.push((pod.clone(), name.clone()));
            plan.delete.push(pod.clone());
        } else {
            plan.look_again(left);
        }
    }
    running.sort_by_key(|pod| (pod.creation_timestamp().map(|time| time.0), pod.name_any()));
    plan.delete.extend(excess(seen, &running).into_iter().cloned());
}

/// Of the pods that run on a node, those that are too many: all but the oldest, or with a surge all but the oldest of
/// each kind, and the old one once the new one can do without it.
fn excess<'p>(seen: &Seen<'_>, running: &[&'p Pod]) -> Vec<&'p Pod> {
    if !rolling::surges(seen) {
        return running.iter().skip(1).copied().collect();
    }
    let (new, old): (Vec<&Pod>, Vec<&Pod>) = running.iter().copied().partition(|pod| seen.is_new(pod));
    let mut excess: Vec<&Pod> = new.iter().skip(1).chain(old.iter().skip(1)).copied().collect();
    if let (Some(new), Some(old)) = (new.first(), old.first())
        && (!pods::is_ready(old) || seen.is_available(new))
    {
        excess.push(old);
    }
    excess
}
