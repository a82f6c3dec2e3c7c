//! Plans in full, for objects as people write them.

use c5c3_kit::Plan;
use c5c3_operator_cinder::BlockStorage;
use c5c3_stage::{file, secret, waits};
use serde_json::{Value, json};

pub type World = c5c3_stage::World<BlockStorage>;

/// Everything that a Cinder needs by convention.
pub fn world() -> World {
    let policy = "\"volume:create\": \"role:member\"\n";
    let ceph = [("key", "AQBceph$ecret=="), ("monitors", "192.0.2.1:3300,192.0.2.2:3300"), ("fsid", "1111-2222")];
    World::with_all(vec![
        secret("cinder-ceph-credentials", &ceph),
        secret("keystone-ca", &[("ca.crt", "CA")]),
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "cinder-policy", "namespace": "cloud"},
               "data": {"policy.yaml": policy}}),
        secret(
            "valkey-valkey-binding",
            &[
                ("password", "valkeyword"),
                ("tlsEnabled", "true"),
                ("caData", "CA"),
                ("sentinelHost", "valkey-valkey.cloud.svc.cluster.local"),
                ("sentinelPort", "26379"),
                ("primaryName", "myprimary"),
            ],
        ),
    ])
}

pub fn cinder(spec: &Value) -> Value {
    World::object(spec)
}

/// A spec with one backend on Ceph, and this beside it.
pub fn on_ceph(more: &Value) -> Value {
    let mut spec =
        json!({"backends": [{"name": "fast", "rbd": {"cephSecretRef": {"name": "cinder-ceph-credentials"}}}]});
    c5c3_stage::merge(&mut spec, more);
    cinder(&spec)
}

const SMALL: &str = include_str!("../../../../examples/cinder/cinder-small.yaml");

fn plan(text: &str) -> Plan {
    world().plan(&World::example(text)).unwrap()
}

fn conf(spec: &Value) -> String {
    file(&world().plan(spec).unwrap(), "gate-config", "cinder.conf")
}

#[test]
fn the_plan_of_a_small_cinder() {
    insta::assert_snapshot!(plan(SMALL).golden());
}

#[test]
fn the_files_of_a_small_cinder() {
    let plan = plan(SMALL);
    let files = ["cinder.conf", "api-paste.ini", "uwsgi.ini", "health.json", "health-volume-ceph-rbd.json"];
    let text: Vec<String> = files.map(|name| format!("== {name}\n{}", file(&plan, "gate-config", name))).into();
    insta::assert_snapshot!(text.join("\n"));
}

#[test]
fn no_secret_is_in_anything_but_a_secret() {
    let text = plan(SMALL).golden();
    for value in
        ["db$ecret", "db%24ecret", "app$ecret", "mq$ecret", "mq%24ecret", "ceph$ecret", "ZGIkZWNyZXQ", "YXBwJGVjcmV0"]
    {
        assert!(!text.contains(value), "{value}");
    }
}

#[test]
fn everything_that_is_wrong_is_said_at_once() {
    let name = "a-backend-with-a-name-of-forty-letters-x";
    let wrong = cinder(&json!({
        "volume": {"replicas": 2},
        "coordination": {"secretRef": {"name": "valkey-valkey-binding"}},
        "backends": [{"name": name, "driver": "cinder.volume.drivers.nfs.NfsDriver"}],
        "middleware": [{"name": "audit", "filterFactory": "a:b", "position": {"after": "nowhere"}}],
        "extraConfig": {"DEFAULT": {"enabled_backends": "other"}, name: {"nas_hots": "x"}},
        "policyOverrides": {"rules": {"volume:creat": "role:admin"}},
    }));
    insta::assert_snapshot!(world().plan(&wrong).unwrap_err());
}

#[test]
fn what_is_missing_is_waited_for_by_name() {
    let names =
        ["cinder-db-credentials", "cinder-rabbitmq-credentials", "cinder-ceph-credentials", "rabbitmq", "keystone"];
    let world = names.iter().fold(world(), |world, name| world.without(name)).without("valkey-valkey-binding");
    let object = on_ceph(&json!({"coordination": {"secretRef": {"name": "valkey-valkey-binding"}}}));
    let plan = world.plan(&object).unwrap();
    insta::assert_snapshot!(waits(&plan));
}

#[test]
fn each_backend_has_pods_of_its_own_and_knows_no_other() {
    let object = cinder(&json!({"backends": [
        {"name": "fast", "rbd": {"pool": "ssd", "cephSecretRef": {"name": "cinder-ceph-credentials"}}},
        {"name": "vendor", "driver": "cinder.volume.drivers.vendor.Driver"},
    ], "defaultVolumeType": "vendor"}));
    let plan = world().plan(&object).unwrap();
    let sets: Vec<String> = plan
        .children()
        .filter(|child| child.resource.kind == "StatefulSet")
        .map(|child| child.reference().name)
        .collect();
    assert_eq!(sets, ["gate-scheduler", "gate-volume-fast", "gate-volume-vendor"]);
    let fast = plan
        .children()
        .find(|child| child.reference().name == "gate-volume-fast" && child.resource.kind == "StatefulSet");
    let env = fast.unwrap().object.data["spec"]["template"]["spec"]["containers"][0]["env"].clone();
    assert_eq!(env[0], json!({"name": "OS_DEFAULT__ENABLED_BACKENDS", "value": "fast"}));
    let conf = conf(&object);
    assert!(
        conf.contains("enabled_backends = fast,vendor\n") && conf.contains("default_volume_type = vendor\n"),
        "{conf}"
    );
    assert!(
        conf.contains("rbd_pool = ssd\n") && conf.contains("rbd_ceph_conf = /etc/cinder/ceph-fast.conf\n"),
        "{conf}"
    );
}

#[test]
fn several_volume_pods_are_a_cluster_that_a_valkey_coordinates_and_nothing_without_one() {
    let kind = c5c3_api::find("cinder.openstack.c5c3.io/v1alpha1", "Cinder").unwrap();
    let alone = on_ceph(&json!({"volume": {"replicas": 2}}));
    let refused = kind.check(&alone, None).to_string();
    assert!(refused.contains("without coordination"), "{refused}");
    let together =
        on_ceph(&json!({"volume": {"replicas": 2}, "coordination": {"secretRef": {"name": "valkey-valkey-binding"}}}));
    let plan = world().plan(&together).unwrap();
    let text = plan.golden();
    assert!(text.contains("OS_DEFAULT__CLUSTER") && text.contains("/etc/coordination-tls"), "{text}");
    assert!(!text.contains("valkeyword"));
    let conf = file(&plan, "gate-config", "cinder.conf");
    assert!(
        conf.contains(
            "backend_url = redis://:valkeyword@valkey-valkey.cloud.svc.cluster.local:26379?sentinel=myprimary"
        ),
        "{conf}"
    );
}

#[test]
fn drivers_that_need_a_kernel_are_tried_by_a_job_before_their_pods() {
    let object = cinder(&json!({"backends": [{"name": "archive", "driver": "cinder.volume.drivers.nfs.NfsDriver"}]}));
    let plan = world().plan(&object).unwrap();
    let settings = file(&plan, "gate-kernel", "kernel.json");
    assert!(settings.contains(r#""module":"nfs""#) && settings.contains(r#""program":"mount.nfs""#), "{settings}");
    let step = plan
        .steps
        .iter()
        .find(|step| step.children.iter().any(|child| child.reference().name == "gate-volume-archive"));
    let needs = &step.unwrap().node.as_ref().unwrap().needs;
    assert!(needs.iter().any(|need| *need == "kernel"), "{needs:?}");
}

#[test]
fn users_filters_are_in_the_pipeline_at_their_positions() {
    let audit = json!({"name": "audit", "filterFactory": "keystonemiddleware.audit:filter_factory", "position": {"after": "authtoken"}});
    let plan = world().plan(&cinder(&json!({ "middleware": [audit] }))).unwrap();
    let paste = file(&plan, "gate-config", "api-paste.ini");
    assert!(paste.contains("osprofiler authtoken audit keystonecontext apiv3\n"), "{paste}");
    assert!(paste.contains("/healthcheck = healthcheck\n") && paste.contains("[filter:audit]\n"), "{paste}");
}

/// A Cinder whose API serves, and what it reports.
fn reporting(report: &str, object: &Value) -> Plan {
    let serving = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "gate-api", "namespace": "cloud"},
        "spec": {}, "status": {"availableReplicas": 1}});
    world().with(serving).answering(Ok(report.into())).plan(object).unwrap()
}

#[test]
fn backends_are_in_the_status_with_their_room_and_those_that_are_gone_as_long_as_volumes_use_them() {
    let types = json!({"fast": "Volumes of the backend of this name, made by cinder-operator",
        "old": "Volumes of the backend of this name, made by cinder-operator", "mine": null});
    let report = json!({"up": {"fast": true, "old": false}, "free": {"fast": 87}, "types": types});
    let plan = reporting(&report.to_string(), &on_ceph(&json!({})));
    assert_eq!(
        plan.status["backends"],
        json!([
            {"name": "fast", "status": "Ready", "availableCapacityGb": 87, "conditions": [
                {"type": "CephConnected", "status": "True", "reason": "PoolAccessible", "message": "the Ceph pool can be used",
                 "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 1},
            ]},
            {"name": "old", "status": "Removed: its volume type stays, because volumes use it"},
        ])
    );
    let down = json!({"up": {"fast": false}, "free": {}, "types": types});
    let plan = reporting(&down.to_string(), &on_ceph(&json!({})));
    let waits: Vec<String> = plan.steps.iter().flat_map(|step| &step.waits).map(c5c3_kit::Wait::reason).collect();
    assert!(waits.iter().any(|reason| reason == "BackendDown"), "{waits:?}");
}

/// Two backends on Ceph, one on something else, and backups, with what is known of them.
fn several(status: &Value) -> Value {
    let rbd = |pool: &str| json!({"pool": pool, "cephSecretRef": {"name": "cinder-ceph-credentials"}});
    let mut object = cinder(&json!({"defaultVolumeType": "fast", "backup": rbd("attic"), "backends": [
        {"name": "fast", "rbd": rbd("ssd")}, {"name": "slow", "rbd": rbd("drums")},
        {"name": "vendor", "driver": "cinder.volume.drivers.vendor.Driver"},
    ]}));
    object["status"] = status.clone();
    object
}

/// What a plan says of the connection of each backend: the name, the condition's status, reason and time.
fn connections(plan: &Plan) -> Vec<String> {
    let backends = plan.status["backends"].as_array().unwrap();
    let said = |backend: &Value| {
        let of = |condition: &Value| {
            let text = |field: &str| condition[field].as_str().unwrap_or_default().to_owned();
            assert_eq!(text("type"), "CephConnected");
            [text("status"), text("reason"), text("lastTransitionTime")].join(" ")
        };
        let all: Vec<String> = backend["conditions"].as_array().into_iter().flatten().map(of).collect();
        [vec![backend["name"].as_str().unwrap().to_owned()], all].concat().join(" ")
    };
    backends.iter().map(said).collect()
}

fn answering(answer: Result<&str, &str>, object: &Value) -> Plan {
    let serving = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "gate-api", "namespace": "cloud"},
        "spec": {}, "status": {"availableReplicas": 1}});
    let answer = answer.map(ToOwned::to_owned).map_err(ToOwned::to_owned);
    world().with(serving).answering(answer).plan(object).unwrap()
}

#[test]
fn a_backend_whose_pool_cannot_be_used_is_named_and_the_others_are_connected() {
    let lost = "slow: PoolNotFound: pool drums as client.cinder: error opening pool\n";
    let plan = answering(Err(lost), &several(&json!({})));
    let now = "2026-01-01T00:00:00Z";
    assert_eq!(
        connections(&plan),
        [format!("fast True PoolAccessible {now}"), format!("slow False PoolNotFound {now}"), "vendor".into()]
    );
    let message = &plan.status["backends"][1]["conditions"][0]["message"];
    assert_eq!(message, "PoolNotFound: pool drums as client.cinder: error opening pool");
    let waits = waits(&plan);
    let told: Vec<&str> = waits.lines().filter(|line| line.starts_with("CephConnected: ")).collect();
    assert!(told.len() == 1 && told[0].contains("says of the backend slow: PoolNotFound: pool drums"), "{waits}");
    let backups = answering(Err("cinder.backup: AccessDenied: pool attic as client.cinder: no"), &several(&json!({})));
    assert!(connections(&backups).iter().all(|backend| !backend.contains("False")), "{:?}", connections(&backups));
    assert!(
        waits_of_ceph(&backups).contains("says of backups: AccessDenied: pool attic"),
        "{}",
        waits_of_ceph(&backups)
    );
}

fn waits_of_ceph(plan: &Plan) -> String {
    waits(plan).lines().filter(|line| line.starts_with("CephConnected: ")).collect()
}

#[test]
fn the_connection_of_a_backend_has_the_time_at_which_it_turned_and_is_unknown_while_no_pod_says() {
    let before = |status: &str| {
        let condition = json!({"type": "CephConnected", "status": status, "reason": "Any", "message": "",
            "lastTransitionTime": "2025-12-24T18:00:00Z"});
        several(&json!({"backends": [{"name": "fast", "conditions": [condition]}]}))
    };
    let first = |answer, object: &Value| connections(&answering(answer, object)).remove(0);
    assert_eq!(first(Ok("ready"), &before("True")), "fast True PoolAccessible 2025-12-24T18:00:00Z");
    assert_eq!(first(Ok("ready"), &before("False")), "fast True PoolAccessible 2026-01-01T00:00:00Z");
    let unknown = "fast Unknown NotAnswering 2026-01-01T00:00:00Z";
    assert_eq!(first(Err("no answer within 10 s"), &before("True")), unknown);
    let nobody = world().plan(&several(&json!({}))).unwrap();
    assert_eq!(connections(&nobody)[0], "fast Unknown NotAskedYet 2026-01-01T00:00:00Z");
}
