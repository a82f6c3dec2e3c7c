//! What to do about a cron job, from what was seen of it and its jobs.

use std::time::Duration;

use c5c3_events::News;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::{CronJob, CronJobSpec, CronJobStatus, Job};
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{Resource, ResourceExt};

use super::schedule::{Schedule, Unusable};
use crate::jobs::finished_at;
use crate::owners;

/// Says on a job which time it was made for.
pub(super) const SCHEDULED: &str = "batch.kubernetes.io/cronjob-scheduled-timestamp";
/// The longest sleep. Nothing happens at its end but the next; timers cannot be set for leap years ahead.
const LONGEST: Duration = Duration::from_hours(30 * 24);

/// A job that is to be made.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Start {
    pub(super) name: String,
    pub(super) at: Timestamp,
    /// The time as the cron job's zone has it.
    pub(super) told: String,
}

/// What to do, in the order of the fields.
#[derive(Debug, Default)]
pub(super) struct Plan<'j> {
    pub(super) told: Vec<(News, &'static str, String)>,
    /// Jobs that give way to the one that starts.
    pub(super) replace: Vec<&'j Job>,
    pub(super) start: Option<Start>,
    /// The status, without the job that starts.
    pub(super) status: CronJobStatus,
    /// Jobs that are over and too many to be kept.
    pub(super) forget: Vec<&'j Job>,
    /// When to look again.
    pub(super) again: Option<Duration>,
}

/// What to do about a cron job.
pub(super) fn decide<'j>(cron: &CronJob, jobs: &'j [Job], now: Timestamp) -> Plan<'j> {
    let mut plan = Plan { status: cron.status.clone().unwrap_or_default(), ..Plan::default() };
    let Some(spec) = &cron.spec else { return plan };
    take_stock(jobs, &mut plan);
    plan.forget = too_old(spec, jobs);
    if owners::is_going(&cron.metadata) || spec.suspend == Some(true) {
        return plan;
    }
    match Schedule::of(spec) {
        Ok(schedule) => start(cron, spec, &schedule, jobs, now, &mut plan),
        Err(Unusable(reason, message)) => plan.told.push((News::Warning, reason, message)),
    }
    plan
}

/// What refers to a job that runs.
pub(super) fn reference(job: &Job) -> ObjectReference {
    job.object_ref(&())
}

/// Brings the list of jobs that run up to date.
fn take_stock(jobs: &[Job], plan: &mut Plan<'_>) {
    let known = plan.status.active.take().unwrap_or_default();
    let mut active = Vec::new();
    for reference in known {
        let found = jobs.iter().find(|job| job.metadata.uid == reference.uid);
        let name = reference.name.clone().unwrap_or_default();
        match found {
            None => plan.told.push((News::Normal, "MissingJob", format!("Active job went missing: {name}"))),
            Some(job) if is_over(job) => {
                let how = if is_complete(job) { "Complete" } else { "Failed" };
                let message = format!("Saw completed job: {name}, condition: {how}");
                plan.told.push((News::Normal, "SawCompletedJob", message));
            }
            Some(_) => active.push(reference),
        }
    }
    let ends =
        jobs.iter().filter(|job| is_complete(job)).filter_map(|job| job.status.as_ref()?.completion_time.clone());
    let known = plan.status.last_successful_time.take();
    plan.status.last_successful_time = ends.chain(known).max();
    for job in jobs.iter().filter(|job| !is_over(job) && !owners::is_going(&job.metadata)) {
        if active.iter().any(|reference| reference.uid == job.metadata.uid) {
            continue;
        }
        if let Some(when) = scheduled_for(job) {
            // It was made just before that could be written down.
            active.push(reference(job));
            let last = plan.status.last_schedule_time.take();
            plan.status.last_schedule_time = last.into_iter().chain([Time(when)]).max();
        } else {
            let message = format!("Saw a job that the controller did not create or forgot: {}", job.name_any());
            plan.told.push((News::Warning, "UnexpectedJob", message));
        }
    }
    plan.status.active = Some(active).filter(|active| !active.is_empty());
}

/// The time that a job of ours was made for.
fn scheduled_for(job: &Job) -> Option<Timestamp> {
    job.annotations().get(SCHEDULED)?.parse().ok()
}

/// Starts what is due, unless it is too late for it or another job runs that has to end first.
fn start<'j>(
    cron: &CronJob,
    spec: &CronJobSpec,
    schedule: &Schedule,
    jobs: &'j [Job],
    now: Timestamp,
    plan: &mut Plan<'j>,
) {
    let left = |next: Timestamp| Duration::try_from(next.duration_since(now)).unwrap_or_default().min(LONGEST);
    plan.again = schedule.next(now).map(left);
    let limit = spec.starting_deadline_seconds.map(SignedDuration::from_secs);
    let created = cron.metadata.creation_timestamp.as_ref().map_or(now, |time| time.0);
    let last = plan.status.last_schedule_time.as_ref().map_or(created, |time| time.0);
    // What was due before the deadline need not even be counted.
    let since = limit.and_then(|limit| now.checked_sub(limit).ok()).map_or(last, |earliest| earliest.max(last));
    let Some(due) = schedule.due(since, now) else { return };
    if due.many {
        let message = "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew";
        plan.told.push((News::Warning, "TooManyMissedTimes", message.into()));
    }
    let active = plan.status.active.as_deref().unwrap_or_default();
    let name = name(cron, due.at);
    if active.iter().any(|reference| reference.name.as_ref() == Some(&name)) {
        return;
    }
    match spec.concurrency_policy.as_deref() {
        Some("Forbid") if !active.is_empty() => {
            let message = "Not starting job because prior execution is running and concurrency policy is Forbid";
            plan.told.push((News::Normal, "JobAlreadyActive", message.into()));
            return;
        }
        Some("Replace") => {
            let runs = |job: &&Job| active.iter().any(|reference| reference.uid == job.metadata.uid);
            plan.replace = jobs.iter().filter(runs).collect();
            plan.status.active = None;
        }
        _ => {}
    }
    let told = due.at.to_zoned(schedule.zone().clone()).strftime("%Y-%m-%dT%H:%M:%S%:z").to_string();
    let told = told.strip_suffix("+00:00").map(|utc| format!("{utc}Z")).unwrap_or(told);
    plan.start = Some(Start { name, at: due.at, told });
}

/// The name of the job for a time: always the same, so that two cannot be made.
fn name(cron: &CronJob, at: Timestamp) -> String {
    format!("{}-{}", cron.name_any(), at.as_second() / 60)
}

/// The jobs that are over and more than are to be kept, the oldest of them.
fn too_old<'j>(spec: &CronJobSpec, jobs: &'j [Job]) -> Vec<&'j Job> {
    let (mut well, mut ill): (Vec<_>, Vec<_>) =
        jobs.iter().filter(|job| is_over(job) && !owners::is_going(&job.metadata)).partition(|job| is_complete(job));
    let started = |job: &&Job| {
        let start = job.status.as_ref().and_then(|status| status.start_time.clone());
        (start.or_else(|| job.metadata.creation_timestamp.clone()), job.name_any())
    };
    let mut old = Vec::new();
    for (jobs, limit) in [(&mut well, spec.successful_jobs_history_limit), (&mut ill, spec.failed_jobs_history_limit)] {
        let Some(limit) = limit.and_then(|limit| usize::try_from(limit).ok()) else { continue };
        jobs.sort_by_key(started);
        old.extend(jobs.drain(..jobs.len().saturating_sub(limit)));
    }
    old
}

pub(super) fn is_over(job: &Job) -> bool {
    job.status.as_ref().is_some_and(|status| finished_at(status).is_some())
}

fn is_complete(job: &Job) -> bool {
    let conditions = job.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|condition| condition.type_ == "Complete" && condition.status == "True")
}
