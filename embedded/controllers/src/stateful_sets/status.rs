//! What a set reports, and how its pods are judged for it.

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{StatefulSet, StatefulSetStatus};
use k8s_openapi::api::core::v1::Pod;

use super::decide::Seen;
use super::{identity, spec};
use crate::owners::is_going;
use crate::pods;

/// Whether a pod runs and is ready.
pub(super) fn is_ready(pod: &Pod) -> bool {
    pods::phase(pod) == "Running" && pods::is_ready(pod)
}

/// Whether a pod runs and has been ready for long enough.
pub(super) fn is_available(set: &StatefulSet, pod: &Pod, now: Timestamp) -> bool {
    is_ready(pod) && pods::is_available(pod, spec(set).min_ready_seconds.unwrap_or(0), now)
}

/// Whether a pod is available, and is to stay.
pub(super) fn is_healthy(set: &StatefulSet, pod: &Pod, now: Timestamp) -> bool {
    is_available(set, pod, now) && !is_going(&pod.metadata)
}

/// The counts as they are. What others write into the conditions stays.
pub(super) fn count(seen: &Seen<'_>) -> StatefulSetStatus {
    let number = |counts: &dyn Fn(&Pod) -> bool| {
        i32::try_from(seen.pods.iter().filter(|pod| counts(pod)).count()).unwrap_or(i32::MAX)
    };
    let stays = |pod: &Pod| !is_going(&pod.metadata);
    let some = |count: i32| Some(count).filter(|count| *count > 0);
    StatefulSetStatus {
        observed_generation: seen.set.metadata.generation,
        replicas: number(&|_| true),
        ready_replicas: some(number(&is_ready)),
        available_replicas: Some(number(&|pod| is_available(seen.set, pod, seen.now))),
        current_replicas: some(number(&|pod| stays(pod) && identity::is_of(pod, seen.current))),
        updated_replicas: some(number(&|pod| stays(pod) && identity::is_of(pod, seen.update))),
        current_revision: Some(seen.current.name.clone()),
        update_revision: Some(seen.update.name.clone()),
        collision_count: seen.collisions,
        conditions: seen.set.status.as_ref().and_then(|status| status.conditions.clone()),
    }
}

/// Makes the new version the current one, once all pods are of it and ready.
pub(super) fn complete(set: &StatefulSet, status: &mut StatefulSetStatus) {
    let wanted = spec(set).replicas.unwrap_or(1);
    let counts = [status.updated_replicas.unwrap_or(0), status.ready_replicas.unwrap_or(0), status.replicas];
    let rolls = spec(set).update_strategy.is_none_or(|strategy| strategy.type_.as_deref() != Some("OnDelete"));
    if rolls && counts.iter().all(|count| *count == wanted) {
        status.current_replicas = status.updated_replicas;
        status.current_revision.clone_from(&status.update_revision);
    }
}
