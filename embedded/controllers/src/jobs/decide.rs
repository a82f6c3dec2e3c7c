//! What to do about a job, from what was seen of it and its pods.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::time::Duration;

use c5c3_events::News;
use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{Job, JobSpec, JobStatus};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::backoff::{self, Failures};
use super::indexes::Indexes;
use super::pods::{self, uid};
use super::policy::{self, Meaning};
use super::tally::{Tally, all_index_failures, is_indexed};
use super::verdict::{self, Verdict};
use crate::owners::is_going;
use crate::pods::{is_ready, phase};

/// How many pods are made or deleted at a time.
const AT_A_TIME: usize = 500;

/// What was seen of a job.
#[derive(Clone, Copy)]
pub(super) struct Seen<'p> {
    pub(super) job: &'p Job,
    /// Its pods, those that have ended included.
    pub(super) pods: &'p [Pod],
    pub(super) failures: Failures,
    pub(super) now: Timestamp,
}

/// A pod to be made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Wanted {
    /// The index that it works on, and how often that has failed, counted and not.
    pub(super) index: Option<(i32, Option<(i32, i32)>)>,
}

/// What to do, in the order of the fields.
#[derive(Debug, Default)]
pub(super) struct Plan<'p> {
    /// Pods that are one too many: released and deleted, which is no failure of theirs.
    pub(super) retire: Vec<&'p Pod>,
    /// Pods of a job that is over: deleted.
    pub(super) stop: Vec<&'p Pod>,
    pub(super) create: Vec<Wanted>,
    /// The status, without the pods that are made.
    pub(super) status: JobStatus,
    /// Pods that are counted once the status is written.
    pub(super) released: Vec<&'p Pod>,
    pub(super) told: Vec<(News, &'static str, String)>,
    /// When to look again though nothing changed.
    pub(super) again: Option<Duration>,
    pub(super) failures: Failures,
}

/// What to do about a job that is not over yet.
pub(super) fn decide<'p>(seen: &Seen<'p>) -> Plan<'p> {
    let Seen { job, pods, now, .. } = *seen;
    let Some(spec) = &job.spec else { return Plan::default() };
    let mut tally = Tally::of(job, spec, pods, now);
    let mut plan = Plan {
        status: job.status.clone().unwrap_or_default(),
        failures: seen.failures.after(&tally.ended),
        ..Plan::default()
    };
    if plan.status.start_time.is_none() && spec.suspend != Some(true) {
        plan.status.start_time = Some(Time(now));
    }
    let going = is_going(&job.metadata);
    let mut over = verdict::verdict(job, spec, &tally, now);
    if over.is_none() && !going {
        manage(spec, &tally, now, &mut plan, pods::waits_for_the_end(job));
    }
    if over.is_none() && is_complete(spec, &tally, &plan) {
        over = Some(Verdict::complete());
    } else if over.is_none() && !going {
        suspend_or_resume(spec, now, &mut plan);
    }
    match &over {
        Some(over) if over.succeeded => {
            tally.let_all_go(pods);
            plan.retire.clone_from(&tally.active);
        }
        Some(_) => {
            tally.fail_the_rest(pods);
            plan.stop.clone_from(&tally.active);
        }
        None if going => tally.let_all_go(pods),
        None => {}
    }
    let settled = tally.is_settled();
    let leaving: HashSet<&str> = plan.retire.iter().chain(&plan.stop).map(|pod| uid(pod)).collect();
    tally.active.retain(|pod| !leaving.contains(uid(pod)));
    tally.report(spec, &mut plan.status);
    match over {
        Some(over) => announce(&over, settled, now, &mut plan),
        None => plan.sooner(verdict::until_deadline(spec, &plan.status, now).and_then(|left| left.try_into().ok())),
    }
    plan.released = tally.counted;
    plan
}

impl Plan<'_> {
    /// Looks again after this, or before.
    fn sooner(&mut self, after: Option<Duration>) {
        self.again = self.again.into_iter().chain(after).min();
    }
}

/// Whether everything has succeeded that has to. A work queue has when one pod has, and all have ended.
fn is_complete(spec: &JobSpec, tally: &Tally<'_>, plan: &Plan<'_>) -> bool {
    let succeeded = tally.succeeded(spec);
    let enough = spec.completions.map_or(succeeded > 0, |wanted| succeeded >= wanted);
    enough && tally.active.len() == plan.retire.len() && plan.create.is_empty()
}

/// Says that the job is over, and that it is done once its last pod has ended and been counted.
fn announce(over: &Verdict, settled: bool, now: Timestamp, plan: &mut Plan<'_>) {
    let (announced, done) = over.conditions();
    verdict::set(&mut plan.status, announced, true, &over.reason, &over.message, now);
    if !settled || !verdict::set(&mut plan.status, done, true, &over.reason, &over.message, now) {
        return;
    }
    if over.succeeded {
        plan.status.completion_time = Some(Time(now));
        plan.told.push((News::Normal, "Completed", "Job completed".into()));
    } else {
        plan.told.push((News::Warning, told_reason(&over.reason), over.message.clone()));
    }
}

/// The reason of an event is one of a few, wherever the condition that it is about came from.
fn told_reason(reason: &str) -> &'static str {
    let known =
        ["BackoffLimitExceeded", "DeadlineExceeded", "PodFailurePolicy", "MaxFailedIndexesExceeded", "FailedIndexes"];
    known.into_iter().find(|known| *known == reason).unwrap_or("Failed")
}

fn suspend_or_resume(spec: &JobSpec, now: Timestamp, plan: &mut Plan<'_>) {
    if spec.suspend == Some(true) {
        if verdict::set(&mut plan.status, "Suspended", true, "JobSuspended", "Job suspended", now) {
            plan.told.push((News::Normal, "Suspended", "Job suspended".into()));
        }
    } else if verdict::set(&mut plan.status, "Suspended", false, "JobResumed", "Job resumed", now) {
        plan.told.push((News::Normal, "Resumed", "Job resumed".into()));
        plan.status.start_time = Some(Time(now));
    }
}

/// Too many pods: some go. Too few: some are made, when the wait after failures is over.
fn manage<'p>(spec: &JobSpec, tally: &Tally<'p>, now: Timestamp, plan: &mut Plan<'p>, wait_for_the_end: bool) {
    let active = tally.active.len();
    let wanted = wanted_pods(spec, tally);
    plan.retire = surplus(spec, tally, active.saturating_sub(wanted));
    plan.retire.truncate(AT_A_TIME);
    if !plan.retire.is_empty() || spec.suspend == Some(true) {
        return;
    }
    let terminating = if wait_for_the_end { tally.terminating.len() } else { 0 };
    let missing = wanted.saturating_sub(active + terminating).min(AT_A_TIME);
    if missing == 0 {
        return;
    }
    if spec.backoff_limit_per_index.is_none() {
        let left = plan.failures.remaining(now);
        if !left.is_zero() {
            plan.sooner(Some(left));
            return;
        }
    }
    if !is_indexed(spec) {
        plan.create = vec![Wanted::default(); missing];
        return;
    }
    let terminating = if wait_for_the_end { tally.terminating.as_slice() } else { &[] };
    for index in pending_indexes(spec, tally, terminating).take(missing) {
        match next_of_index(spec, tally, index, now) {
            Ok(wanted) => plan.create.push(wanted),
            Err(left) => plan.sooner(Some(left)),
        }
    }
}

/// How many pods should be active.
fn wanted_pods(spec: &JobSpec, tally: &Tally<'_>) -> usize {
    if spec.suspend == Some(true) {
        return 0;
    }
    let (parallelism, succeeded) = (spec.parallelism.unwrap_or(1), tally.succeeded(spec));
    let wanted = match spec.completions {
        // A work queue: once a pod has succeeded, the others find out by themselves.
        None if succeeded > 0 => return tally.active.len(),
        None => parallelism,
        Some(completions) => parallelism.min(completions - succeeded - tally.failed_indexes.len()),
    };
    usize::try_from(wanted).unwrap_or(0)
}

/// The pods to delete: those that work on nothing or on what another works on, and so many of the others, those first
/// that have done the least.
fn surplus<'p>(spec: &JobSpec, tally: &Tally<'p>, at_least: usize) -> Vec<&'p Pod> {
    let mut pods = tally.active.clone();
    pods.sort_by_key(|pod| worth(pod));
    let mut useless = Vec::new();
    if is_indexed(spec) {
        let mut taken = HashSet::new();
        // From the back: of two that do the same, the one that has done more stays.
        pods.reverse();
        (useless, pods) = pods.into_iter().partition(|pod| match pods::index(pod) {
            Some(index) if index < spec.completions.unwrap_or(0) => {
                tally.failed_indexes.has(index) || tally.succeeded_indexes.has(index) || !taken.insert(index)
            }
            _ => true,
        });
        pods.reverse();
    }
    let more = at_least.saturating_sub(useless.len());
    useless.extend(pods.into_iter().take(more));
    useless
}

/// What would be lost with a pod: whether it has a node, runs, is ready, and for how long it has been there.
fn worth(pod: &Pod) -> (bool, bool, bool, Reverse<Option<Timestamp>>) {
    let placed = pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some());
    let made = pod.metadata.creation_timestamp.as_ref().map(|time| time.0);
    (placed, phase(pod) == "Running", is_ready(pod), Reverse(made))
}

/// The indexes that no one has done or works on, in order.
fn pending_indexes<'t>(
    spec: &JobSpec,
    tally: &'t Tally<'_>,
    terminating: &[&Pod],
) -> impl Iterator<Item = i32> + use<'t> {
    let busy: Indexes = tally.active.iter().chain(terminating).filter_map(|pod| pods::index(pod)).collect();
    (0..spec.completions.unwrap_or(0)).filter(move |index| {
        !tally.succeeded_indexes.has(*index) && !tally.failed_indexes.has(*index) && !busy.has(*index)
    })
}

/// The next pod of an index, or how long it has to wait.
fn next_of_index(spec: &JobSpec, tally: &Tally<'_>, index: i32, now: Timestamp) -> Result<Wanted, Duration> {
    if spec.backoff_limit_per_index.is_none() {
        return Ok(Wanted { index: Some((index, None)) });
    }
    let Some(last) = tally.last_failures.get(&index) else {
        return Ok(Wanted { index: Some((index, Some((0, 0)))) });
    };
    let failures = u32::try_from(all_index_failures(last)).unwrap_or(0);
    let left = backoff::left(failures, pods::ended_at(last, now), now);
    if !left.is_zero() {
        return Err(left);
    }
    let (counted, ignored) = (pods::index_failures(last), pods::ignored_index_failures(last));
    let failures = match policy::meaning(spec, last) {
        Meaning::Ignored => (counted, ignored + 1),
        _ => (counted + 1, ignored),
    };
    Ok(Wanted { index: Some((index, Some(failures))) })
}
