//! What a job reads off one of its pods.

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};

use crate::owners::is_going;
use crate::pods::{is_finished, phase};

/// Keeps a pod until it has been counted.
pub(super) const TRACKED: &str = "batch.kubernetes.io/job-tracking";
/// The completion index of a pod, as an annotation and as a label.
pub(super) const INDEX: &str = "batch.kubernetes.io/job-completion-index";
/// How often the index of a pod had failed before it.
pub(super) const INDEX_FAILURES: &str = "batch.kubernetes.io/job-index-failure-count";
/// The same for failures that do not count.
pub(super) const INDEX_IGNORED: &str = "batch.kubernetes.io/job-index-ignored-failure-count";

pub(super) fn uid(pod: &Pod) -> &str {
    pod.metadata.uid.as_deref().unwrap_or_default()
}

/// Whether it still has to be counted.
pub(super) fn is_tracked(pod: &Pod) -> bool {
    pod.metadata.finalizers.iter().flatten().any(|held| held == TRACKED)
}

pub(super) fn has_succeeded(pod: &Pod) -> bool {
    phase(pod) == "Succeeded"
}

/// Whether it is on its way out and has not ended yet.
pub(super) fn is_terminating(pod: &Pod) -> bool {
    !is_finished(pod) && is_going(&pod.metadata)
}

/// Whether only pods that have really ended are replaced, rather than those that are about to.
pub(super) fn waits_for_the_end(job: &Job) -> bool {
    job.spec.as_ref().is_some_and(|spec| {
        spec.pod_replacement_policy.as_deref() == Some("Failed") || spec.pod_failure_policy.is_some()
    })
}

/// Whether the job takes it as failed. A pod that is deleted may never get to say that it failed, so unless the job
/// waits for the end, being deleted is failing.
pub(super) fn has_failed(pod: &Pod, job: &Job) -> bool {
    phase(pod) == "Failed" || (!waits_for_the_end(job) && is_terminating(pod))
}

/// The index that the pod works on.
pub(super) fn index(pod: &Pod) -> Option<i32> {
    number(pod, INDEX).filter(|index| *index >= 0)
}

/// How often its index had failed before it.
pub(super) fn index_failures(pod: &Pod) -> i32 {
    number(pod, INDEX_FAILURES).unwrap_or(0)
}

/// How often its index had failed before it without that being counted.
pub(super) fn ignored_index_failures(pod: &Pod) -> i32 {
    number(pod, INDEX_IGNORED).unwrap_or(0)
}

fn number(pod: &Pod, annotation: &str) -> Option<i32> {
    pod.metadata.annotations.as_ref()?.get(annotation)?.parse().ok()
}

/// Its containers, those that start it included.
pub(super) fn containers(pod: &Pod) -> impl Iterator<Item = &ContainerStatus> {
    pod.status.iter().flat_map(|status| {
        status.container_statuses.iter().flatten().chain(status.init_container_statuses.iter().flatten())
    })
}

/// When it ended, as near as can be told.
pub(super) fn ended_at(pod: &Pod, now: Timestamp) -> Timestamp {
    let ended = containers(pod)
        .filter_map(|container| container.state.as_ref()?.terminated.as_ref()?.finished_at.as_ref())
        .map(|time| time.0);
    let deleted = pod.metadata.deletion_timestamp.as_ref().map(|time| time.0);
    let changed = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let changed = changed.filter_map(|condition| condition.last_transition_time.as_ref()).map(|time| time.0);
    ended.max().or(deleted).or_else(|| changed.max()).map_or(now, |when| when.min(now))
}
