//! What is decided about cron jobs, in tables.

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{CronJob, Job};
use kube::ResourceExt;
use serde_json::{Value, json};

use super::decide::{Plan, SCHEDULED, decide};
use crate::testing::{of, with};

fn cron(spec: Value, status: Value) -> CronJob {
    let usual = json!({"schedule": "*/10 * * * *", "timeZone": "Etc/UTC", "concurrencyPolicy": "Allow",
                       "successfulJobsHistoryLimit": 2, "failedJobsHistoryLimit": 1, "jobTemplate": {}});
    let mut cron = json!({"metadata": {"name": "sweep", "uid": "c-1", "creationTimestamp": "2024-05-01T10:05:00Z"}});
    cron["spec"] = with(usual, spec);
    cron["status"] = status;
    of(cron)
}

/// A job: a name and a minute that it was made for, and how it ended if it has.
fn job(name: &str, minute: u32, end: Option<&str>) -> Job {
    let time = format!("2024-05-01T10:{minute:02}:00Z");
    let conditions: Vec<Value> =
        end.iter().map(|end| json!({"type": end, "status": "True", "lastTransitionTime": time})).collect();
    serde_json::from_value(json!({
        "metadata": {"name": name, "uid": name, "annotations": {SCHEDULED: time}},
        "status": {"conditions": conditions, "startTime": time, "completionTime": end.map(|_| &time)},
    }))
    .unwrap()
}

fn told(plan: &Plan<'_>) -> String {
    let names = |jobs: &[&Job]| jobs.iter().map(|job| job.name_any()).collect::<Vec<_>>().join(" ");
    let active = plan.status.active.iter().flatten().filter_map(|active| active.name.clone()).collect::<Vec<_>>();
    let mut parts = vec![
        ("tell", plan.told.iter().map(|told| told.1).collect::<Vec<_>>().join(" ")),
        ("replace", names(&plan.replace)),
        ("start", plan.start.as_ref().map(|start| start.told.clone()).unwrap_or_default()),
        ("active", active.join(" ")),
        ("forget", names(&plan.forget)),
        ("again", plan.again.map(|again| again.as_secs().to_string()).unwrap_or_default()),
    ];
    parts.retain(|(_, text)| !text.is_empty());
    parts.iter().map(|(what, text)| format!("{what} {text}")).collect::<Vec<_>>().join(", ")
}

#[test]
fn what_is_due_starts_once_if_nothing_speaks_against_it() {
    let last = |minute: u32| json!({"lastScheduleTime": format!("2024-05-01T10:{minute:02}:00Z")});
    let running = |minute: u32| {
        let mut status = last(minute);
        status["active"] = json!([{"name": "a", "uid": "a"}]);
        status
    };
    let policy = |policy: &str| json!({"concurrencyPolicy": policy});
    let table: Vec<(Value, Value, Vec<Job>, &str, &str)> = vec![
        (json!({}), json!({}), vec![], "10:09:00", "again 60"),
        (json!({}), json!({}), vec![], "10:10:00", "start 2024-05-01T10:10:00Z, again 600"),
        (json!({}), last(10), vec![], "10:13:00", "again 420"),
        (json!({"suspend": true}), last(10), vec![], "10:23:00", ""),
        // The last of what was missed, unless it is too late.
        (json!({}), last(10), vec![], "10:43:00", "start 2024-05-01T10:40:00Z, again 420"),
        (json!({"startingDeadlineSeconds": 120}), last(10), vec![], "10:43:00", "again 420"),
        (
            json!({"startingDeadlineSeconds": 240}),
            last(10),
            vec![],
            "10:43:00",
            "start 2024-05-01T10:40:00Z, again 420",
        ),
        (
            json!({}),
            running(10),
            vec![job("a", 10, None)],
            "10:20:00",
            "start 2024-05-01T10:20:00Z, active a, again 600",
        ),
        (
            policy("Forbid"),
            running(10),
            vec![job("a", 10, None)],
            "10:20:00",
            "tell JobAlreadyActive, active a, again 600",
        ),
        (
            policy("Replace"),
            running(10),
            vec![job("a", 10, None)],
            "10:20:00",
            "replace a, start 2024-05-01T10:20:00Z, again 600",
        ),
        (
            policy("Forbid"),
            running(10),
            vec![job("a", 10, Some("Failed"))],
            "10:20:00",
            "tell SawCompletedJob, start 2024-05-01T10:20:00Z, again 600",
        ),
        (policy("Forbid"), running(10), vec![], "10:20:00", "tell MissingJob, start 2024-05-01T10:20:00Z, again 600"),
        // Made, but not written down: not made again.
        (json!({}), last(10), vec![job("b", 20, None)], "10:20:00", "active b, again 600"),
        (json!({"timeZone": "Nowhere"}), last(10), vec![], "10:20:00", "tell UnknownTimeZone"),
        (
            json!({"timeZone": "Asia/Kolkata"}),
            last(10),
            vec![],
            "10:20:00",
            "start 2024-05-01T15:50:00+05:30, again 600",
        ),
    ];
    for (spec, status, jobs, now, expected) in table {
        let now: Timestamp = format!("2024-05-01T{now}Z").parse().unwrap();
        let cron = cron(spec.clone(), status.clone());
        assert_eq!(told(&decide(&cron, &jobs, now)), expected, "{spec} {status} {now}");
    }
}

#[test]
fn a_few_jobs_that_are_over_are_kept() {
    let jobs = [
        job("d", 4, Some("Complete")),
        job("a", 1, Some("Complete")),
        job("b", 2, Some("Failed")),
        job("c", 3, Some("Complete")),
        job("e", 5, Some("Failed")),
    ];
    let plan = decide(&cron(json!({"suspend": true}), json!({})), &jobs, "2024-05-01T10:06:00Z".parse().unwrap());
    assert_eq!(told(&plan), "forget a b");
    assert_eq!(plan.status.last_successful_time.unwrap().0.to_string(), "2024-05-01T10:04:00Z");
}

#[test]
fn the_name_of_a_job_is_that_of_its_time() {
    let plan = decide(&cron(json!({}), json!({})), &[], "2024-05-01T10:10:05Z".parse().unwrap()).start.unwrap();
    assert_eq!(plan.name, "sweep-28575970");
}
