//! What a set reports.

use k8s_openapi::api::apps::v1::DaemonSetStatus;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;

use super::decide::Seen;
use super::eligible::{Verdict, judge};
use super::spec;
use crate::pods;

/// Of the pods on a node the one that counts: the oldest that is there already.
fn foremost<'p>(pods: &[&'p Pod]) -> Option<&'p Pod> {
    let is_placed = |pod: &Pod| pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some());
    let key = |pod: &&Pod| (!is_placed(pod), pod.creation_timestamp().map(|time| time.0), pod.name_any());
    pods.iter().copied().min_by_key(key)
}

/// The counts as they are. What others write into the conditions stays.
pub(super) fn count(seen: &Seen<'_>) -> DaemonSetStatus {
    let seconds = spec(seen.set).min_ready_seconds.unwrap_or(0);
    let (mut available, mut updated) = (0, 0);
    let mut status = DaemonSetStatus {
        observed_generation: seen.set.metadata.generation,
        collision_count: seen.collisions,
        conditions: seen.set.status.as_ref().and_then(|status| status.conditions.clone()),
        ..DaemonSetStatus::default()
    };
    for node in seen.nodes {
        let pod = foremost(&seen.on(&node.name_any()));
        if judge(seen.set, node) != Verdict::Run {
            status.number_misscheduled += i32::from(pod.is_some());
            continue;
        }
        status.desired_number_scheduled += 1;
        let Some(pod) = pod else { continue };
        status.current_number_scheduled += 1;
        status.number_ready += i32::from(pods::is_ready(pod));
        available += i32::from(pods::is_available(pod, seconds, seen.now));
        updated += i32::from(seen.is_new(pod));
    }
    let some = |count: i32| Some(count).filter(|count| *count > 0);
    status.number_available = some(available);
    status.number_unavailable = some(status.desired_number_scheduled - available);
    status.updated_number_scheduled = some(updated);
    status
}
