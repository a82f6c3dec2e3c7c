//! What to do about a set and its pods as they are: one at a time in order, or all at once.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{StatefulSet, StatefulSetStatus};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};

use super::status::{self, is_available, is_healthy, is_ready};
use super::{Version, identity, spec, volumes};
use crate::owners::is_going;
use crate::pods;
use crate::queue::Again;

/// How soon to look whether a claim that goes is gone: no one tells.
const CLAIM_GOES: Duration = Duration::from_secs(1);

/// What there is.
pub(super) struct Seen<'s> {
    pub(super) set: &'s StatefulSet,
    /// The version that pods are of which are not to be updated.
    pub(super) current: &'s Version,
    /// The version of the set's template.
    pub(super) update: &'s Version,
    pub(super) pods: &'s [Pod],
    pub(super) claims: &'s [PersistentVolumeClaim],
    pub(super) collisions: Option<i32>,
    pub(super) now: Timestamp,
}

/// What is to be done, in this order, and what is to be reported then.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) steps: Vec<Step>,
    pub(super) status: StatefulSetStatus,
    pub(super) again: Again,
}

/// One thing to be done.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step {
    /// A claim for the pod of that name.
    Claim(Box<PersistentVolumeClaim>, String),
    /// A claim gets other owners.
    Own(Box<PersistentVolumeClaim>),
    Create(Box<Pod>),
    /// A pod gets the labels that say who it is.
    Label(Box<Pod>, BTreeMap<String, String>),
    Delete(Box<Pod>),
}

/// Decides.
pub(super) fn plan(seen: &Seen<'_>) -> Plan {
    let mut plan = Plan { status: status::count(seen), ..Plan::default() };
    plan.again = soonest_available(seen);
    if keep_places(seen, &mut plan) && shrink(seen, &mut plan) {
        update(seen, &mut plan);
    }
    status::complete(seen.set, &mut plan.status);
    plan
}

/// When the next pod that is ready will have been so for long enough.
fn soonest_available(seen: &Seen<'_>) -> Again {
    let seconds = spec(seen.set).min_ready_seconds.unwrap_or(0);
    let ready = seen.pods.iter().filter(|pod| is_ready(pod));
    let left = ready.filter_map(|pod| pods::until_available(pod, seconds, seen.now));
    left.filter(|left| !left.is_zero()).min()
}

fn in_order(set: &StatefulSet) -> bool {
    spec(set).pod_management_policy.as_deref() != Some("Parallel")
}

/// The places of a set, the first first.
fn places(set: &StatefulSet) -> std::ops::Range<i32> {
    let first = identity::first(set);
    first..first + spec(set).replicas.unwrap_or(1)
}

fn at<'s>(seen: &Seen<'s>, place: i32) -> Option<&'s Pod> {
    seen.pods.iter().find(|pod| identity::ordinal(seen.set, pod) == Some(place))
}

/// The pods that have no place any more, the last first.
fn condemned<'s>(seen: &Seen<'s>) -> Vec<(i32, &'s Pod)> {
    let places = places(seen.set);
    let numbered = seen.pods.iter().filter_map(|pod| Some((identity::ordinal(seen.set, pod)?, pod)));
    let mut condemned: Vec<(i32, &Pod)> = numbered.filter(|(place, _)| !places.contains(place)).collect();
    condemned.sort_by_key(|(place, _)| std::cmp::Reverse(*place));
    condemned
}

/// Sees to it that every place has its pod. False: something has to come first.
fn keep_places(seen: &Seen<'_>, plan: &mut Plan) -> bool {
    for place in places(seen.set) {
        if !keep_place(seen, place, plan) && in_order(seen.set) {
            return false;
        }
    }
    true
}

/// Sees to one place. False: the places after it have to wait.
fn keep_place(seen: &Seen<'_>, place: i32, plan: &mut Plan) -> bool {
    let (set, now) = (seen.set, seen.now);
    let Some(pod) = at(seen, place) else {
        if volumes::are_stale(set, place, seen.claims) {
            plan.again = Some(CLAIM_GOES);
        } else {
            claim(seen, place, plan);
            plan.steps.push(Step::Create(Box::new(identity::pod(set, version_at(seen, place), place))));
        }
        return false;
    };
    if pods::is_finished(pod) {
        if !is_going(&pod.metadata) {
            plan.steps.push(Step::Delete(Box::new(pod.clone())));
        }
        return false;
    }
    if pods::phase(pod) == "Pending" {
        claim(seen, place, plan);
    }
    if in_order(set) && (is_going(&pod.metadata) || !is_available(set, pod, now)) {
        return false;
    }
    if !identity::is_labelled(set, pod) {
        plan.steps.push(Step::Label(Box::new(pod.clone()), identity::labels(set, place)));
    }
    own(seen, pod, false, plan);
    true
}

/// The version that the pod in a place is made of: below the partition, the current one.
fn version_at<'s>(seen: &Seen<'s>, place: i32) -> &'s Version {
    let strategy = spec(seen.set).update_strategy.unwrap_or_default();
    let below = match strategy.rolling_update.and_then(|rolling| rolling.partition) {
        _ if strategy.type_.as_deref() == Some("OnDelete") => 0,
        Some(partition) => partition,
        None => seen.set.status.as_ref().and_then(|status| status.current_replicas).unwrap_or(0),
    };
    if place < identity::first(seen.set) + below { seen.current } else { seen.update }
}

fn claim(seen: &Seen<'_>, place: i32, plan: &mut Plan) {
    let missing = volumes::missing(seen.set, place, seen.claims);
    let pod = identity::name(seen.set, place);
    plan.steps.extend(missing.into_iter().map(|claim| Step::Claim(Box::new(claim), pod.clone())));
}

fn own(seen: &Seen<'_>, pod: &Pod, condemned: bool, plan: &mut Plan) {
    let claims = volumes::to_own(seen.set, pod, condemned, seen.claims);
    plan.steps.extend(claims.into_iter().map(|claim| Step::Own(Box::new(claim))));
}

/// Ends the pods that have no place any more, the last first. False: something has to come first.
fn shrink(seen: &Seen<'_>, plan: &mut Plan) -> bool {
    let condemned = condemned(seen);
    for (_, pod) in &condemned {
        own(seen, pod, true, plan);
    }
    let places = places(seen.set).chain(condemned.iter().rev().map(|(place, _)| *place));
    let is_sound = |place: i32| at(seen, place).is_some_and(|pod| is_healthy(seen.set, pod, seen.now));
    let ailing = places.into_iter().find(|place| !is_sound(*place));
    for (place, pod) in condemned {
        if is_going(&pod.metadata) {
            if in_order(seen.set) {
                return false;
            }
            continue;
        }
        // Of those that ail, the first is ended: it may be why the others do.
        if in_order(seen.set) && !is_available(seen.set, pod, seen.now) && ailing != Some(place) {
            return false;
        }
        plan.steps.push(Step::Delete(Box::new(pod.clone())));
        if in_order(seen.set) {
            return false;
        }
    }
    true
}

/// Ends the last pod that is not of the new version, once those after it are healthy.
fn update(seen: &Seen<'_>, plan: &mut Plan) {
    let strategy = spec(seen.set).update_strategy.unwrap_or_default();
    if strategy.type_.as_deref() == Some("OnDelete") {
        return;
    }
    let partition = strategy.rolling_update.and_then(|rolling| rolling.partition).unwrap_or(0);
    let places = places(seen.set);
    for place in places.clone().skip(usize::try_from(partition).unwrap_or(0)).rev() {
        // One that is not there is about to be.
        let Some(pod) = at(seen, place) else { return };
        if !identity::is_of(pod, seen.update) && !is_going(&pod.metadata) {
            plan.steps.push(Step::Delete(Box::new(pod.clone())));
            let left = plan.status.current_replicas.unwrap_or(0) - 1;
            plan.status.current_replicas = Some(left).filter(|left| *left > 0);
            return;
        }
        if !is_healthy(seen.set, pod, seen.now) {
            return;
        }
    }
}
