//! What a run says of itself, in the termination message of its container.

use c5c3_api::openstack::{MOST_FAILURES, TempestOutcome, TempestResults};
use c5c3_kit::object::condition;
use kube::api::DynamicObject;
use serde::Deserialize;
use serde_json::Value;

/// How many names of failed tests the message of a condition has.
const MOST_NAMES: usize = 10;

/// How much of what a run says is kept.
const LONGEST_MESSAGE: usize = 1000;

/// What `run.py` writes.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Told {
    passed: i32,
    failed: i32,
    skipped: i32,
    total: i32,
    failures: Vec<String>,
    error: Option<String>,
    timed_out: bool,
}

/// What came of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Results {
    pub(crate) outcome: TempestOutcome,
    pub(crate) counts: Option<TempestResults>,
    pub(crate) failures: Vec<String>,
    pub(crate) message: Option<String>,
}

impl Results {
    /// The results of a Job that has ended, by its pods.
    pub(crate) fn of(job: &DynamicObject, pods: &[&DynamicObject]) -> Self {
        let said = pods.iter().find_map(|pod| termination_message(pod));
        match said.as_deref().map(serde_json::from_str::<Told>) {
            Some(Ok(told)) => Self::told(told),
            _ => Self::untold(job, said.as_deref()),
        }
    }

    fn told(told: Told) -> Self {
        let outcome = match &told {
            Told { timed_out: true, .. } => TempestOutcome::TimedOut,
            Told { error: Some(_), .. } => TempestOutcome::Error,
            Told { failed: 1.., .. } => TempestOutcome::Failed,
            _ => TempestOutcome::Passed,
        };
        let Told { passed, failed, skipped, total, mut failures, error, .. } = told;
        failures.truncate(MOST_FAILURES);
        let counts = (total > 0).then_some(TempestResults { passed, failed, skipped, total });
        Self { outcome, counts, failures, message: error.map(|error| shortened(&error)) }
    }

    /// What is known of a run that says nothing: Kubernetes has ended it, or it died.
    fn untold(job: &DynamicObject, said: Option<&str>) -> Self {
        let failed = condition(job, "Failed");
        let text = |field: &str| failed.and_then(|failed| failed[field].as_str()).unwrap_or_default();
        let (outcome, message) = if text("reason") == "DeadlineExceeded" {
            let limit = job.data["spec"]["activeDeadlineSeconds"].as_i64().unwrap_or_default();
            (TempestOutcome::TimedOut, format!("the run did not end within {limit} s, and was ended"))
        } else {
            let last = said.and_then(|said| said.lines().map(str::trim).rfind(|line| !line.is_empty()));
            let why = last.or(Some(text("message")).filter(|message| !message.is_empty()));
            (TempestOutcome::Error, format!("the run left no results: {}", why.unwrap_or("its pod is gone")))
        };
        Self { outcome, counts: None, failures: Vec::new(), message: Some(shortened(&message)) }
    }
}

fn termination_message(pod: &DynamicObject) -> Option<String> {
    let statuses = pod.data["status"]["containerStatuses"].as_array()?;
    let messages = statuses.iter().filter_map(|status| status["state"]["terminated"]["message"].as_str());
    messages.map(ToOwned::to_owned).find(|message| !message.is_empty())
}

/// A text within the limits of a status.
fn shortened(text: &str) -> String {
    if text.chars().count() <= LONGEST_MESSAGE {
        return text.to_owned();
    }
    text.chars().take(LONGEST_MESSAGE).chain("...".chars()).collect()
}

/// Some names of failed tests, and how many more there are.
pub(crate) fn named(failures: Option<&Vec<Value>>, failed: i64) -> String {
    let names: Vec<&str> = failures.into_iter().flatten().filter_map(Value::as_str).take(MOST_NAMES).collect();
    let more = failed - i64::try_from(names.len()).unwrap_or_default();
    match (names.join(", "), more) {
        (names, ..=0) => names,
        (names, more) if names.is_empty() => format!("{more} without a name"),
        (names, more) => format!("{names} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(value: Value) -> DynamicObject {
        serde_json::from_value(value).unwrap()
    }

    fn results(message: Option<&str>, failed: &Value) -> Results {
        let job = object(json!({"metadata": {}, "spec": {"activeDeadlineSeconds": 3600},
            "status": {"conditions": [failed]}}));
        let terminated = json!({"exitCode": 1, "message": message});
        let pod =
            object(json!({"metadata": {}, "status": {"containerStatuses": [{"state": {"terminated": terminated}}]}}));
        Results::of(&job, &[&pod])
    }

    #[test]
    fn numbers_are_those_of_the_runner() {
        let told = r#"{"passed":7,"failed":2,"skipped":1,"total":10,"duration":9,"failures":["a","b"]}"#;
        let found = results(Some(told), &Value::Null);
        assert_eq!(found.outcome, TempestOutcome::Failed);
        assert_eq!(found.counts, Some(TempestResults { passed: 7, failed: 2, skipped: 1, total: 10 }));
        assert_eq!((found.failures.len(), found.message), (2, None));
        let good = results(Some(r#"{"passed":1,"total":1}"#), &Value::Null);
        assert_eq!((good.outcome, good.failures.len()), (TempestOutcome::Passed, 0));
    }

    #[test]
    fn a_run_that_could_not_be_carried_out_says_why() {
        let found = results(Some(r#"{"error":"spec.tests.includeRegex fits none"}"#), &Value::Null);
        assert_eq!((found.outcome, found.counts), (TempestOutcome::Error, None));
        assert_eq!(found.message.as_deref(), Some("spec.tests.includeRegex fits none"));
        let late = results(Some(r#"{"passed":1,"total":1,"timedOut":true,"error":"late"}"#), &Value::Null);
        assert_eq!((late.outcome, late.counts.map(|counts| counts.passed)), (TempestOutcome::TimedOut, Some(1)));
    }

    #[test]
    fn a_run_that_was_ended_by_kubernetes_has_timed_out_and_one_that_died_quotes_its_last_line() {
        let deadline = json!({"type": "Failed", "status": "True", "reason": "DeadlineExceeded", "message": "too long"});
        let found = results(None, &deadline);
        assert_eq!(found.outcome, TempestOutcome::TimedOut);
        assert!(found.message.unwrap().contains("3600 s"));
        let died = json!({"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded", "message": "limit"});
        let found = results(Some("Traceback\n  no module named tempest\n\n"), &died);
        assert_eq!(found.outcome, TempestOutcome::Error);
        assert_eq!(found.message.unwrap(), "the run left no results: no module named tempest");
        assert_eq!(results(None, &died).message.unwrap(), "the run left no results: limit");
    }

    #[test]
    fn a_condition_names_a_few_tests_and_counts_the_rest() {
        let names: Vec<Value> = (0..12).map(|number| format!("t{number}").into()).collect();
        assert_eq!(named(Some(&names[..2].to_vec()), 2), "t0, t1");
        assert!(named(Some(&names), 60).ends_with("t9 and 50 more"));
        assert_eq!(named(None, 3), "3 without a name");
    }
}
