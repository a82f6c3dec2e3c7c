//! Whether a job is over, and what it is told by: the conditions of a job.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::{Job, JobCondition, JobSpec, JobStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::policy;
use super::tally::{Tally, is_indexed};

/// That a job is over, though its pods may not be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Verdict {
    pub(super) succeeded: bool,
    pub(super) reason: String,
    pub(super) message: String,
}

impl Verdict {
    fn failed(reason: &str, message: &str) -> Self {
        Self { succeeded: false, reason: reason.into(), message: message.into() }
    }

    /// That every completion has been reached.
    pub(super) fn complete() -> Self {
        let message = "Reached expected number of succeeded pods";
        Self { succeeded: true, reason: "CompletionsReached".into(), message: message.into() }
    }

    /// The condition that announces it, and the one that comes when the last pod has ended.
    pub(super) fn conditions(&self) -> (&'static str, &'static str) {
        if self.succeeded { ("SuccessCriteriaMet", "Complete") } else { ("FailureTarget", "Failed") }
    }
}

pub(super) fn condition<'s>(status: &'s JobStatus, name: &str) -> Option<&'s JobCondition> {
    status.conditions.iter().flatten().find(|condition| condition.type_ == name)
}

/// When a job ended, if it has.
pub(crate) fn finished_at(status: &JobStatus) -> Option<Timestamp> {
    let over = ["Complete", "Failed"].into_iter().filter_map(|name| condition(status, name));
    let over = over.into_iter().find(|condition| condition.status == "True")?;
    Some(over.last_transition_time.as_ref()?.0)
}

/// Sets a condition; its time moves with its truth only. False: nothing changed. One that is not true is not added.
pub(super) fn set(status: &mut JobStatus, name: &str, is: bool, reason: &str, message: &str, now: Timestamp) -> bool {
    let truth = if is { "True" } else { "False" };
    let wanted = JobCondition {
        type_: name.into(),
        status: truth.into(),
        reason: Some(reason.into()),
        message: Some(message.into()),
        last_probe_time: Some(Time(now)),
        last_transition_time: Some(Time(now)),
    };
    match status.conditions.iter_mut().flatten().find(|condition| condition.type_ == name) {
        Some(found) if found.status == truth => return false,
        Some(found) => *found = wanted,
        None if !is => return false,
        None => status.conditions.get_or_insert_default().push(wanted),
    }
    true
}

/// How long until the job has run for too long; zero when it has.
pub(super) fn until_deadline(spec: &JobSpec, status: &JobStatus, now: Timestamp) -> Option<SignedDuration> {
    let limit = SignedDuration::from_secs(spec.active_deadline_seconds?);
    if spec.suspend == Some(true) {
        return None;
    }
    let ran = now.duration_since(status.start_time.as_ref()?.0);
    Some(limit.saturating_sub(ran).max(SignedDuration::ZERO))
}

/// Whether the job is over: what was announced stays so; else its pods, its limits and its deadline say.
pub(super) fn verdict(job: &Job, spec: &JobSpec, tally: &Tally<'_>, now: Timestamp) -> Option<Verdict> {
    let status = job.status.clone().unwrap_or_default();
    for (announced, succeeded) in [("FailureTarget", false), ("SuccessCriteriaMet", true)] {
        if let Some(found) = condition(&status, announced).filter(|found| found.status == "True") {
            let (reason, message) = (found.reason.clone(), found.message.clone());
            return Some(Verdict {
                succeeded,
                reason: reason.unwrap_or_default(),
                message: message.unwrap_or_default(),
            });
        }
    }
    if let Some(why) = &tally.fatal {
        return Some(Verdict::failed("PodFailurePolicy", why));
    }
    let limit = spec.backoff_limit.unwrap_or(6);
    if tally.failed() > limit || has_restarted_too_often(spec, tally, limit) {
        return Some(Verdict::failed("BackoffLimitExceeded", "Job has reached the specified backoff limit"));
    }
    if until_deadline(spec, &status, now).is_some_and(|left| left.is_zero()) {
        return Some(Verdict::failed("DeadlineExceeded", "Job was active longer than specified deadline"));
    }
    if is_indexed(spec) { of_indexes(spec, tally) } else { None }
}

fn of_indexes(spec: &JobSpec, tally: &Tally<'_>) -> Option<Verdict> {
    let failed = tally.failed_indexes.len();
    if spec.backoff_limit_per_index.is_some() && failed > 0 {
        if spec.max_failed_indexes.is_some_and(|limit| failed > limit) {
            let message = "Job has exceeded the specified maximal number of failed indexes";
            return Some(Verdict::failed("MaxFailedIndexesExceeded", message));
        }
        if failed + tally.succeeded_indexes.len() >= spec.completions.unwrap_or(0) {
            return Some(Verdict::failed("FailedIndexes", "Job has failed indexes"));
        }
    }
    let message = policy::success(spec, &tally.succeeded_indexes)?;
    Some(Verdict { succeeded: true, reason: "SuccessPolicy".into(), message })
}

/// Pods that restart in place do not fail; their restarts are counted instead.
fn has_restarted_too_often(spec: &JobSpec, tally: &Tally<'_>, limit: i32) -> bool {
    let policy = spec.template.spec.as_ref().and_then(|pod| pod.restart_policy.as_deref());
    if policy != Some("OnFailure") {
        return false;
    }
    let containers = tally.active.iter().flat_map(|pod| super::pods::containers(pod));
    let restarts: i32 = containers.map(|container| container.restart_count).sum();
    if limit == 0 { restarts > 0 } else { restarts >= limit }
}
