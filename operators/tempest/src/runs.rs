//! The runs that there are: which one goes on, which one ended last, and which one is asked for.

use c5c3_api::openstack::{RUN_NOW, Tempest, TempestOutcome, TempestStatus};
use c5c3_kit::object::condition;
use c5c3_kit::{Inputs, Plan};
use c5c3_service::Instance;
use jiff::Timestamp;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::DynamicObject;
use serde_json::{Value, json};

use crate::results::Results;
use crate::workload::requested_name;

/// The label that the pods of a Job have.
const JOB_NAME: &str = "batch.kubernetes.io/job-name";

/// How long after its end a run is told of by an event. An operator that was restarted tells of what it finds once more.
const NEWS_SECONDS: i64 = 3600;

/// A run that has ended.
struct Ended<'a> {
    job: &'a DynamicObject,
    began: Timestamp,
    finished: Timestamp,
}

/// The runs of an object.
pub(crate) struct Runs<'a> {
    /// The Jobs that have not ended.
    active: Vec<&'a DynamicObject>,
    last: Option<Ended<'a>>,
    /// The run that is asked for, and the name of its Job.
    request: Option<(&'a str, String)>,
    /// Whether that Job exists.
    exists: bool,
    /// Whether that run has ended.
    is_handled: bool,
}

impl<'a> Runs<'a> {
    pub(crate) fn of(inputs: &'a Inputs<Tempest>, instance: &Instance) -> Self {
        let jobs: Vec<&DynamicObject> = inputs.own::<Job>().collect();
        let active = jobs.iter().copied().filter(|job| end(job).is_none() && !is_going(job)).collect();
        let last = jobs.iter().filter_map(|job| {
            let (began, finished) = (start(job)?, end(job)?);
            Some(Ended { job, began, finished })
        });
        let last = last.max_by_key(|run| run.finished);
        let annotations = inputs.object.metadata.annotations.as_ref();
        let request = annotations.and_then(|all| all.get(RUN_NOW)).map(String::as_str).filter(|text| !text.is_empty());
        let request = request.map(|request| (request, requested_name(instance, request)));
        let own = request.as_ref().and_then(|(_, name)| jobs.iter().find(|job| named(job) == name));
        let before = inputs.object.status.as_ref().and_then(|status| status.handled_request.as_deref());
        let was_handled = request.as_ref().is_some_and(|(request, _)| before == Some(*request));
        let is_handled = was_handled || own.is_some_and(|job| end(job).is_some());
        Self { active, last, exists: own.is_some(), request, is_handled }
    }

    /// Whether a run that is asked for is going on, or about to.
    pub(crate) fn is_exclusive(&self) -> bool {
        self.requested().is_some() && !self.is_handled
    }

    /// The request whose Job has its place in the plan: one that has not been run, and no other run is going on; or one that
    /// has, as long as its Job is there for its logs.
    pub(crate) fn requested(&self) -> Option<&'a str> {
        let (request, name) = self.request.as_ref()?;
        let is_free = self.active.iter().all(|job| named(job) == name);
        (self.exists || !self.is_handled && is_free).then_some(*request)
    }

    /// Adds what is told of runs to a plan.
    pub(crate) fn report(&self, plan: Plan, inputs: &Inputs<Tempest>) -> Plan {
        let mut status = inputs.object.status.clone().unwrap_or_default();
        let mut plan = plan;
        let is_new = |run: &&Ended<'_>| {
            let is_known = status.last_job.as_deref() == Some(named(run.job));
            !is_known && status.last_run.as_ref().is_none_or(|before| before.0 <= run.began)
        };
        if let Some(run) = self.last.as_ref().filter(is_new) {
            record(&mut status, run, inputs);
        }
        status.active_job = self.active.first().map(|job| named(job).to_owned());
        if let Some((request, _)) = self.request.as_ref().filter(|_| self.is_handled) {
            status.handled_request = Some((*request).to_owned());
        }
        if let Some(run) = &self.last
            && inputs.now.duration_since(run.finished).as_secs() < NEWS_SECONDS
            && status.last_job.as_deref() == Some(named(run.job))
        {
            plan = told(plan, &status);
        }
        if let Some(job) = &status.active_job {
            plan = plan.event("RunStarted", format!("job/{job} runs the tests"));
        }
        let Value::Object(fields) = json!(status) else { return plan };
        // What every kind has is written by the kit.
        let own = fields.into_iter().filter(|(field, _)| !KITS.contains(&field.as_str()));
        own.fold(plan, |plan, (field, value)| plan.status(&field, value))
    }
}

/// The fields of the status that the kit writes.
const KITS: &[&str] = &["conditions", "observedGeneration", "waitingFor"];

fn record(status: &mut TempestStatus, run: &Ended<'_>, inputs: &Inputs<Tempest>) {
    let is_its = |pod: &&DynamicObject| {
        pod.metadata.labels.as_ref().and_then(|labels| labels.get(JOB_NAME)).is_some_and(|job| job == named(run.job))
    };
    let pods: Vec<&DynamicObject> = inputs.own::<Pod>().filter(is_its).collect();
    let Results { outcome, counts, failures, message } = Results::of(run.job, &pods);
    status.last_run = Some(Time(run.began));
    status.last_duration = c5c3_api::blocks::Duration::new(duration(run)).ok();
    status.last_job = Some(named(run.job).to_owned());
    status.last_outcome = Some(outcome);
    status.results = counts;
    status.failures = failures;
    status.message = message;
}

/// How long a run took, as Go writes it.
fn duration(run: &Ended<'_>) -> String {
    let seconds = run.finished.duration_since(run.began).as_secs().max(0);
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match (hours, minutes) {
        (0, 0) => format!("{seconds}s"),
        (0, _) => format!("{minutes}m{seconds}s"),
        _ => format!("{hours}h{minutes}m{seconds}s"),
    }
}

/// The event of the last run.
fn told(plan: Plan, status: &TempestStatus) -> Plan {
    let job = status.last_job.as_deref().unwrap_or_default();
    let counts = status.results.unwrap_or_default();
    let message = status.message.as_deref().unwrap_or_default();
    match status.last_outcome {
        None => plan,
        Some(TempestOutcome::Passed) => {
            plan.event("TestsPassed", format!("job/{job}: {} passed, {} skipped", counts.passed, counts.skipped))
        }
        Some(TempestOutcome::Failed) => {
            let names = status.failures.iter().map(|name| Value::from(name.as_str())).collect();
            let names = crate::results::named(Some(&names), i64::from(counts.failed));
            plan.failed_event(
                "TestsFailed",
                format!("job/{job}: {} of {} failed: {names}", counts.failed, counts.total),
            )
        }
        Some(TempestOutcome::TimedOut) => plan.failed_event("TestsTimedOut", format!("job/{job}: {message}")),
        Some(TempestOutcome::Error) => plan.failed_event("RunFailed", format!("job/{job}: {message}")),
    }
}

fn named(job: &DynamicObject) -> &str {
    job.metadata.name.as_deref().unwrap_or_default()
}

fn is_going(job: &DynamicObject) -> bool {
    job.metadata.deletion_timestamp.is_some()
}

fn start(job: &DynamicObject) -> Option<Timestamp> {
    job.data["status"]["startTime"].as_str()?.parse().ok()
}

/// When a Job ended; none if it has not.
fn end(job: &DynamicObject) -> Option<Timestamp> {
    let ends = ["Complete", "Failed"].into_iter().filter_map(|end| condition(job, end));
    let ended = ends.filter(|end| end["status"] == "True").find_map(|end| end["lastTransitionTime"].as_str());
    ended.and_then(|ended| ended.parse().ok())
}
