//! Bringing pods up to date node by node: by taking the old one first, or by putting the new one beside it.

use k8s_openapi::api::apps::v1::RollingUpdateDaemonSet;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;

use super::decide::{Plan, Seen};
use super::eligible::{Verdict, judge};
use super::spec;
use crate::owners::is_going;
use crate::shares::{self, Round};

/// What is on a node: a pod of the template, and one of an older one. None: more than one of either.
struct Pair<'p> {
    new: Option<&'p Pod>,
    old: Option<&'p Pod>,
}

impl<'p> Pair<'p> {
    fn on(seen: &Seen<'p>, node: &str) -> Option<Self> {
        let mut pair = Self { new: None, old: None };
        for pod in seen.on(node).into_iter().filter(|pod| !is_going(&pod.metadata)) {
            let place = if seen.is_new(pod) { &mut pair.new } else { &mut pair.old };
            if place.replace(pod).is_some() {
                return None;
            }
        }
        Some(pair)
    }
}

fn settings(seen: &Seen<'_>) -> RollingUpdateDaemonSet {
    let strategy = spec(seen.set).update_strategy.unwrap_or_default();
    strategy.rolling_update.unwrap_or_default()
}

/// Whether new pods are put beside old ones.
pub(super) fn surges(seen: &Seen<'_>) -> bool {
    shares::of(settings(seen).max_surge.as_ref(), 100, Round::Up) > 0
}

/// Takes the next step of an update.
pub(super) fn update(seen: &Seen<'_>, plan: &mut Plan) {
    let desired = plan.status.desired_number_scheduled;
    let surge = shares::of(settings(seen).max_surge.as_ref(), desired, Round::Up);
    let unavailable = shares::of(settings(seen).max_unavailable.as_ref(), desired, Round::Up);
    if surge > 0 {
        beside(seen, plan, count(surge));
    } else {
        // Neither would mean that nothing ever moves.
        in_place(seen, plan, count(unavailable.max(1)));
    }
}

fn count(number: i32) -> usize {
    usize::try_from(number).unwrap_or(0)
}

/// Takes old pods, and leaves it to the next look to put new ones in their place.
fn in_place(seen: &Seen<'_>, plan: &mut Plan, max_unavailable: usize) {
    let mut missing = 0;
    let (mut ailing, mut sound) = (Vec::new(), Vec::new());
    for node in seen.nodes {
        let name = node.name_any();
        if seen.on(&name).is_empty() && judge(seen.set, node) != Verdict::Run {
            continue;
        }
        match Pair::on(seen, &name) {
            // Too many or none at all: that is seen to first.
            None | Some(Pair { new: None, old: None } | Pair { new: Some(_), old: Some(_) }) => missing += 1,
            Some(Pair { new: Some(new), old: None }) => missing += usize::from(!seen.is_available(new)),
            Some(Pair { new: None, old: Some(old) }) if !seen.is_available(old) => {
                missing += 1;
                ailing.push(old.clone());
            }
            Some(Pair { new: None, old: Some(old) }) => sound.push(old.clone()),
        }
    }
    plan.delete.extend(ailing);
    plan.delete.extend(sound.into_iter().take(max_unavailable.saturating_sub(missing)));
}

/// Puts new pods beside old ones, and takes those whose successor is available.
fn beside(seen: &Seen<'_>, plan: &mut Plan, max_surge: usize) {
    let (mut surging, mut available) = (0, 0);
    let (mut candidates, mut misplaced) = (Vec::new(), Vec::new());
    for node in seen.nodes {
        let name = node.name_any();
        let Some(pair) = Pair::on(seen, &name) else {
            surging += 1;
            continue;
        };
        available += usize::from(pair.old.or(pair.new).is_some_and(|pod| seen.is_available(pod)));
        let should_run = judge(seen.set, node) == Verdict::Run;
        match (pair.new, pair.old) {
            (_, None) => {}
            (Some(new), Some(old)) if seen.is_available(new) => plan.delete.push(old.clone()),
            (Some(_), Some(_)) => surging += 1,
            (None, Some(old)) => match (seen.is_available(old), should_run) {
                // What is not available is replaced at once: it is no loss.
                (false, true) => plan.create.push(name),
                (false, false) => plan.delete.push(old.clone()),
                (true, true) => candidates.push(name),
                (true, false) => misplaced.push(old.clone()),
            },
        }
    }
    // One that no longer belongs where it is goes once there is one more elsewhere.
    let spare = available.saturating_sub(count(plan.status.desired_number_scheduled));
    plan.delete.extend(misplaced.into_iter().take(spare));
    plan.create.extend(candidates.into_iter().take(max_surge.saturating_sub(surging)));
}
