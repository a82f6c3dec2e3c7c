//! How a job's pods are counted: each that ends exactly once, whatever is interrupted in between.
//!
//! A pod carries a finalizer until it is counted. One that has ended is first written down in the job's status, by its
//! uid; then its finalizer goes; and once that is gone, the uid gives way to the count. So a pod that has both is never
//! counted again, and one that has neither has been.

use std::collections::{BTreeMap, HashSet};

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{Job, JobSpec, JobStatus, UncountedTerminatedPods};
use k8s_openapi::api::core::v1::Pod;

use super::indexes::Indexes;
use super::pods::{self, has_failed, has_succeeded, is_terminating, is_tracked, uid};
use super::policy::{self, Meaning};
use crate::pods::{is_active, is_ready};

/// How many pods are written down at a time, so that a status stays of bounded size.
const WRITTEN_DOWN: usize = 500;

/// A job's pods, counted.
#[derive(Debug)]
pub(super) struct Tally<'p> {
    pub(super) active: Vec<&'p Pod>,
    pub(super) terminating: Vec<&'p Pod>,
    /// Pods that have failed and say that the job has, and why.
    pub(super) fatal: Option<String>,
    /// When pods ended that had not been seen to have, and whether they failed.
    pub(super) ended: Vec<(Timestamp, bool)>,
    /// Pods that need not be kept once the status is written.
    pub(super) counted: Vec<&'p Pod>,
    pub(super) succeeded_indexes: Indexes,
    pub(super) failed_indexes: Indexes,
    /// The last failure of each index that no one works on, which says how long its next pod has to wait.
    pub(super) last_failures: BTreeMap<i32, &'p Pod>,
    succeeded: i32,
    failed: i32,
    uncounted: UncountedTerminatedPods,
}

pub(super) fn is_indexed(spec: &JobSpec) -> bool {
    spec.completion_mode.as_deref() == Some("Indexed")
}

impl<'p> Tally<'p> {
    /// Counts the pods of a job.
    pub(super) fn of(job: &Job, spec: &JobSpec, pods: &'p [Pod], now: Timestamp) -> Self {
        let status = job.status.clone().unwrap_or_default();
        let limit = spec.completions.unwrap_or(0);
        let read = |text: Option<&String>| Indexes::parse(text.map_or("", String::as_str), limit);
        let mut tally = Self {
            active: pods.iter().filter(|pod| is_active(pod)).collect(),
            terminating: pods.iter().filter(|pod| is_terminating(pod)).collect(),
            fatal: None,
            ended: Vec::new(),
            counted: Vec::new(),
            succeeded_indexes: read(status.completed_indexes.as_ref()),
            failed_indexes: read(status.failed_indexes.as_ref()),
            last_failures: BTreeMap::new(),
            succeeded: status.succeeded.unwrap_or(0),
            failed: status.failed.unwrap_or(0),
            uncounted: status.uncounted_terminated_pods.unwrap_or_default(),
        };
        tally.settle(pods);
        for pod in pods.iter().filter(|pod| is_tracked(pod)) {
            if has_succeeded(pod) {
                tally.note_success(spec, pod, now);
            } else if has_failed(pod, job) {
                tally.note_failure(spec, pod, now);
            }
        }
        if spec.backoff_limit_per_index.is_some() {
            tally.keep_last_failures();
        }
        tally
    }

    /// Counts what was written down and released since.
    fn settle(&mut self, pods: &[Pod]) {
        let held: HashSet<&str> = pods.iter().filter(|pod| is_tracked(pod)).map(uid).collect();
        let move_on = |written: &mut Option<Vec<String>>, count: &mut i32| {
            let before = written.take().unwrap_or_default();
            let (kept, gone): (Vec<_>, Vec<_>) = before.into_iter().partition(|uid| held.contains(uid.as_str()));
            *count += i32::try_from(gone.len()).unwrap_or(i32::MAX);
            *written = Some(kept).filter(|kept| !kept.is_empty());
        };
        move_on(&mut self.uncounted.succeeded, &mut self.succeeded);
        move_on(&mut self.uncounted.failed, &mut self.failed);
    }

    fn note_success(&mut self, spec: &JobSpec, pod: &'p Pod, now: Timestamp) {
        let new = if is_indexed(spec) {
            // The index says enough to not count it twice.
            let index = pods::index(pod).filter(|index| *index < spec.completions.unwrap_or(0));
            index.is_some_and(|index| self.succeeded_indexes.insert(index))
        } else {
            self.write_down(pod, true)
        };
        if new {
            self.ended.push((pods::ended_at(pod, now), false));
        }
        if is_indexed(spec) || self.is_written_down(pod) {
            self.counted.push(pod);
        }
    }

    fn note_failure(&mut self, spec: &JobSpec, pod: &'p Pod, now: Timestamp) {
        let index = pods::index(pod).filter(|index| *index < spec.completions.unwrap_or(0));
        if is_indexed(spec) && index.is_none() {
            self.counted.push(pod);
            return;
        }
        let meaning = policy::meaning(spec, pod);
        if let Meaning::FailsJob(why) = &meaning {
            self.fatal.get_or_insert_with(|| why.clone());
        }
        let counts = meaning != Meaning::Ignored;
        let new = if counts { self.write_down(pod, false) } else { true };
        if new {
            self.ended.push((pods::ended_at(pod, now), true));
        }
        if let (Some(limit), Some(index)) = (spec.backoff_limit_per_index, index) {
            if meaning == Meaning::FailsIndex || (counts && pods::index_failures(pod) >= limit) {
                self.failed_indexes.insert(index);
            }
            self.remember(index, pod);
        }
        if !counts || self.is_written_down(pod) {
            self.counted.push(pod);
        }
    }

    /// Keeps the later of two failures of an index.
    fn remember(&mut self, index: i32, pod: &'p Pod) {
        let last = self.last_failures.entry(index).or_insert(pod);
        if all_index_failures(last) <= all_index_failures(pod) {
            *last = pod;
        }
    }

    /// Forgets failures of indexes that are over, or that a newer pod works on; the pods of the others stay.
    fn keep_last_failures(&mut self) {
        let busy: Indexes = self.active.iter().filter_map(|pod| pods::index(pod)).collect();
        let (succeeded, failed) = (&self.succeeded_indexes, &self.failed_indexes);
        self.last_failures.retain(|index, _| !succeeded.has(*index) && !failed.has(*index) && !busy.has(*index));
        let kept: HashSet<&str> = self.last_failures.values().map(|pod| uid(pod)).collect();
        self.counted.retain(|pod| !kept.contains(uid(pod)));
    }

    /// Counts every pod that has not ended as failed: their job has.
    pub(super) fn fail_the_rest(&mut self, pods: &'p [Pod]) {
        for pod in pods.iter().filter(|pod| is_tracked(pod) && !has_succeeded(pod)) {
            self.write_down(pod, false);
        }
        self.let_all_go(pods);
    }

    /// Keeps no pod any longer, but those that there was no room to write down.
    pub(super) fn let_all_go(&mut self, pods: &'p [Pod]) {
        let full = self.written() >= WRITTEN_DOWN;
        let goes = |pod: &&Pod| is_tracked(pod) && (!full || self.is_written_down(pod));
        self.counted = pods.iter().filter(goes).collect();
    }

    /// Writes a pod down unless it is, or there is no room.
    fn write_down(&mut self, pod: &Pod, succeeded: bool) -> bool {
        if self.is_written_down(pod) || self.written() >= WRITTEN_DOWN {
            return false;
        }
        let list = if succeeded { &mut self.uncounted.succeeded } else { &mut self.uncounted.failed };
        list.get_or_insert_default().push(uid(pod).to_owned());
        true
    }

    fn is_written_down(&self, pod: &Pod) -> bool {
        let lists = [&self.uncounted.succeeded, &self.uncounted.failed];
        lists.into_iter().flatten().flatten().any(|written| written == uid(pod))
    }

    fn written(&self) -> usize {
        [&self.uncounted.succeeded, &self.uncounted.failed].into_iter().flatten().map(Vec::len).sum()
    }

    /// How many pods, or indexes, have succeeded.
    pub(super) fn succeeded(&self, spec: &JobSpec) -> i32 {
        if is_indexed(spec) {
            return self.succeeded_indexes.len();
        }
        self.succeeded + length(self.uncounted.succeeded.as_ref())
    }

    /// How many pods have failed.
    pub(super) fn failed(&self) -> i32 {
        self.failed + length(self.uncounted.failed.as_ref())
    }

    /// Whether nothing is left to be counted, or to end.
    pub(super) fn is_settled(&self) -> bool {
        self.written() == 0 && self.counted.is_empty() && self.active.is_empty() && self.terminating.is_empty()
    }

    /// Writes the counts into a status.
    pub(super) fn report(&self, spec: &JobSpec, status: &mut JobStatus) {
        let number = |count: i32| Some(count).filter(|count| *count > 0);
        status.failed = number(self.failed);
        status.terminating = Some(length(Some(&self.terminating)));
        status.ready = Some(length(Some(&self.active.iter().filter(|pod| is_ready(pod)).collect())));
        status.active = number(length(Some(&self.active)));
        status.uncounted_terminated_pods = Some(self.uncounted.clone());
        if is_indexed(spec) {
            status.succeeded = number(self.succeeded_indexes.len());
            status.completed_indexes = Some(self.succeeded_indexes.to_string()).filter(|text| !text.is_empty());
            status.failed_indexes = spec.backoff_limit_per_index.map(|_| self.failed_indexes.to_string());
        } else {
            status.succeeded = number(self.succeeded);
        }
    }
}

/// How often an index has failed with and before this pod, counted or not.
pub(super) fn all_index_failures(pod: &Pod) -> i32 {
    pods::index_failures(pod) + pods::ignored_index_failures(pod) + 1
}

fn length<T>(list: Option<&Vec<T>>) -> i32 {
    list.map_or(0, |list| i32::try_from(list.len()).unwrap_or(i32::MAX))
}
