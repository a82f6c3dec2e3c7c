//! What is decided for sets and pods as they may be.

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, PodTemplateSpec};
use kube::ResourceExt;
use serde_json::{Value, json};

use super::Version;
use super::decide::{Plan, Seen, Step, plan};
use super::identity::{self, REVISION};

const NOW: &str = "2026-01-01T01:00:00Z";

/// A set with three places.
fn set(change: &Value) -> StatefulSet {
    let mut spec =
        json!({"replicas": 3, "serviceName": "web", "selector": {"matchLabels": {"app": "web"}}, "template": {}});
    spec.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
    serde_json::from_value(json!({"metadata": {"name": "web", "uid": "s"}, "spec": spec, "status": {"replicas": 0}}))
        .unwrap()
}

fn version(name: &str) -> Version {
    Version { name: name.into(), template: PodTemplateSpec::default() }
}

/// A pod from words: `0 old ready`. It is new, runs and is not ready unless they say otherwise.
fn pod(set: &StatefulSet, words: &str) -> Pod {
    let has = |word: &str| words.split(' ').any(|one| one == word);
    let place: i32 = words.split(' ').next().unwrap().parse().unwrap();
    let mut pod = identity::pod(set, &version(if has("old") { "old" } else { "new" }), place);
    let phase = ["Failed", "Succeeded", "Pending"].into_iter().find(|phase| has(phase)).unwrap_or("Running");
    let ready = has("ready")
        .then(|| json!([{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:59:50Z"}]));
    pod.status = serde_json::from_value(json!({"phase": phase, "conditions": ready})).unwrap();
    if has("going") {
        pod.metadata.deletion_timestamp = Some(serde_json::from_value(json!(NOW)).unwrap());
    }
    if has("unlabelled") {
        pod.metadata.labels = Some([(REVISION.to_owned(), "new".to_owned())].into());
    }
    pod
}

fn planned(change: &Value, pods: &[&str]) -> Plan {
    planned_with(&set(change), pods, &[])
}

fn planned_with(set: &StatefulSet, pods: &[&str], claims: &[PersistentVolumeClaim]) -> Plan {
    let pods: Vec<Pod> = pods.iter().map(|words| pod(set, words)).collect();
    let (current, update) = (version("old"), version("new"));
    let now: Timestamp = NOW.parse().unwrap();
    plan(&Seen { set, current: &current, update: &update, pods: &pods, claims, collisions: Some(0), now })
}

/// The steps in short: `create 0 new`.
fn steps(plan: &Plan) -> String {
    let line = |step: &Step| match step {
        Step::Create(pod) => format!("create {} {}", pod.name_any(), pod.labels()[REVISION]),
        Step::Delete(pod) => format!("delete {}", pod.name_any()),
        Step::Label(pod, _) => format!("label {}", pod.name_any()),
        Step::Claim(claim, pod) => format!("claim {} for {pod}", claim.name_any()),
        Step::Own(claim) => {
            let owners = claim.owner_references().iter().map(|owner| owner.kind.clone()).collect::<Vec<_>>();
            format!("own {} by {}", claim.name_any(), owners.join("+"))
        }
    };
    plan.steps.iter().map(line).collect::<Vec<_>>().join(", ")
}

#[test]
fn places_are_filled_and_emptied_in_order() {
    for (pods, expected) in [
        (&[][..], "create web-0 new"),
        (&["0"], ""),
        (&["0 ready"], "create web-1 new"),
        (&["0 ready", "1 ready", "2 ready"], ""),
        (&["0 ready", "2 ready"], "create web-1 new"),
        (&["0 going ready", "1 ready"], ""),
        (&["0 Failed", "1 ready", "2 ready"], "delete web-0"),
        (&["0 Succeeded", "1 ready", "2 ready"], "delete web-0"),
        (&["0 Failed going", "1 ready"], ""),
        // The last goes first, and one at a time.
        (&["0 ready", "1 ready", "2 ready", "3 ready", "4 ready"], "delete web-4"),
        (&["0 ready", "1 ready", "2 ready", "3 ready", "4 ready going"], ""),
        // Nothing is ended while a place has no healthy pod.
        (&["0 ready", "1", "2 ready", "3 ready"], ""),
        // Of those that ail beyond the places, the first may go.
        (&["0 ready", "1 ready", "2 ready", "3"], "delete web-3"),
        (&["0 ready", "1 ready", "2 ready", "3", "4"], ""),
        (&["0 ready unlabelled", "1 ready", "2 ready"], "label web-0"),
    ] {
        assert_eq!(steps(&planned(&json!({}), pods)), expected, "{pods:?}");
    }
}

#[test]
fn all_at_once_if_order_does_not_matter() {
    let parallel = json!({"podManagementPolicy": "Parallel"});
    for (pods, expected) in [
        (&[][..], "create web-0 new, create web-1 new, create web-2 new"),
        (&["0", "2 going"], "create web-1 new"),
        (&["0 Failed", "1", "2"], "delete web-0"),
        (&["0", "1", "2", "3", "4 going", "5"], "delete web-5, delete web-3"),
        // Updates are one at a time all the same, from the last on.
        (&["0 old ready", "1 old ready", "2 old ready"], "delete web-2"),
        (&["0 old ready", "1 old ready", "2"], ""),
    ] {
        assert_eq!(steps(&planned(&parallel, pods)), expected, "{pods:?}");
    }
}

#[test]
fn an_update_goes_from_the_last_to_the_partition() {
    let at = |partition: i32| json!({"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": partition}}});
    for (partition, pods, expected) in [
        (0, &["0 old ready", "1 old ready", "2 old ready"][..], "delete web-2"),
        (0, &["0 old ready", "1 old ready", "2 ready going"], ""),
        (0, &["0 old ready", "1 old ready"], "create web-2 new"),
        (0, &["0 old ready", "1 old ready", "2"], ""),
        (0, &["0 old ready", "1 old ready", "2 ready"], "delete web-1"),
        (2, &["0 old ready", "1 old ready", "2 old ready"], "delete web-2"),
        (2, &["0 old ready", "1 old ready", "2 ready"], ""),
        // What is lost below the partition comes back as it was.
        (2, &["0 old ready", "2 ready"], "create web-1 old"),
        (3, &["0 old ready", "1 old ready", "2 old ready"], ""),
    ] {
        assert_eq!(steps(&planned(&at(partition), pods)), expected, "{partition}: {pods:?}");
    }
    let on_delete = json!({"updateStrategy": {"type": "OnDelete"}});
    assert_eq!(steps(&planned(&on_delete, &["0 old ready", "1 old ready", "2 old ready"])), "");
    assert_eq!(steps(&planned(&on_delete, &["0 old ready", "2 old ready"])), "create web-1 new");
}

#[test]
fn places_may_start_anywhere() {
    let from_five = json!({"ordinals": {"start": 5}, "replicas": 2});
    assert_eq!(steps(&planned(&from_five, &[])), "create web-5 new");
    assert_eq!(steps(&planned(&from_five, &["5 ready", "6 ready", "0 ready"])), "delete web-0");
    let partitioned =
        json!({"ordinals": {"start": 5}, "replicas": 2, "updateStrategy": {"rollingUpdate": {"partition": 1}}});
    assert_eq!(steps(&planned(&partitioned, &["5 old ready", "6 old ready"])), "delete web-6");
    assert_eq!(steps(&planned(&partitioned, &[])), "create web-5 old");
}

#[test]
fn the_next_pod_waits_until_the_one_before_has_been_ready_for_long_enough() {
    let patient = json!({"minReadySeconds": 30});
    let plan = planned(&patient, &["0 ready"]);
    assert_eq!((steps(&plan).as_str(), plan.again.map(|again| again.as_secs())), ("", Some(20)));
    assert_eq!((plan.status.ready_replicas, plan.status.available_replicas), (Some(1), Some(0)));
    assert_eq!(steps(&planned(&json!({"minReadySeconds": 5}), &["0 ready"])), "create web-1 new");
}

#[test]
fn the_status_counts_versions_and_completes_with_the_last_pod() {
    let halfway = planned(&json!({}), &["0 old ready", "1 old ready", "2 ready"]).status;
    assert_eq!(
        serde_json::to_value(&halfway).unwrap(),
        json!({"replicas": 3, "readyReplicas": 3, "availableReplicas": 3, "currentReplicas": 1, "updatedReplicas": 1,
            "currentRevision": "old", "updateRevision": "new", "collisionCount": 0}),
        "the one that is about to go is not counted"
    );
    let done = planned(&json!({}), &["0 ready", "1 ready", "2 ready"]).status;
    assert_eq!((done.current_revision.as_deref(), done.current_replicas), (Some("new"), Some(3)));
}

#[test]
fn claims_come_before_their_pod_and_go_when_they_should() {
    let with = |policy: Value| {
        set(&json!({"volumeClaimTemplates": [{"metadata": {"name": "data"}}], "replicas": 1,
            "persistentVolumeClaimRetentionPolicy": policy}))
    };
    let keeping = with(json!({}));
    let plan = planned_with(&keeping, &[], &[]);
    assert_eq!(steps(&plan), "claim data-web-0 for web-0, create web-0 new");
    let Step::Claim(claim, _) = plan.steps[0].clone() else { panic!("no claim") };
    assert_eq!(steps(&planned_with(&keeping, &[], std::slice::from_ref(&claim))), "create web-0 new");
    assert_eq!(steps(&planned_with(&keeping, &["0 Pending"], &[])), "claim data-web-0 for web-0", "it was lost");
    let going = with(json!({"whenDeleted": "Delete"}));
    assert_eq!(
        steps(&planned_with(&going, &["0 ready"], std::slice::from_ref(&claim))),
        "own data-web-0 by StatefulSet"
    );
    let mut last = claim.clone();
    last.metadata.name = Some("data-web-1".into());
    let shrinking = with(json!({"whenScaled": "Delete"}));
    assert_eq!(
        steps(&planned_with(&shrinking, &["0 ready", "1 ready"], &[*claim, *last])),
        "own data-web-1 by Pod, delete web-1"
    );
}
