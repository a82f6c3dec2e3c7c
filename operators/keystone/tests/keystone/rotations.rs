//! Rotations that do not come: when that is said, and when it would be wrong to.

use c5c3_kit::Wait;
use serde_json::{Value, json};

use crate::world::{self, World, keystone, secret};

const SINCE: &str = "keystone.openstack.c5c3.io/primary-since";

/// A world in which the primary of the tokens' keys, rotated every Sunday, is in use since a Thursday.
fn world(now: &'static str) -> World {
    let mut world = world::with_keys(world::world());
    let keys = world.objects.iter_mut().find(|one| one["metadata"]["name"] == "gate-fernet-keys").unwrap();
    keys["metadata"]["annotations"] = json!({SINCE: "1=2026-01-01T00:00:00Z"});
    world.now = now;
    world.with(cron_job(&json!({})))
}

/// What rotates them, with more in its spec. Its status was written just now, as by every run.
fn cron_job(spec: &Value) -> Value {
    let written = json!([
        {"manager": "keystone-operator", "operation": "Apply", "time": "2026-01-01T00:00:00Z", "fieldsV1": {}},
        {"manager": "kube-controller-manager", "operation": "Update", "subresource": "status",
         "time": "2026-02-01T00:00:00Z", "fieldsV1": {}},
    ]);
    let mut cron_job = json!({"apiVersion": "batch/v1", "kind": "CronJob",
        "metadata": {"name": "gate-fernet-rotate", "namespace": "cloud", "creationTimestamp": "2026-01-01T00:00:00Z",
                     "managedFields": written},
        "spec": {"schedule": "0 0 * * 0", "jobTemplate": {}}, "status": {"lastScheduleTime": "2026-01-11T00:00:00Z"}});
    cron_job["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    cron_job
}

fn overdue(world: &World) -> Option<Wait> {
    let plan = world.plan(&keystone(&json!({}))).unwrap();
    let mut waits = plan.steps.iter().filter(|step| step.condition == "FernetKeysReady").flat_map(|step| &step.waits);
    waits.next().cloned()
}

#[test]
fn a_rotation_that_was_missed_twice_is_a_failure_that_names_what_rotates_and_what_to_do() {
    assert_eq!(overdue(&world("2026-01-04T12:00:00Z")), None, "one was missed");
    assert_eq!(overdue(&world("2026-01-11T00:01:00Z")), None, "the second may still run");
    let wait = overdue(&world("2026-01-11T00:15:00Z")).unwrap();
    assert!(wait.failed);
    assert_eq!(wait.reason(), "RotationOverdue");
    assert_eq!(
        wait.message(Some("cloud")),
        "cronjob/gate-fernet-rotate ran last at 2026-01-11T00:00:00Z, and key 1 is the primary since \
         2026-01-01T00:00:00Z; two scheduled runs produced no new key; \
         kubectl describe pods -l app.kubernetes.io/instance=gate,app.kubernetes.io/component=rotate -n cloud; \
         after the cause is fixed: kubectl create job --from=cronjob/gate-fernet-rotate gate-fernet-rotate-by-hand -n cloud"
    );
}

#[test]
fn nothing_else_waits_for_a_rotation_that_is_overdue() {
    let plan = world("2026-02-01T00:00:00Z").plan(&keystone(&json!({}))).unwrap();
    let nodes: Vec<_> = plan.steps.iter().filter_map(|step| step.node.as_ref()).collect();
    assert!(nodes.iter().any(|node| node.name == "rotation"));
    assert!(nodes.iter().all(|node| !node.needs.iter().any(|need| *need == "rotation")), "{nodes:?}");
    let keys = plan.steps.iter().find(|step| step.node.as_ref().is_some_and(|node| node.name == "keys")).unwrap();
    assert!(keys.waits.is_empty() && !keys.children.is_empty());
}

#[test]
fn a_rotation_that_is_suspended_is_said_to_be_and_is_no_failure() {
    let world = world("2026-06-01T00:00:00Z").with(cron_job(&json!({"suspend": true})));
    assert_eq!(overdue(&world), None);
    let plan = world.plan(&keystone(&json!({}))).unwrap();
    assert!(
        plan.steps
            .iter()
            .any(|step| step.done.contains("fernet: 2 keys, the primary is 1; their rotation is suspended"))
    );
}

#[test]
fn keys_that_are_older_than_what_rotates_them_have_their_time() {
    let now = "2026-06-01T00:00:00Z";
    assert_eq!(overdue(&world(now).without("gate-fernet-rotate")), None, "there is none yet");
    for changed in ["/metadata/creationTimestamp", "/metadata/managedFields/0/time"] {
        let mut young = cron_job(&json!({}));
        *young.pointer_mut(changed).unwrap() = "2026-05-30T12:00:00Z".into();
        assert_eq!(overdue(&world(now).with(young)), None, "{changed}");
    }
    assert!(overdue(&world(now)).is_some());
}

#[test]
fn a_rotation_that_comes_is_not_overdue_and_one_that_is_refused_is() {
    let key = |letter: &str| format!("{}=", letter.repeat(43));
    let proposed = |keys: &[(&str, &str)]| secret("gate-fernet-keys-rotation", keys);
    let now = "2026-02-01T00:00:00Z";
    let next = proposed(&[("0", &key("I")), ("1", &key("E")), ("2", &key("A"))]);
    assert_eq!(overdue(&world(now).with(next)), None);
    let wrong = proposed(&[("0", &key("I")), ("1", &key("M"))]);
    assert!(overdue(&world(now).with(wrong)).unwrap().message(None).contains("was refused"));
}

#[test]
fn what_rotates_goes_to_the_nodes_of_the_pods_and_does_not_keep_away_from_them() {
    let nodes = json!({"requiredDuringSchedulingIgnoredDuringExecution":
        {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "Exists"}]}]}});
    let apart = json!({"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "kubernetes.io/hostname"}]});
    let scheduling = json!({"nodeSelector": {"role": "control"}, "tolerations": [{"operator": "Exists"}],
        "affinity": {"nodeAffinity": nodes, "podAntiAffinity": apart}});
    let plan = world::world().plan(&keystone(&json!({"scheduling": scheduling}))).unwrap();
    let cron_jobs: Vec<_> = plan.children().filter(|child| child.resource.kind == "CronJob").collect();
    assert_eq!(cron_jobs.len(), 2);
    for child in cron_jobs {
        let pod = &child.object.data["spec"]["jobTemplate"]["spec"]["template"]["spec"];
        assert_eq!(pod["nodeSelector"], scheduling["nodeSelector"]);
        assert_eq!(pod["tolerations"], scheduling["tolerations"]);
        assert_eq!(pod["affinity"], json!({"nodeAffinity": nodes}));
    }
}
