//! What is decided for deployments and ReplicaSets as they may be.

use std::collections::HashSet;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{Deployment, DeploymentStatus, ReplicaSet};
use kube::ResourceExt;
use serde_json::{Value, json};

use super::decide::{Plan, Step, plan};
use super::revisions::{self, DESIRED};
use super::scaling::size;

const NOW: &str = "2026-01-01T01:00:00Z";

/// A deployment of four, with one more and one less at a time.
fn deployment(change: &Value, status: &Value) -> Deployment {
    let mut spec = json!({"replicas": 4, "selector": {"matchLabels": {"app": "press"}}, "progressDeadlineSeconds": 600,
        "revisionHistoryLimit": 1, "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}},
        "template": {"metadata": {"labels": {"image": "new"}}}});
    spec.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
    serde_json::from_value(json!({"metadata": {"name": "press", "uid": "d"}, "spec": spec, "status": status})).unwrap()
}

/// ReplicaSets in the order of their revisions: a template, a size and how many are available.
fn sets(deployment: &Deployment, wanted: &[(&str, i32, i32)]) -> Vec<ReplicaSet> {
    let mut sets: Vec<ReplicaSet> = Vec::new();
    for (image, size, available) in wanted {
        let mut version = deployment.clone();
        let labels = &mut version.spec.as_mut().unwrap().template.metadata.as_mut().unwrap().labels;
        *labels = Some([("image".to_owned(), (*image).to_owned())].into());
        let mut set = revisions::fresh(&version, &sets, *size).unwrap();
        set.metadata.name = Some((*image).into());
        set.metadata.uid = Some((*image).into());
        set.status = serde_json::from_value(
            json!({"replicas": size, "readyReplicas": available, "availableReplicas": available}),
        )
        .unwrap();
        sets.push(set);
    }
    sets
}

fn planned(deployment: &Deployment, sets: Vec<ReplicaSet>, running: &[&str]) -> Plan {
    let running: HashSet<String> = running.iter().map(|uid| (*uid).to_owned()).collect();
    plan(deployment, sets, &running, NOW.parse::<Timestamp>().unwrap()).unwrap()
}

/// The steps in short: `new 0>2`.
fn steps(plan: &Plan) -> String {
    let line = |step: &Step| match step {
        Step::Create(set) => format!("create {}", size(set)),
        Step::Change { from, to } => format!("{} {from}>{}", to.name_any(), size(to)),
        Step::Delete(set) => format!("delete {}", set.name_any()),
    };
    plan.steps.iter().map(line).collect::<Vec<_>>().join(", ")
}

fn progressing(plan: &Plan) -> String {
    let conditions = plan.status.conditions.iter().flatten();
    let found = conditions.into_iter().find(|condition| condition.type_ == "Progressing");
    found.map_or_else(String::new, |found| format!("{} {}", found.status, found.reason.clone().unwrap_or_default()))
}

#[test]
fn a_rollout_takes_one_step_at_a_time() {
    let rolling = deployment(&json!({}), &json!({}));
    for (wanted, expected) in [
        (&[][..], "create 4"),
        (&[("old", 4, 4)], "create 1"),
        (&[("old", 4, 4), ("new", 1, 0)], "old 4>3"),
        (&[("old", 3, 3), ("new", 1, 0)], "new 1>2"),
        (&[("old", 3, 3), ("new", 2, 1)], "old 3>2"),
        (&[("old", 0, 0), ("new", 4, 4)], ""),
        // What ails in the old one is no loss.
        (&[("old", 4, 2), ("new", 1, 0)], "old 4>3"),
        // Beyond what history keeps, the oldest goes.
        (&[("oldest", 0, 0), ("old", 0, 0), ("new", 4, 4)], "delete oldest"),
        (&[("oldest", 0, 0), ("old", 0, 0), ("new", 4, 3)], ""),
        // Back to an old template: its set becomes the newest.
        (&[("new", 0, 0), ("other", 4, 4)], "new 0>1"),
    ] {
        let sets = sets(&rolling, wanted);
        assert_eq!(steps(&planned(&rolling, sets, &[])), expected, "{wanted:?}");
    }
}

#[test]
fn one_that_recreates_waits_for_the_last_old_pod() {
    let recreating = deployment(&json!({"strategy": {"type": "Recreate"}}), &json!({}));
    for (wanted, running, expected) in [
        (&[("old", 4, 4)][..], &["old"][..], "old 4>0"),
        (&[("old", 0, 0)], &["old"], ""),
        (&[("old", 0, 0)], &[], "create 4"),
        (&[("old", 0, 0), ("new", 0, 0)], &["new"], "new 0>4"),
    ] {
        let sets = sets(&recreating, wanted);
        assert_eq!(steps(&planned(&recreating, sets, running)), expected, "{wanted:?} {running:?}");
    }
}

#[test]
fn a_paused_deployment_is_only_resized() {
    let paused = deployment(&json!({"paused": true}), &json!({}));
    let plan = planned(&paused, sets(&paused, &[("old", 4, 4)]), &[]);
    assert_eq!((steps(&plan).as_str(), progressing(&plan).as_str()), ("", "Unknown DeploymentPaused"));
    let larger = deployment(&json!({"paused": true, "replicas": 6}), &json!({}));
    assert_eq!(steps(&planned(&larger, sets(&paused, &[("old", 4, 4)]), &[])), "old 4>6");
    let conditions = serde_json::to_value(&plan.status).unwrap();
    let resumed = planned(&deployment(&json!({}), &conditions), sets(&paused, &[("old", 4, 4)]), &[]);
    assert_eq!((steps(&resumed).as_str(), progressing(&resumed).as_str()), ("create 1", "True NewReplicaSetCreated"));
}

#[test]
fn a_resize_is_noted_in_the_set_and_goes_before_a_rollout() {
    let before = deployment(&json!({}), &json!({"replicas": 5}));
    let halfway = sets(&before, &[("old", 3, 3), ("new", 2, 0)]);
    let larger = deployment(&json!({"replicas": 9}), &json!({"replicas": 5}));
    let plan = planned(&larger, halfway, &[]);
    assert_eq!(steps(&plan), "old 3>6, new 2>4");
    for step in &plan.steps {
        let Step::Change { to, .. } = step else { panic!("{step:?}") };
        assert_eq!(to.annotations()[DESIRED], "9");
    }
    // Once the new one has all that it should, the old ones are emptied.
    let saturated = sets(&larger, &[("old", 3, 3), ("new", 9, 9)]);
    let mut resized = saturated.clone();
    resized[0].annotations_mut().insert(DESIRED.into(), "4".into());
    assert_eq!(steps(&planned(&larger, resized, &[])), "old 3>0");
}

#[test]
fn progress_is_judged_by_what_changed_since_the_last_look() {
    let condition = |reason: &str, updated: &str| json!([{"type": "Progressing", "status": "True", "reason": reason, "lastUpdateTime": updated}]);
    let recently = "2026-01-01T00:55:00Z";
    let long_ago = "2026-01-01T00:40:00Z";
    for (wanted, status, expected, again) in [
        // More is available than was.
        (
            &[("new", 4, 3)][..],
            json!({"replicas": 4, "updatedReplicas": 4, "availableReplicas": 2, "conditions": condition("x", recently)}),
            "True ReplicaSetUpdated",
            Some(601),
        ),
        // Nothing moved, and there is time left.
        (
            &[("new", 4, 3)],
            json!({"replicas": 4, "updatedReplicas": 4, "readyReplicas": 3, "availableReplicas": 3, "conditions": condition("x", recently)}),
            "True x",
            Some(301),
        ),
        // Nothing moved for too long.
        (
            &[("new", 4, 3)],
            json!({"replicas": 4, "updatedReplicas": 4, "readyReplicas": 3, "availableReplicas": 3, "conditions": condition("x", long_ago)}),
            "False ProgressDeadlineExceeded",
            None,
        ),
        // It is done, and stays done when a pod ails later.
        (&[("new", 4, 4)], json!({"conditions": condition("x", long_ago)}), "True NewReplicaSetAvailable", None),
        (
            &[("new", 4, 1)],
            json!({"replicas": 4, "updatedReplicas": 4, "readyReplicas": 4, "availableReplicas": 4, "conditions": condition("NewReplicaSetAvailable", long_ago)}),
            "True NewReplicaSetAvailable",
            None,
        ),
    ] {
        let rolling = deployment(&json!({}), &status);
        let plan = planned(&rolling, sets(&rolling, wanted), &[]);
        assert_eq!(progressing(&plan), expected, "{wanted:?} after {status}");
        assert_eq!(plan.again, again.map(Duration::from_secs), "{wanted:?} after {status}");
    }
    let careless =
        deployment(&json!({"progressDeadlineSeconds": i32::MAX}), &json!({"conditions": condition("x", recently)}));
    assert_eq!(progressing(&planned(&careless, sets(&careless, &[("new", 4, 3)]), &[])), "");
}

#[test]
fn the_status_sums_up_the_sets() {
    let rolling = deployment(&json!({}), &json!({"collisionCount": 2}));
    let mut sets = sets(&rolling, &[("old", 3, 2), ("new", 2, 1)]);
    let failure =
        json!([{"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "exceeded quota"}]);
    sets[1].status.as_mut().unwrap().conditions = serde_json::from_value(failure).unwrap();
    let DeploymentStatus { conditions, .. } = planned(&rolling, sets.clone(), &[]).status;
    let mut status = serde_json::to_value(planned(&rolling, sets, &[]).status).unwrap();
    status.as_object_mut().unwrap().remove("conditions");
    assert_eq!(
        status,
        json!({"replicas": 5, "updatedReplicas": 2, "readyReplicas": 3, "availableReplicas": 3, "unavailableReplicas": 1, "collisionCount": 2}),
        "of the two that ail, the old one is on its way out"
    );
    let reasons: Vec<String> = conditions.unwrap().into_iter().filter_map(|one| one.reason).collect();
    assert_eq!(reasons, ["MinimumReplicasAvailable", "ReplicaSetUpdated", "FailedCreate"]);
}
