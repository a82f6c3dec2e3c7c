//! What `status` and `why` print for clusters on paper, one for each way in which a ControlPlane fails.

use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};

use super::world::{Object, World};
use super::{cause, overview, text};

/// A cluster that holds these objects.
pub(crate) fn world(objects: Vec<Value>) -> World {
    let objects = objects.into_iter().map(|value| {
        let (version, kind) = (value["apiVersion"].as_str().unwrap(), value["kind"].as_str().unwrap());
        let (group, version) = version.split_once('/').unwrap_or(("", version));
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        Object::new(&resource, value).unwrap()
    });
    World {
        unready: None,
        objects: objects.collect(),
        logs: [(
            "cellar/keystone-db-sync-0/sync".to_owned(),
            "starting\nAccess denied for user 'keystone'\n".to_owned(),
        )]
        .into(),
        unread: Vec::new(),
        now: "2026-01-01T00:02:14Z".parse().unwrap(),
    }
}

pub(super) fn why(objects: Vec<Value>) -> String {
    let world = world(objects);
    text(&cause::trees(&world, &cause::unasked(&world)), &world)
}

fn status(objects: Vec<Value>) -> String {
    let world = world(objects);
    text(&overview(&world), &world)
}

/// An object; `owner` is the uid of what it belongs to, and every object's uid is its name with its kind before it.
pub(crate) fn object(version: &str, kind: &str, name: &str, owner: &str, rest: &Value) -> Value {
    let mut object = json!({"apiVersion": version, "kind": kind, "metadata": {
        "name": name, "namespace": "cellar", "generation": 1, "uid": format!("{}-{name}", kind.to_lowercase())}});
    if !owner.is_empty() {
        object["metadata"]["ownerReferences"] = json!([{"uid": owner, "controller": true}]);
    }
    for (field, value) in rest.as_object().unwrap() {
        object[field] = value.clone();
    }
    object
}

pub(super) fn not_ready(reason: &str, message: &str) -> Value {
    json!({"type": "Ready", "status": "False", "reason": reason, "message": message,
           "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 1})
}

/// A ControlPlane that waits for these.
pub(super) fn lab(waits: &Value) -> Value {
    let rest = json!({
        "spec": {"infrastructure": {"mariadb": {"storageClass": "gold"}}, "services": {"keystone": {}}},
        "status": {"phase": "Infrastructure", "waitingFor": waits, "conditions": [not_ready("WaitingForMariaDB", "waiting")],
                   "services": {"mariadb": {"ready": false}, "keystone": {"ready": false, "message": "does not exist yet"}}},
    });
    object("c5c3.io/v1alpha1", "ControlPlane", "lab", "", &rest)
}

fn mariadb() -> Value {
    let rest = json!({"spec": {"storage": {"storageClassName": "gold"}},
        "status": {"conditions": [not_ready("StatefulSetNotReady", "0 of 1 ready")]}});
    object("k8s.mariadb.com/v1alpha1", "MariaDB", "mariadb", "controlplane-lab", &rest)
}

pub(super) fn waits_for(object: &str) -> Value {
    json!([{"object": object, "condition": "Ready"}])
}

fn stateful_set() -> Value {
    let rest =
        json!({"spec": {"replicas": 1}, "status": {"observedGeneration": 1, "replicas": 1, "updatedReplicas": 1}});
    object("apps/v1", "StatefulSet", "mariadb", "mariadb-mariadb", &rest)
}

fn pod(name: &str, owner: &str, rest: &Value) -> Value {
    object("v1", "Pod", name, owner, rest)
}

fn keystone(waits: &Value) -> Value {
    let rest = json!({
        "spec": {"image": {"repository": "ghcr.io/c5c3/keystone", "tag": "99.0.0"}},
        "status": {"waitingFor": waits, "conditions": [
            not_ready("WaitingForJob", "waiting"),
            {"type": "DatabaseReady", "status": "False", "reason": "WaitingForJob"}]},
    });
    object("keystone.openstack.c5c3.io/v1alpha1", "Keystone", "keystone", "controlplane-lab", &rest)
}

#[test]
fn a_run_of_tests_whose_image_cannot_be_pulled() {
    let ready = json!({"type": "Ready", "status": "True", "observedGeneration": 1});
    let tempest = json!({"status": {"activeJob": "smoke-run-1", "observedGeneration": 1, "conditions": [ready]}});
    let waiting = json!({"reason": "ImagePullBackOff", "message": "not found"});
    let container = json!({"name": "tempest", "image": "ghcr.io/c5c3/tempest:45.0.0", "state": {"waiting": waiting}});
    let world = world(vec![
        object("tempest.openstack.c5c3.io/v1alpha1", "Tempest", "smoke", "", &tempest),
        object("batch/v1", "Job", "smoke-run-1", "tempest-smoke", &json!({"status": {"active": 1}})),
        pod(
            "smoke-run-1-x",
            "job-smoke-run-1",
            &json!({"status": {"phase": "Pending", "containerStatuses": [container]}}),
        ),
    ]);
    let asked: Vec<&Object> = world.of_kind("Tempest").collect();
    let told = text(&cause::trees(&world, &asked), &world);
    assert!(told.contains("its run does not start") && told.contains("ghcr.io/c5c3/tempest:45.0.0"), "{told}");
}

#[test]
fn a_storage_class_that_is_not_there() {
    let claim = json!({"spec": {"storageClassName": "gold"}, "status": {"phase": "Pending"}});
    let event = json!({"involvedObject": {"kind": "PersistentVolumeClaim", "name": "storage-mariadb-0"}, "type": "Warning",
        "reason": "ProvisioningFailed", "message": "storageclass.storage.k8s.io \"gold\" not found",
        "lastTimestamp": "2026-01-01T00:01:00Z"});
    let unscheduled = json!({
        "spec": {"volumes": [{"persistentVolumeClaim": {"claimName": "storage-mariadb-0"}}]},
        "status": {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
            "message": "0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims."}]},
    });
    let objects = vec![
        lab(&waits_for("mariadb/mariadb")),
        mariadb(),
        stateful_set(),
        pod("mariadb-0", "statefulset-mariadb", &unscheduled),
        object("v1", "PersistentVolumeClaim", "storage-mariadb-0", "", &claim),
        object("v1", "Event", "storage-mariadb-0.1", "", &event),
    ];
    insta::assert_snapshot!("why_storage_class", why(objects.clone()));
    insta::assert_snapshot!("status_storage_class", status(objects));
}

#[test]
fn a_secret_that_is_not_there() {
    let wait = json!([{"object": "secret/boss", "condition": "exists",
        "because": "spec.identity.keystone.bootstrap.adminUser.passwordSecretRef names it (does not exist)",
        "lookAt": "create it with the keys password: kubectl create secret generic boss"}]);
    insta::assert_snapshot!(why(vec![lab(&wait)]));
}

#[test]
fn keys_that_are_no_longer_rotated() {
    let wait = json!([{"object": "cronjob/keystone-fernet-rotate", "condition": "makes a new key",
        "because": "two scheduled runs produced no new key (1 is the primary since 2025-12-01T00:00:00Z)",
        "lookAt": "kubectl describe pods -l app.kubernetes.io/component=rotate -n openstack"}]);
    let text = why(vec![lab(&waits_for("keystone/keystone")), keystone(&wait)]);
    for said in ["cronjob/keystone-fernet-rotate", "two scheduled runs produced no new key", "kubectl describe pods"] {
        assert!(text.contains(said), "{text}");
    }
}

#[test]
fn a_database_that_cannot_be_reached() {
    let ended = json!({"status": {"phase": "Failed", "containerStatuses": [{
        "name": "sync", "image": "ghcr.io/c5c3/keystone:28.0.0", "restartCount": 0,
        "state": {"terminated": {"exitCode": 1, "reason": "Error"}}}]}});
    let job = json!({"status": {"failed": 3, "conditions": [{"type": "Failed", "status": "True",
        "message": "Job has reached the specified backoff limit"}]}});
    let objects = vec![
        lab(&waits_for("keystone/keystone")),
        keystone(&json!([{"object": "job/keystone-db-sync", "condition": "Complete"}])),
        object("batch/v1", "Job", "keystone-db-sync", "keystone-keystone", &job),
        pod("keystone-db-sync-0", "job-keystone-db-sync", &ended),
    ];
    insta::assert_snapshot!(why(objects));
}

#[test]
fn an_image_that_is_not_there() {
    let image = "ghcr.io/c5c3/keystone:99.0.0";
    let pulling = json!({"spec": {"containers": [{"name": "keystone", "image": image}]}, "status": {"phase": "Pending",
        "containerStatuses": [{"name": "keystone", "image": image, "restartCount": 0, "state": {"waiting": {
            "reason": "ImagePullBackOff", "message": "Back-off pulling image"}}}]}});
    let deployment =
        json!({"spec": {"replicas": 1}, "status": {"observedGeneration": 1, "replicas": 1, "updatedReplicas": 1}});
    let objects = vec![
        lab(&waits_for("keystone/keystone")),
        keystone(&json!([{"object": "deployment/keystone", "condition": "Available"}])),
        object("apps/v1", "Deployment", "keystone", "keystone-keystone", &deployment),
        object("apps/v1", "ReplicaSet", "keystone-1", "deployment-keystone", &json!({"spec": {"replicas": 1}})),
        pod("keystone-1-x", "replicaset-keystone-1", &pulling),
    ];
    insta::assert_snapshot!("why_image", why(objects.clone()));
    insta::assert_snapshot!("status_image", status(objects));
}

#[test]
fn a_spec_that_is_wrong() {
    let mut lab = lab(&json!([]));
    lab["status"]["conditions"] = json!([not_ready(
        "InvalidSpec",
        "spec.infrastructure.mariadb.replicas: is even, so two halves can block each other; use an odd number such as 1, 3 or 5"
    )]);
    insta::assert_snapshot!("why_invalid", why(vec![lab.clone()]));
    insta::assert_snapshot!("status_invalid", status(vec![lab]));
}

#[test]
fn an_operator_that_does_not_run() {
    let silent = object("k8s.mariadb.com/v1alpha1", "MariaDB", "mariadb", "controlplane-lab", &json!({"spec": {}}));
    insta::assert_snapshot!(why(vec![lab(&waits_for("mariadb/mariadb")), silent]));
}

#[test]
fn a_container_that_ends_again_and_again() {
    let looping = json!({"status": {"phase": "Running", "containerStatuses": [{
        "name": "mariadb", "image": "x", "restartCount": 4, "lastState": {"terminated": {"exitCode": 137}},
        "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 1m20s restarting"}}}]}});
    let objects = vec![
        lab(&waits_for("mariadb/mariadb")),
        mariadb(),
        stateful_set(),
        pod("mariadb-0", "statefulset-mariadb", &looping),
    ];
    insta::assert_snapshot!(why(objects));
}

#[test]
fn what_is_ready_needs_no_explanation() {
    let ready = json!({"status": {"phase": "Ready", "services": {"keystone": {"ready": true}}, "conditions": [{"type": "Ready",
        "status": "True", "reason": "AllServicesReady", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}});
    let keystone_ready = json!({"status": {"endpoint": "http://keystone.cellar.svc:5000",
        "conditions": [{"type": "Ready", "status": "True"}]}});
    let objects = vec![
        object("c5c3.io/v1alpha1", "ControlPlane", "lab", "", &ready),
        object("keystone.openstack.c5c3.io/v1alpha1", "Keystone", "keystone", "controlplane-lab", &keystone_ready),
    ];
    assert_eq!(why(objects.clone()), "");
    insta::assert_snapshot!(status(objects));
}

#[test]
fn waits_that_lead_in_a_circle_end() {
    let objects = vec![
        lab(&waits_for("keystone/keystone")),
        keystone(&json!([{"object": "controlplane/lab", "condition": "Ready", "lookAt": "c5c3 why"}])),
    ];
    insta::assert_snapshot!(why(objects));
}

#[test]
fn a_server_that_cannot_write_is_told_of_before_all_else() {
    let mut world = world(vec![lab(&waits_for("keystone/keystone"))]);
    world.unready = Some("[-]store failed: the log cannot be written: No space left on device".to_owned());
    let text = text(&overview(&world), &world);
    let first = "the API server is not ready:\n[-]store failed: the log cannot be written: No space left on device\n\n";
    assert!(text.starts_with(first) && text.len() > first.len(), "{text}");
}

#[test]
fn an_image_of_a_release_is_imported_and_not_named_on_an_object_that_is_written_back() {
    let image = "ghcr.io/c5c3/keystone:29.0.0";
    let pulling = json!({"spec": {"containers": [{"name": "keystone", "image": image}]}, "status": {"phase": "Pending",
        "containerStatuses": [{"name": "keystone", "image": image, "restartCount": 0, "state": {"waiting": {
            "reason": "ImagePullBackOff", "message": "Back-off pulling image"}}}]}});
    let mut lab = lab(&waits_for("pod/keystone-1-x"));
    lab["spec"]["openStackRelease"] = json!("2026.1");
    let text = why(vec![lab, pod("keystone-1-x", "", &pulling)]);
    assert!(text.contains("spec.openStackRelease of controlplane/lab (2026.1) chooses it"), "{text}");
    assert!(text.contains("c5c3 image import keystone --release 2026.1"), "{text}");
}

#[test]
fn a_service_that_is_switched_off_is_told_with_the_field_that_does_so() {
    let mut lab = lab(&waits_for("keystone/keystone"));
    lab["spec"]["services"]["keystone"]["replicas"] = json!(0);
    let off = json!({"spec": {"replicas": 0}, "status": {"observedGeneration": 1}});
    let text = why(vec![
        lab,
        keystone(&json!([{"object": "deployment/keystone", "condition": "Available"}])),
        object("apps/v1", "Deployment", "keystone", "keystone-keystone", &off),
    ]);
    assert!(text.contains("is scaled to 0 replicas"), "{text}");
    assert!(text.contains("spec.services.keystone.replicas of controlplane/lab is 0: set it to 1 or more"), "{text}");
}

#[test]
fn events_of_an_earlier_pod_of_the_same_name_are_not_told() {
    let event = |uid: &str| {
        let about = json!({"kind": "Pod", "name": "mariadb-0", "uid": uid});
        let rest =
            json!({"involvedObject": about, "type": "Warning", "reason": "FailedMount", "message": "no such secret"});
        object("v1", "Event", "mariadb-0.1", "", &rest)
    };
    let told = |uid: &str| {
        let starting = json!({"status": {"phase": "Pending"}});
        let pod = pod("mariadb-0", "statefulset-mariadb", &starting);
        why(vec![lab(&waits_for("mariadb/mariadb")), mariadb(), stateful_set(), pod, event(uid)])
            .contains("FailedMount")
    };
    assert!(told("pod-mariadb-0") && !told("another"));
}

#[test]
fn a_pod_that_starts_is_not_called_unhealthy() {
    let event = json!({"involvedObject": {"kind": "Pod", "name": "mariadb-0"}, "type": "Warning", "reason": "Unhealthy",
        "message": "Startup probe failed: connection refused"});
    let starting = json!({"status": {"phase": "Running", "containerStatuses": [{"name": "mariadb", "started": false,
        "restartCount": 0, "state": {"running": {"startedAt": "2026-01-01T00:02:11Z"}}}]}});
    let text = why(vec![
        lab(&waits_for("mariadb/mariadb")),
        mariadb(),
        stateful_set(),
        pod("mariadb-0", "statefulset-mariadb", &starting),
        object("v1", "Event", "mariadb-0.1", "", &event),
    ]);
    assert!(text.contains("starting for 3s") && !text.contains("Unhealthy"), "{text}");
}

#[test]
fn a_database_out_of_reach_is_named_with_the_policy_that_selects_it() {
    let policy = |name: &str, owner: &str| {
        let spec = json!({"spec": {"podSelector": {"matchLabels": {"app": "mariadb"}}, "policyTypes": ["Ingress"]}});
        object("networking.k8s.io/v1", "NetworkPolicy", name, owner, &spec)
    };
    let ready = json!({"conditions": [{"type": "Ready", "status": "True"}]});
    let database =
        object("k8s.mariadb.com/v1alpha1", "MariaDB", "mariadb", "controlplane-lab", &json!({"status": ready}));
    let mut server = pod(
        "mariadb-0",
        "mariadb-mariadb",
        &json!({"status": {"phase": "Running", "conditions": ready["conditions"]}}),
    );
    server["metadata"]["labels"] = json!({"app": "mariadb"});
    let mut keystone = keystone(&waits_for("pod/keystone-1-x"));
    keystone["spec"]["database"] = json!({"clusterRef": {"name": "mariadb"}});
    let event = json!({"involvedObject": {"kind": "Pod", "name": "keystone-1-x"}, "type": "Warning", "reason": "Unhealthy",
        "message": "Readiness probe failed: HTTP probe failed with statuscode: 503"});
    let text = why(vec![
        lab(&waits_for("keystone/keystone")),
        keystone,
        pod("keystone-1-x", "", &json!({"status": {"phase": "Running"}})),
        object("v1", "Event", "keystone-1-x.1", "", &event),
        database,
        server,
        policy("deny-db", ""),
        policy("mariadb", "mariadb-mariadb"),
    ]);
    assert!(text.contains("look whether it reaches its database, mariadb/mariadb on port 3306"), "{text}");
    assert!(text.contains("networkpolicy/deny-db selects pod/mariadb-0"), "{text}");
    assert!(!text.contains("networkpolicy/mariadb "), "ours lets in whom it should: {text}");
}

#[test]
fn a_container_that_ran_out_of_memory_is_told_so() {
    let killed = json!({"spec": {"containers": [{"name": "mariadb", "resources": {"limits": {"memory": "20Mi"}}}]},
        "status": {"phase": "Running", "containerStatuses": [{"name": "mariadb", "restartCount": 4,
            "lastState": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}, "state": {"running": {}}}]}});
    let text = why(vec![
        lab(&waits_for("mariadb/mariadb")),
        mariadb(),
        stateful_set(),
        pod("mariadb-0", "statefulset-mariadb", &killed),
    ]);
    assert!(text.contains("used more memory than its limit, 20Mi: raise resources.limits.memory"), "{text}");
}

#[test]
fn objects_without_a_control_plane_and_nodes_that_are_down_are_shown() {
    let aggregate = object(
        "c5c3.io/v1alpha1",
        "SecretAggregate",
        "copy",
        "",
        &json!({"status": {"conditions": [
        not_ready("SourceMissing", "secret/queue-user not found")]}}),
    );
    let mut node = object(
        "v1",
        "Node",
        "node-2",
        "",
        &json!({"status": {"conditions": [
        {"type": "Ready", "status": "Unknown", "message": "Kubelet stopped posting node status."}]}}),
    );
    node["metadata"]["namespace"] = Value::Null;
    let text = status(vec![aggregate, node]);
    assert!(text.contains("secretaggregate/copy in cellar") && text.contains("queue-user not found"), "{text}");
    assert!(text.contains("✗ node/node-2") && text.contains("Kubelet stopped posting"), "{text}");
}

#[test]
fn a_tree_is_a_value_too() {
    let world = world(vec![lab(&waits_for("mariadb/mariadb")), mariadb()]);
    let value = overview(&world)[0].json();
    assert_eq!((&value["state"], &value["object"]), (&json!("Waiting"), &json!("controlplane/lab in cellar")));
    assert_eq!(value["children"][0]["object"], "mariadb/mariadb");
}

#[test]
fn a_control_plane_that_asks_for_nothing_and_a_backup_that_is_not_written_are_told() {
    let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True", "observedGeneration": 1}]}});
    let told = status(vec![object("c5c3.io/v1alpha1", "ControlPlane", "lab", "", &ready)]);
    assert!(told.contains("✓ controlplane/lab") && told.contains("add spec.services.keystone"), "{told}");
    let world = world(vec![object("c5c3.io/v1alpha1", "ControlPlane", "lab", "", &ready)]);
    let told = super::overview::idle(&super::cause::unasked(&world));
    assert!(told[0].render().contains("add spec.services.keystone"), "{}", told[0].render());

    let keystone = object("keystone.openstack.c5c3.io/v1alpha1", "Keystone", "keystone", "", &ready);
    let failed = json!({"status": {"conditions": [not_ready("Errored", "could not get SecretStore \"nowhere\"")]}});
    let push = object(
        "external-secrets.io/v1alpha1",
        "PushSecret",
        "keystone-fernet-keys-backup",
        "keystone-keystone",
        &failed,
    );
    let told = status(vec![keystone, push]);
    assert!(told.contains("✓ keystone/keystone") && told.contains("not backed up: "), "{told}");
    assert!(told.contains("spec.secretStoreRef of keystone/keystone names the store"), "{told}");
}

/// A ControlPlane that asks MariaDB for this, and the pod of it that is like this.
fn why_of_pod(spec: &Value, rest: &Value) -> String {
    let mut plane = lab(&waits_for("mariadb/mariadb"));
    plane["spec"] = json!({"infrastructure": {"mariadb": spec}});
    let claim = object(
        "v1",
        "PersistentVolumeClaim",
        "storage-mariadb-0",
        "statefulset-mariadb",
        &json!({"status": {"phase": "Pending"}}),
    );
    why(vec![plane, mariadb(), stateful_set(), pod("mariadb-0", "statefulset-mariadb", rest), claim])
}

#[test]
fn a_pod_that_fits_no_node_is_told_with_the_field_and_its_claim_is_not_blamed() {
    let unscheduled = |message: &str, requests: &Value| {
        json!({"spec": {"containers": [{"name": "mariadb", "resources": {"requests": requests}}],
                "volumes": [{"persistentVolumeClaim": {"claimName": "storage-mariadb-0"}}]},
            "status": {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "message": message}]}})
    };
    let requests = json!({"memory": "10Ti"});
    let text = why_of_pod(
        &json!({"resources": {"requests": requests}}),
        &unscheduled("0/1 nodes are available: 1 Insufficient memory.", &requests),
    );
    let field = "spec.infrastructure.mariadb.resources.requests.memory of controlplane/lab";
    assert!(text.contains(&format!("{field} requests more memory than any node has free: lower it")), "{text}");
    assert!(!text.contains("persistentvolumeclaim"), "{text}");
    let text = why_of_pod(
        &json!({"scheduling": {"nodeSelector": {"disk": "gold"}}}),
        &unscheduled("0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector.", &json!({})),
    );
    let field = "spec.infrastructure.mariadb.scheduling.nodeSelector of controlplane/lab";
    assert!(text.contains(&format!("{field} fits no node: correct it, or label a node")), "{text}");
}

#[test]
fn a_service_that_is_switched_off_while_its_pods_start_is_told_with_the_field_that_does_so() {
    let off = json!({"spec": {"replicas": 0}, "status": {"observedGeneration": 1}});
    let starting = json!({"status": {"phase": "Running"}});
    let mut plane = lab(&waits_for("deployment/keystone-api"));
    plane["spec"] = json!({"services": {"keystone": {"replicas": 0}}});
    let text = why(vec![
        plane,
        object("apps/v1", "Deployment", "keystone-api", "controlplane-lab", &off),
        pod("keystone-api-1", "deployment-keystone-api", &starting),
    ]);
    assert!(text.contains("spec.services.keystone.replicas of controlplane/lab is 0: set it to 1 or more"), "{text}");
}

#[test]
fn a_ceph_that_is_not_well_is_told_and_a_warning_is_no_failure() {
    let with_health = |health: &str| {
        let status = json!({"phase": "Ready", "ceph": {"health": health, "details": {
            "OSD_DOWN": {"message": "1 osds down", "severity": "HEALTH_WARN"}}}});
        let ceph = object("ceph.rook.io/v1", "CephCluster", "kiln", "", &json!({"spec": {}, "status": status}));
        world(vec![lab(&json!([])), ceph])
    };
    let world = with_health("HEALTH_WARN");
    assert!(text(&overview(&world), &world).contains("HEALTH_WARN: OSD_DOWN: 1 osds down"));
    let ceph = |world: &World| overview(world).pop().unwrap();
    assert!(ceph(&world).is_ready() && !ceph(&with_health("HEALTH_ERR")).is_ready());
    assert_eq!(overview(&with_health("HEALTH_OK")).len(), 1);
}
