//! The rows of the kinds that make pods, and of disruption budgets.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::duration::human_duration;
use super::format::{NONE, age, ago, containers, is_true, labels, name, plain, selector, text_or, yes_no};
use crate::read::{bool_at, int_at, is_empty_at, list_at, str_at};

pub(super) fn pod_template(template: &Value, _: Timestamp) -> Vec<Value> {
    let [names, images] = containers(&template["template"]["spec"]);
    vec![name(template), names, images, json!(labels(&template["template"]["metadata"], "labels"))]
}

pub(super) fn replica_set(set: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (&set["spec"], &set["status"]);
    let [names, images] = containers(&spec["template"]["spec"]);
    let selector =
        if spec["selector"].get("matchLabels").is_some() || spec["selector"].get("matchExpressions").is_some() {
            selector(&spec["selector"])
        } else {
            labels(spec, "selector")
        };
    vec![
        name(set),
        json!(int_at(spec, "replicas")),
        json!(int_at(status, "replicas")),
        json!(int_at(status, "readyReplicas")),
        age(set, now),
        names,
        images,
        json!(selector),
    ]
}

pub(super) fn deployment(deployment: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (&deployment["spec"], &deployment["status"]);
    let [names, images] = containers(&spec["template"]["spec"]);
    vec![
        name(deployment),
        json!(format!("{}/{}", int_at(status, "readyReplicas"), int_at(spec, "replicas"))),
        json!(int_at(status, "updatedReplicas")),
        json!(int_at(status, "availableReplicas")),
        age(deployment, now),
        names,
        images,
        json!(selector(&spec["selector"])),
    ]
}

pub(super) fn stateful_set(set: &Value, now: Timestamp) -> Vec<Value> {
    let [names, images] = containers(&set["spec"]["template"]["spec"]);
    let ready = format!("{}/{}", int_at(&set["status"], "readyReplicas"), int_at(&set["spec"], "replicas"));
    vec![name(set), json!(ready), age(set, now), names, images]
}

pub(super) fn daemon_set(set: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (&set["spec"], &set["status"]);
    let [names, images] = containers(&spec["template"]["spec"]);
    let counts = [
        "desiredNumberScheduled",
        "currentNumberScheduled",
        "numberReady",
        "updatedNumberScheduled",
        "numberAvailable",
    ];
    let mut cells = vec![name(set)];
    cells.extend(counts.map(|count| json!(int_at(status, count))));
    cells.push(json!(labels(&spec["template"]["spec"], "nodeSelector")));
    cells.extend([age(set, now), names, images, json!(selector(&spec["selector"]))]);
    cells
}

pub(super) fn revision(revision: &Value, now: Timestamp) -> Vec<Value> {
    let owners = list_at(&revision["metadata"], "ownerReferences");
    let owner = owners.iter().find(|owner| bool_at(owner, "controller"));
    let owner = owner.map_or_else(
        || NONE.to_owned(),
        |owner| {
            let group = str_at(owner, "apiVersion").split_once('/').map_or("", |(group, _)| group);
            let dot = if group.is_empty() { "" } else { "." };
            format!("{}{dot}{group}/{}", str_at(owner, "kind").to_lowercase(), str_at(owner, "name"))
        },
    );
    vec![name(revision), json!(owner), json!(int_at(revision, "revision")), age(revision, now)]
}

pub(super) fn job(job: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (&job["spec"], &job["status"]);
    let [names, images] = containers(&spec["template"]["spec"]);
    let succeeded = int_at(status, "succeeded");
    let completions = match (spec["completions"].as_i64(), int_at(spec, "parallelism")) {
        (Some(wanted), _) => format!("{succeeded}/{wanted}"),
        (None, parallel) if parallel > 1 => format!("{succeeded}/1 of {parallel}"),
        (None, _) => format!("{succeeded}/1"),
    };
    vec![
        name(job),
        json!(job_status(job)),
        json!(completions),
        json!(job_duration(status, now)),
        age(job, now),
        names,
        images,
        json!(selector(&spec["selector"])),
    ]
}

fn job_status(job: &Value) -> &'static str {
    let deleted = !is_empty_at(&job["metadata"], "deletionTimestamp");
    match () {
        () if is_true(job, "Complete") => "Complete",
        () if is_true(job, "Failed") => "Failed",
        () if deleted => "Terminating",
        () if is_true(job, "Suspended") => "Suspended",
        () if is_true(job, "FailureTarget") => "FailureTarget",
        () if is_true(job, "SuccessCriteriaMet") => "SuccessCriteriaMet",
        () => "Running",
    }
}

fn job_duration(status: &Value, now: Timestamp) -> String {
    let time = |key: &str| status[key].as_str().and_then(|text| text.parse::<Timestamp>().ok());
    time("startTime")
        .map_or_else(String::new, |start| human_duration(time("completionTime").unwrap_or(now).duration_since(start)))
}

pub(super) fn cron_job(cron: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (&cron["spec"], &cron["status"]);
    let job = &spec["jobTemplate"]["spec"];
    let [names, images] = containers(&job["template"]["spec"]);
    let last = &status["lastScheduleTime"];
    vec![
        name(cron),
        json!(str_at(spec, "schedule")),
        json!(text_or(spec, "timeZone", NONE)),
        json!(yes_no(&spec["suspend"])),
        json!(list_at(status, "active").len()),
        if last.is_null() { json!(NONE) } else { ago(last, now) },
        age(cron, now),
        names,
        images,
        json!(selector(&job["selector"])),
    ]
}

pub(super) fn disruption_budget(budget: &Value, now: Timestamp) -> Vec<Value> {
    let bound = |key: &str| match &budget["spec"][key] {
        Value::Null => "N/A".to_owned(),
        value => plain(value),
    };
    vec![
        name(budget),
        json!(bound("minAvailable")),
        json!(bound("maxUnavailable")),
        json!(int_at(&budget["status"], "disruptionsAllowed")),
        age(budget, now),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::tests::row;
    use super::*;

    fn metadata() -> Value {
        json!({"name": "oak", "creationTimestamp": "2024-05-01T11:00:00Z"})
    }

    #[test]
    fn a_deployment_shows_how_many_of_how_many_are_ready() {
        let object = json!({
            "metadata": metadata(),
            "spec": {
                "replicas": 3, "selector": {"matchLabels": {"app": "oak"}},
                "template": {"spec": {"containers": [{"name": "a", "image": "i:1"}, {"name": "b", "image": "j:2"}]}},
            },
            "status": {"readyReplicas": 2, "updatedReplicas": 3, "availableReplicas": 2},
        });
        assert_eq!(row("apps", "deployments", &object), "oak | 2/3 | 3 | 2 | 60m | a,b | i:1,j:2 | app=oak");
        assert_eq!(row("apps", "statefulsets", &object), "oak | 2/3 | 60m | a,b | i:1,j:2");
        assert_eq!(row("apps", "replicasets", &object), "oak | 3 | 0 | 2 | 60m | a,b | i:1,j:2 | app=oak");
    }

    #[test]
    fn a_job_shows_what_became_of_it_and_how_long_it_took() {
        let object = json!({
            "metadata": metadata(),
            "spec": {"completions": 1, "parallelism": 1},
            "status": {
                "succeeded": 1, "startTime": "2024-05-01T11:00:00Z", "completionTime": "2024-05-01T11:00:42Z",
                "conditions": [{"type": "Complete", "status": "True"}],
            },
        });
        assert_eq!(row("batch", "jobs", &object), "oak | Complete | 1/1 | 42s | 60m |  |  | <none>");
    }

    #[test]
    fn a_cron_job_shows_when_it_last_ran() {
        let object = json!({
            "metadata": metadata(), "spec": {"schedule": "@hourly", "suspend": false},
            "status": {"lastScheduleTime": "2024-05-01T11:30:00Z", "active": [{}]},
        });
        assert_eq!(row("batch", "cronjobs", &object), "oak | @hourly | <none> | False | 1 | 30m | 60m |  |  | <none>");
    }

    #[test]
    fn a_budget_shows_the_bound_that_it_has() {
        let object =
            json!({"metadata": metadata(), "spec": {"minAvailable": "50%"}, "status": {"disruptionsAllowed": 1}});
        assert_eq!(row("policy", "poddisruptionbudgets", &object), "oak | 50% | N/A | 1 | 60m");
    }
}
