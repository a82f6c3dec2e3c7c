//! What a set reports: how many pods it has, how many of them are ready, and whether it cannot have more.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{ReplicaSetCondition, ReplicaSetStatus};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;

use super::Wanted;
use crate::pods;
use crate::queue::Again;

/// The report on the pods that there were, and when the next of them will have been ready for long enough.
pub(super) fn report(
    before: ReplicaSetStatus,
    generation: Option<i64>,
    wanted: &Wanted,
    pods: &[Pod],
    failure: Option<String>,
    now: Timestamp,
) -> (ReplicaSetStatus, Again) {
    let labels = wanted.template.metadata.as_ref().and_then(|meta| meta.labels.clone()).unwrap_or_default();
    let labelled = |pod: &&Pod| labels.iter().all(|(key, value)| pod.labels().get(key) == Some(value));
    let until: Vec<Duration> =
        pods.iter().filter_map(|pod| pods::until_available(pod, wanted.min_ready_seconds, now)).collect();
    let status = ReplicaSetStatus {
        replicas: count(pods.len()),
        fully_labeled_replicas: some(pods.iter().filter(labelled).count()),
        ready_replicas: some(until.len()),
        available_replicas: some(until.iter().filter(|left| left.is_zero()).count()),
        observed_generation: generation,
        conditions: conditions(before.conditions, wanted, pods, failure, now),
        ..ReplicaSetStatus::default()
    };
    (status, until.into_iter().filter(|left| !left.is_zero()).min())
}

fn count(number: usize) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

/// Zero is not written, as it is not by others.
fn some(number: usize) -> Option<i32> {
    Some(count(number)).filter(|count| *count > 0)
}

/// The conditions, with the failure that there is now. Those of others stay.
fn conditions(
    before: Option<Vec<ReplicaSetCondition>>,
    wanted: &Wanted,
    pods: &[Pod],
    failure: Option<String>,
    now: Timestamp,
) -> Option<Vec<ReplicaSetCondition>> {
    let mut conditions = before.unwrap_or_default();
    let Some(message) = failure else {
        conditions.retain(|condition| condition.type_ != "ReplicaFailure");
        return Some(conditions).filter(|conditions| !conditions.is_empty());
    };
    let reason = if count(pods.len()) < wanted.replicas { "FailedCreate" } else { "FailedDelete" };
    let same = |condition: &ReplicaSetCondition| {
        condition.type_ == "ReplicaFailure" && condition.reason.as_deref() == Some(reason)
    };
    if !conditions.iter().any(same) {
        conditions.retain(|condition| condition.type_ != "ReplicaFailure");
        conditions.push(ReplicaSetCondition {
            type_: "ReplicaFailure".into(),
            status: "True".into(),
            reason: Some(reason.into()),
            message: Some(message),
            last_transition_time: Some(Time(now)),
        });
    }
    Some(conditions)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::PodTemplateSpec;
    use kube::core::Selector;
    use serde_json::{Value, json};

    use super::*;

    const NOW: &str = "2026-01-01T00:01:00Z";

    fn wanted() -> Wanted {
        let template: PodTemplateSpec =
            serde_json::from_value(json!({"metadata": {"labels": {"app": "pear", "ripe": "yes"}}})).unwrap();
        Wanted { selector: Selector::default(), template, replicas: 3, min_ready_seconds: 40 }
    }

    fn pod(labels: &Value, ready_since: Option<&str>) -> Pod {
        let ready = ready_since.map(|since| json!([{"type": "Ready", "status": "True", "lastTransitionTime": since}]));
        serde_json::from_value(json!({"metadata": {"labels": labels}, "status": {"conditions": ready}})).unwrap()
    }

    #[test]
    fn pods_are_counted_as_labelled_ready_and_available() {
        let full = json!({"app": "pear", "ripe": "yes", "extra": "fine"});
        let pods = [
            pod(&full, Some("2026-01-01T00:00:10Z")),
            pod(&full, Some("2026-01-01T00:00:50Z")),
            pod(&json!({"app": "pear"}), None),
        ];
        let (status, again) =
            report(ReplicaSetStatus::default(), Some(7), &wanted(), &pods, None, NOW.parse().unwrap());
        assert_eq!(
            serde_json::to_value(&status).unwrap(),
            json!({"replicas": 3, "fullyLabeledReplicas": 2, "readyReplicas": 2, "availableReplicas": 1, "observedGeneration": 7})
        );
        assert_eq!(again, Some(Duration::from_secs(30)), "then the second will have been ready for forty seconds");
    }

    #[test]
    fn a_failure_is_reported_until_it_is_over_beside_what_others_report() {
        let foreign = json!([{"type": "StatusUpdate", "status": "True"}]);
        let before = ReplicaSetStatus { conditions: serde_json::from_value(foreign).unwrap(), ..Default::default() };
        let now = NOW.parse().unwrap();
        let (failed, _) = report(before, None, &wanted(), &[], Some("exceeded quota".into()), now);
        let types = |status: &ReplicaSetStatus| {
            let conditions = status.conditions.iter().flatten();
            conditions.map(|one| (one.type_.clone(), one.reason.clone().unwrap_or_default())).collect::<Vec<_>>()
        };
        let both =
            [("StatusUpdate".to_owned(), String::new()), ("ReplicaFailure".to_owned(), "FailedCreate".to_owned())];
        assert_eq!(types(&failed), both);
        let later = "2026-01-01T00:02:00Z".parse().unwrap();
        let (again, _) = report(failed.clone(), None, &wanted(), &[], Some("exceeded quota".into()), later);
        assert_eq!(again, failed, "the same failure is no news");
        let (over, _) = report(failed, None, &wanted(), &[], None, now);
        assert_eq!(types(&over), both[..1]);
    }
}
