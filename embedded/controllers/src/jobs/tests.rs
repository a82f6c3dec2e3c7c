//! What is decided about jobs, in tables.

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use serde_json::{Value, json};

use super::backoff::Failures;
use super::decide::{Plan, Seen, decide};
use super::pods::TRACKED;
use crate::testing::{of, with};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_000_000 + second).unwrap()
}

fn job(spec: Value, status: Value) -> Job {
    let usual = json!({"template": {"spec": {"restartPolicy": "Never", "containers": []}}, "parallelism": 1,
                       "backoffLimit": 6, "podReplacementPolicy": "TerminatingOrFailed"});
    let mut job = json!({"metadata": {"name": "bake", "namespace": "oven", "uid": "job-1"}});
    job["spec"] = with(usual, spec);
    job["status"] = status;
    of(job)
}

/// A pod: `name phase`, and `untracked`, `going`, `ready`, `index=N`, `failures=N`, `exit=N`, `restarts=N` if it is so.
fn pod(text: &str) -> Pod {
    let mut words = text.split_whitespace();
    let (name, phase) = (words.next().unwrap(), words.next().unwrap());
    let mut pod = json!({
        "metadata": {"name": name, "namespace": "oven", "uid": name, "finalizers": [TRACKED], "annotations": {}},
        "status": {"phase": phase, "conditions": [], "containerStatuses": [{
            "name": "c", "image": "", "imageID": "", "ready": false, "restartCount": 0}]},
    });
    let ended = json!({"exitCode": 1, "finishedAt": at(0)});
    if phase == "Failed" {
        pod["status"]["containerStatuses"][0]["state"]["terminated"] = ended;
    }
    for word in words {
        let container = &mut pod["status"]["containerStatuses"][0];
        match word.split_once('=').unwrap_or((word, "")) {
            ("untracked", _) => pod["metadata"]["finalizers"] = json!([]),
            ("going", _) => pod["metadata"]["deletionTimestamp"] = json!(at(0)),
            ("ready", _) => pod["status"]["conditions"] = json!([{"type": "Ready", "status": "True"}]),
            ("index", index) => pod["metadata"]["annotations"][super::pods::INDEX] = json!(index),
            ("failures", count) => pod["metadata"]["annotations"][super::pods::INDEX_FAILURES] = json!(count),
            ("exit", code) => container["state"]["terminated"]["exitCode"] = code.parse::<i32>().unwrap().into(),
            ("restarts", count) => container["restartCount"] = count.parse::<i32>().unwrap().into(),
            (other, _) => panic!("{other}"),
        }
    }
    serde_json::from_value(pod).unwrap()
}

fn names(pods: &[&Pod]) -> String {
    pods.iter().map(|pod| pod.name_any()).collect::<Vec<_>>().join(" ")
}

/// A plan as one line.
fn told(plan: &Plan<'_>) -> String {
    let status = &plan.status;
    let mut parts = Vec::new();
    let mut say = |what: &str, text: String| {
        if !text.is_empty() {
            parts.push(format!("{what} {text}"));
        }
    };
    let count =
        |count: Option<i32>| count.filter(|count| *count > 0).map(|count| count.to_string()).unwrap_or_default();
    let indexes: Vec<String> =
        plan.create.iter().filter_map(|wanted| wanted.index).map(|(i, _)| i.to_string()).collect();
    say("retire", names(&plan.retire));
    say("stop", names(&plan.stop));
    say(
        "create",
        if indexes.is_empty() {
            count(i32::try_from(plan.create.len()).ok())
        } else {
            format!("#{}", indexes.join(",#"))
        },
    );
    say("active", count(status.active));
    say("ready", count(status.ready));
    say("terminating", count(status.terminating));
    say("succeeded", count(status.succeeded));
    say("failed", count(status.failed));
    let uncounted = status.uncounted_terminated_pods.clone().unwrap_or_default();
    say("+", uncounted.succeeded.unwrap_or_default().join(" "));
    say("-", uncounted.failed.unwrap_or_default().join(" "));
    say("done", status.completed_indexes.clone().unwrap_or_default());
    say("lost", status.failed_indexes.clone().unwrap_or_default());
    say("release", names(&plan.released));
    let conditions = status.conditions.iter().flatten();
    let text = |name: &str, truth: &str| if truth == "True" { name.to_owned() } else { format!("not {name}") };
    say("is", conditions.map(|found| text(&found.type_, &found.status)).collect::<Vec<_>>().join(" "));
    say("again", count(plan.again.and_then(|again| i32::try_from(again.as_secs()).ok())));
    parts.join(", ")
}

fn decided(job: &Job, pods: &[&str], failures: Failures) -> String {
    let pods: Vec<Pod> = pods.iter().map(|text| pod(text)).collect();
    told(&decide(&Seen { job, pods: &pods, failures, now: at(0) }))
}

#[test]
fn pods_are_made_counted_and_let_go() {
    let completions = |n: i32, parallelism: i32| json!({"completions": n, "parallelism": parallelism});
    let none = json!({});
    let table: Vec<(Value, Value, Vec<&str>, &str)> = vec![
        (completions(1, 1), none.clone(), vec![], "create 1"),
        (completions(5, 2), none.clone(), vec!["a Running ready"], "create 1, active 1, ready 1"),
        (
            completions(5, 2),
            none.clone(),
            vec!["a Running", "b Pending", "c Running ready"],
            "retire b, active 2, ready 1",
        ),
        // Seen to have ended, it is written down and released.
        (completions(2, 1), none.clone(), vec!["a Succeeded"], "create 1, + a, release a"),
        // Written down and still held: not counted again.
        (
            completions(2, 1),
            json!({"uncountedTerminatedPods": {"succeeded": ["a"]}}),
            vec!["a Succeeded"],
            "create 1, + a, release a",
        ),
        // Released, there or not: counted.
        (
            completions(3, 1),
            json!({"uncountedTerminatedPods": {"succeeded": ["a", "b"]}}),
            vec!["a Succeeded untracked"],
            "create 1, succeeded 2",
        ),
        // Counted: not seen any more.
        (completions(2, 1), json!({"succeeded": 1}), vec!["a Succeeded untracked"], "create 1, succeeded 1"),
        // The last one announces the end, and the end comes when it has been counted.
        (completions(1, 1), none.clone(), vec!["a Succeeded"], "+ a, release a, is SuccessCriteriaMet"),
        (
            completions(1, 1),
            json!({"uncountedTerminatedPods": {"succeeded": ["a"]}}),
            vec!["a Succeeded untracked"],
            "succeeded 1, is SuccessCriteriaMet Complete",
        ),
        // A pod that is one too many goes, and the end waits for it.
        (
            completions(1, 1),
            json!({"succeeded": 1}),
            vec!["b Running"],
            "retire b, succeeded 1, release b, is SuccessCriteriaMet",
        ),
        (
            completions(1, 1),
            json!({"succeeded": 1}),
            vec!["b Running going untracked"],
            "terminating 1, succeeded 1, is SuccessCriteriaMet",
        ),
        // A work queue ends when all have, and one well.
        (json!({"parallelism": 2}), none.clone(), vec!["a Running"], "create 1, active 1"),
        (json!({"parallelism": 2}), none.clone(), vec!["a Running", "b Succeeded"], "active 1, + b, release b"),
        (
            json!({"parallelism": 2}),
            none.clone(),
            vec!["a Failed", "b Succeeded"],
            "+ b, - a, release a b, is SuccessCriteriaMet",
        ),
        (completions(0, 1), none.clone(), vec![], "is SuccessCriteriaMet Complete"),
    ];
    for (spec, status, pods, expected) in table {
        assert_eq!(decided(&job(spec.clone(), status), &pods, Failures::default()), expected, "{spec} {pods:?}");
    }
}

#[test]
fn failures_are_waited_for_and_end_a_job_when_there_are_too_many() {
    let limit = |limit: i32| json!({"completions": 3, "backoffLimit": limit});
    let once = |restart: &str| {
        json!({"completions": 1, "backoffLimit": 2,
        "template": {"spec": {"restartPolicy": restart, "containers": []}}})
    };
    let none = json!({});
    let table: Vec<(Value, Value, Vec<&str>, &str)> = vec![
        (limit(6), none.clone(), vec!["a Failed"], "- a, release a, again 10"),
        (limit(6), none.clone(), vec!["a Failed", "b Failed"], "- a b, release a b, again 20"),
        // A pod that is deleted has failed.
        (limit(6), none.clone(), vec!["a Running going"], "terminating 1, - a, release a, again 10"),
        (limit(0), none.clone(), vec!["a Failed"], "- a, release a, is FailureTarget"),
        (
            limit(0),
            json!({"uncountedTerminatedPods": {"failed": ["a"]}}),
            vec!["a Failed untracked"],
            "failed 1, is FailureTarget Failed",
        ),
        // What still runs is stopped, and has failed with its job.
        (
            limit(1),
            json!({"failed": 1}),
            vec!["a Failed", "b Running ready"],
            "stop b, failed 1, - a b, release a b, is FailureTarget",
        ),
        (
            limit(1),
            json!({"failed": 3, "conditions": [{"type": "FailureTarget", "status": "True"}]}),
            vec!["b Running going untracked"],
            "terminating 1, failed 3, is FailureTarget",
        ),
        (once("OnFailure"), none.clone(), vec!["a Running restarts=1"], "active 1"),
        (once("OnFailure"), none.clone(), vec!["a Running restarts=2"], "stop a, - a, release a, is FailureTarget"),
        (once("Never"), none.clone(), vec!["a Running restarts=2"], "active 1"),
    ];
    for (spec, status, pods, expected) in table {
        assert_eq!(decided(&job(spec.clone(), status), &pods, Failures::default()), expected, "{spec} {pods:?}");
    }
}

#[test]
fn a_deadline_ends_a_job_and_until_then_it_is_looked_at_again() {
    let spec = json!({"completions": 1, "activeDeadlineSeconds": 30});
    let started = |second: i64| json!({"startTime": at(second)});
    let table = [
        (spec.clone(), started(-10), "active 1, again 20"),
        (spec.clone(), started(-30), "stop a, - a, release a, is FailureTarget"),
        (
            json!({"completions": 1, "activeDeadlineSeconds": 30, "suspend": true}),
            started(-60),
            "retire a, is Suspended",
        ),
    ];
    for (spec, status, expected) in table {
        assert_eq!(decided(&job(spec, status), &["a Running"], Failures::default()), expected);
    }
}

#[test]
fn a_suspended_job_has_no_pods_and_starts_anew_when_it_is_resumed() {
    let spec = |suspend: bool| json!({"completions": 2, "parallelism": 2, "suspend": suspend});
    let suspended = json!({"conditions": [{"type": "Suspended", "status": "True"}]});
    assert_eq!(
        decided(&job(spec(true), json!({})), &["a Running", "b Pending"], Failures::default()),
        "retire b a, is Suspended"
    );
    assert_eq!(decided(&job(spec(true), suspended.clone()), &[], Failures::default()), "is Suspended");
    let (resumed, failures) = (job(spec(false), suspended), Failures::default());
    let plan = decide(&Seen { job: &resumed, pods: &[], failures, now: at(7) });
    assert_eq!(told(&plan), "create 2, is not Suspended");
    assert_eq!(plan.status.start_time.map(|time| time.0), Some(at(7)));
    assert!(
        decide(&Seen { job: &job(spec(true), json!({})), pods: &[], failures, now: at(7) }).status.start_time.is_none()
    );
}

#[test]
fn a_rule_for_failures_ignores_a_pod_or_ends_the_job() {
    let spec = json!({"completions": 2, "parallelism": 2, "backoffLimit": 0, "podFailurePolicy": {"rules": [
        {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}},
        {"action": "Ignore", "onExitCodes": {"operator": "In", "values": [7]}},
    ]}});
    let table = [
        (vec!["a Failed exit=7", "b Running"], "active 1, release a, again 10"),
        (vec!["a Failed exit=42", "b Running"], "stop b, - a b, release a b, is FailureTarget"),
        (vec!["a Failed exit=1", "b Running"], "stop b, - a b, release a b, is FailureTarget"),
        // With such rules a pod has failed when it has ended, and is replaced then.
        (vec!["a Running going", "b Running"], "active 1, terminating 1"),
    ];
    for (pods, expected) in table {
        assert_eq!(decided(&job(spec.clone(), json!({})), &pods, Failures::default()), expected, "{pods:?}");
    }
}

#[test]
fn indexes_are_done_one_by_one() {
    let spec = |more: Value| with(json!({"completionMode": "Indexed", "completions": 4, "parallelism": 2}), more);
    let per_index = json!({"backoffLimitPerIndex": 1, "backoffLimit": i32::MAX});
    let few = json!({"backoffLimitPerIndex": 0, "maxFailedIndexes": 1, "backoffLimit": i32::MAX});
    let none = json!({});
    let table: Vec<(Value, Value, Vec<&str>, &str)> = vec![
        (spec(json!({})), none.clone(), vec![], "create #0,#1"),
        (spec(json!({})), none.clone(), vec!["a Running index=1"], "create #0, active 1"),
        (
            spec(json!({})),
            none.clone(),
            vec!["a Succeeded index=1", "b Running index=0"],
            "create #2, active 1, succeeded 1, done 1, release a",
        ),
        // Two of one index, and one of none.
        (
            spec(json!({})),
            none.clone(),
            vec!["a Running index=0", "b Pending index=0", "c Running index=9"],
            "retire c b, active 1",
        ),
        (
            spec(json!({})),
            json!({"completedIndexes": "0-2"}),
            vec!["a Succeeded index=3"],
            "succeeded 4, done 0-3, release a, is SuccessCriteriaMet",
        ),
        (
            spec(json!({"successPolicy": {"rules": [{"succeededIndexes": "0"}]}})),
            none.clone(),
            vec!["a Succeeded index=0", "b Running index=1"],
            "retire b, succeeded 1, done 0, release a b, is SuccessCriteriaMet",
        ),
        // The last failure of an index is kept until its next pod is there, which waits.
        (
            spec(per_index.clone()),
            none.clone(),
            vec!["a Failed index=0 failures=0", "b Running index=1"],
            "active 1, - a, again 10",
        ),
        (
            spec(per_index.clone()),
            json!({"uncountedTerminatedPods": {"failed": ["a"]}}),
            vec!["a Failed index=0 failures=0", "c Pending index=0 failures=1", "b Running index=1"],
            "active 2, - a, release a",
        ),
        (
            spec(per_index.clone()),
            none.clone(),
            vec!["c Failed index=0 failures=1", "b Running index=1"],
            "create #2, active 1, - c, lost 0, release c",
        ),
        (
            spec(per_index),
            json!({"failedIndexes": "0", "completedIndexes": "1,2"}),
            vec!["d Succeeded index=3"],
            "succeeded 3, done 1-3, lost 0, release d, is FailureTarget",
        ),
        (
            spec(few.clone()),
            none.clone(),
            vec!["a Failed index=0", "b Running index=1"],
            "create #2, active 1, - a, lost 0, release a",
        ),
        (
            spec(few),
            json!({"failedIndexes": "0"}),
            vec!["b Failed index=1", "c Running index=2"],
            "stop c, - b c, lost 0,1, release b c, is FailureTarget",
        ),
    ];
    for (spec, status, pods, expected) in table {
        assert_eq!(decided(&job(spec.clone(), status), &pods, Failures::default()), expected, "{spec} {pods:?}");
    }
}

#[test]
fn a_job_that_is_going_makes_no_pods_and_keeps_none() {
    let mut going = job(json!({"completions": 3, "parallelism": 2}), json!({}));
    going.metadata.deletion_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(at(0)));
    assert_eq!(decided(&going, &["a Running", "b Failed"], Failures::default()), "active 1, - b, release a b");
}
