//! What a deployment reports: its counts, whether it is available, and whether it gets anywhere.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::{Deployment, DeploymentCondition, DeploymentStatus, ReplicaSet, ReplicaSetStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;

use super::scaling::{available, max_unavailable, replicas, sizes};
use crate::queue::Again;

pub(super) const PROGRESSING: &str = "Progressing";
const TIMED_OUT: &str = "ProgressDeadlineExceeded";
const DONE: &str = "NewReplicaSetAvailable";
const PAUSED: &str = "DeploymentPaused";

/// How long a deployment may go without progress. None: it may for ever.
pub(super) fn deadline(deployment: &Deployment) -> Option<SignedDuration> {
    let seconds = deployment.spec.as_ref()?.progress_deadline_seconds?;
    (seconds != i32::MAX).then(|| SignedDuration::from_secs(seconds.into()))
}

/// A condition.
pub(super) fn condition(
    name: &str,
    status: &str,
    reason: &str,
    message: String,
    now: Timestamp,
) -> DeploymentCondition {
    DeploymentCondition {
        type_: name.into(),
        status: status.into(),
        reason: Some(reason.into()),
        message: Some(message),
        last_update_time: Some(Time(now)),
        last_transition_time: Some(Time(now)),
    }
}

/// The condition of a name.
pub(super) fn find<'c>(conditions: &'c [DeploymentCondition], name: &str) -> Option<&'c DeploymentCondition> {
    conditions.iter().find(|condition| condition.type_ == name)
}

fn reason(condition: Option<&DeploymentCondition>) -> &str {
    condition.and_then(|condition| condition.reason.as_deref()).unwrap_or_default()
}

/// Sets a condition. One of the same status and reason is no news; the time of transition only moves with the status.
pub(super) fn set(conditions: &mut Vec<DeploymentCondition>, mut new: DeploymentCondition) {
    if let Some(current) = find(conditions, &new.type_) {
        if current.status == new.status && current.reason == new.reason {
            return;
        }
        if current.status == new.status {
            new.last_transition_time.clone_from(&current.last_transition_time);
        }
    }
    conditions.retain(|condition| condition.type_ != new.type_);
    conditions.push(new);
}

/// Notes that a deployment is paused or goes on, so that the time in between does not count as a lack of progress.
pub(super) fn note_pause(deployment: &Deployment, conditions: &mut Vec<DeploymentCondition>, now: Timestamp) {
    let current = reason(find(conditions, PROGRESSING));
    if deadline(deployment).is_none() || current == TIMED_OUT {
        return;
    }
    let noted = current == PAUSED;
    match deployment.spec.as_ref().and_then(|spec| spec.paused).unwrap_or(false) {
        true if !noted => {
            set(conditions, condition(PROGRESSING, "Unknown", PAUSED, "Deployment is paused".into(), now));
        }
        false if noted => {
            let message = "Deployment is resumed".into();
            set(conditions, condition(PROGRESSING, "Unknown", "DeploymentResumed", message, now));
        }
        _ => {}
    }
}

/// The counts over all ReplicaSets, and whether enough pods are available.
pub(super) fn counts(
    deployment: &Deployment,
    new: Option<&ReplicaSet>,
    old: &[ReplicaSet],
    mut conditions: Vec<DeploymentCondition>,
    now: Timestamp,
) -> DeploymentStatus {
    let all = || new.into_iter().chain(old);
    let total =
        |count: fn(&ReplicaSetStatus) -> i32| all().filter_map(|set| set.status.as_ref().map(count)).sum::<i32>();
    let ready_now = all().map(available).sum::<i32>();
    let enough = ready_now >= replicas(deployment) - max_unavailable(deployment);
    let (status, reason, message) = if enough {
        ("True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
    } else {
        ("False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
    };
    set(&mut conditions, condition("Available", status, reason, message.into(), now));
    let some = |count: i32| Some(count).filter(|count| *count > 0);
    DeploymentStatus {
        observed_generation: deployment.metadata.generation,
        replicas: some(total(|status| status.replicas)),
        updated_replicas: some(new.and_then(|set| set.status.as_ref()).map_or(0, |status| status.replicas)),
        ready_replicas: some(total(|status| status.ready_replicas.unwrap_or(0))),
        available_replicas: some(ready_now),
        unavailable_replicas: some(sizes(all()) - ready_now),
        collision_count: deployment.status.as_ref().and_then(|status| status.collision_count),
        conditions: Some(conditions),
        ..DeploymentStatus::default()
    }
}

/// Whether everything runs as asked.
pub(super) fn is_complete(deployment: &Deployment, status: &DeploymentStatus) -> bool {
    let wanted = replicas(deployment);
    let all = [status.updated_replicas, status.replicas, status.available_replicas];
    all.iter().all(|count| count.unwrap_or(0) == wanted) && status.observed_generation >= deployment.metadata.generation
}

/// Whether more is new, ready or available than was, or less is old.
fn is_progressing(before: &DeploymentStatus, now: &DeploymentStatus) -> bool {
    let old = |status: &DeploymentStatus| status.replicas.unwrap_or(0) - status.updated_replicas.unwrap_or(0);
    now.updated_replicas > before.updated_replicas
        || old(now) < old(before)
        || now.ready_replicas > before.ready_replicas
        || now.available_replicas > before.available_replicas
}

/// Says in the conditions whether a rollout is done, gets on or is stuck, and when to look again.
pub(super) fn judge(
    deployment: &Deployment,
    new: Option<&ReplicaSet>,
    old: &[ReplicaSet],
    status: &mut DeploymentStatus,
    now: Timestamp,
) -> Again {
    let complete = is_complete(deployment, status);
    let progressing = is_progressing(&deployment.status.clone().unwrap_or_default(), status);
    let settled = status.replicas == status.updated_replicas;
    let conditions = status.conditions.get_or_insert_default();
    let Some(deadline) = deadline(deployment) else {
        conditions.retain(|condition| condition.type_ != PROGRESSING);
        note_failure(conditions, new, old);
        return None;
    };
    let current = find(conditions, PROGRESSING).cloned();
    let due = current.as_ref().and_then(|current| current.last_update_time.as_ref()).map(|since| since.0 + deadline);
    let timed_out = match reason(current.as_ref()) {
        "" | DONE => false,
        TIMED_OUT => true,
        _ => due.is_some_and(|due| due < now),
    };
    let subject = new.map_or_else(
        || format!("Deployment {:?}", deployment.name_any()),
        |set| format!("ReplicaSet {:?}", set.name_any()),
    );
    if !(settled && reason(current.as_ref()) == DONE) {
        if complete {
            set(
                conditions,
                condition(PROGRESSING, "True", DONE, format!("{subject} has successfully progressed."), now),
            );
        } else if progressing {
            let mut moved =
                condition(PROGRESSING, "True", "ReplicaSetUpdated", format!("{subject} is progressing."), now);
            if let Some(current) = current.as_ref().filter(|current| current.status == "True") {
                moved.last_transition_time.clone_from(&current.last_transition_time);
            }
            // Taken away first: that it moved again is news, though status and reason are the same.
            conditions.retain(|condition| condition.type_ != PROGRESSING);
            set(conditions, moved);
        } else if timed_out {
            let message = format!("{subject} has timed out progressing.");
            set(conditions, condition(PROGRESSING, "False", TIMED_OUT, message, now));
        }
    }
    note_failure(conditions, new, old);
    let current = find(conditions, PROGRESSING)?;
    if complete || matches!(reason(Some(current)), TIMED_OUT | DONE) {
        return None;
    }
    let left = current.last_update_time.as_ref()?.0 + deadline;
    // A second later: the deadline itself has a precision of a second.
    Some(Duration::try_from(left.duration_since(now)).unwrap_or_default() + Duration::from_secs(1))
}

/// Takes over the failure of the new ReplicaSet to have its pods, or that of an old one.
fn note_failure(conditions: &mut Vec<DeploymentCondition>, new: Option<&ReplicaSet>, old: &[ReplicaSet]) {
    let failures = new.into_iter().chain(old).filter_map(|set| {
        let conditions = set.status.as_ref()?.conditions.as_ref()?;
        conditions.iter().find(|condition| condition.type_ == "ReplicaFailure")
    });
    let Some(failure) = failures.into_iter().next() else {
        conditions.retain(|condition| condition.type_ != "ReplicaFailure");
        return;
    };
    set(
        conditions,
        DeploymentCondition {
            type_: failure.type_.clone(),
            status: failure.status.clone(),
            reason: failure.reason.clone(),
            message: failure.message.clone(),
            last_update_time: failure.last_transition_time.clone(),
            last_transition_time: failure.last_transition_time.clone(),
        },
    );
}
