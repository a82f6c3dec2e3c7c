//! Plans in full, for objects as people write them.

use c5c3_kit::Plan;
use c5c3_operator_glance::Images;
use c5c3_stage::{file, secret, waits};
use serde_json::{Value, json};

pub type World = c5c3_stage::World<Images>;

/// Everything that a Glance needs by convention.
pub fn world() -> World {
    let ceph = [("key", "AQCephKey=="), ("monitors", "[v2:192.0.2.1:3300,v1:192.0.2.1:6789]"), ("fsid", "f5")];
    World::with_all(vec![
        secret("glance-ceph-credentials", &ceph),
        secret("glance-s3", &[("AccessKey", "acce$s"), ("SecretKey", "s3cret")]),
    ])
}

pub fn glance(spec: &Value) -> Value {
    World::object(spec)
}

const SMALL: &str = include_str!("../../../../examples/glance/glance-small.yaml");

fn plan(spec: &Value) -> Plan {
    world().plan(&glance(spec)).unwrap()
}

fn conf(spec: &Value, name: &str) -> String {
    file(&plan(spec), "gate-config", name)
}

#[test]
fn the_plan_of_a_small_glance() {
    insta::assert_snapshot!(world().plan(&World::example(SMALL)).unwrap().golden());
}

#[test]
fn the_plan_of_a_glance_in_ceph() {
    insta::assert_snapshot!(plan(&json!({})).golden());
}

/// A Ceph pool, a volume and a bucket, with a cache.
pub fn several() -> Value {
    let bucket = json!({"endpoint": "https://s3.example.net", "bucket": "images", "secretRef": {"name": "glance-s3"}});
    json!({"replicas": 1, "storage": {
        "backend": "rbd", "rbd": {"pool": "pictures", "user": "painter", "cephSecretRef": {"name": "glance-ceph-credentials"}},
        "stores": [{"name": "fast", "file": {"size": "5Gi"}}, {"name": "archive", "s3": bucket}],
        "cache": {"size": "10Gi"}, "stagingSize": "50Gi",
    }})
}

#[test]
fn the_files_of_a_glance_with_several_stores() {
    let names =
        ["glance-api.conf", "glance-api-paste.ini", "ceph-rbd.conf", "ceph-rbd.keyring", "uwsgi.ini", "health.json"];
    let text: Vec<String> = names.map(|name| format!("== {name}\n{}", conf(&several(), name))).into();
    insta::assert_snapshot!(text.join("\n"));
}

#[test]
fn no_secret_is_in_anything_but_a_secret() {
    let text = plan(&several()).golden();
    for value in ["db$ecret", "db%24ecret", "app$ecret", "AQCephKey", "acce$s", "s3cret", "QVFDZXBoS2V5", "czNjcmV0"] {
        assert!(!text.contains(value), "{value}");
    }
}

#[test]
fn everything_that_is_wrong_is_said_at_once() {
    let wrong = glance(&json!({
        "extraConfig": {"DEFAULT": {"enabled_backends": "x:file"}, "glance_store": {"default_backend": "x"}},
        "policyOverrides": {"rules": {"publicise_image": "role:admin"}},
        "middleware": [{"name": "audit", "filterFactory": "a:b", "position": {"after": "authentication"}}],
    }));
    insta::assert_snapshot!(world().plan(&wrong).unwrap_err());
}

#[test]
fn what_is_missing_is_waited_for_by_name() {
    let world = world().without("glance-ceph-credentials").without("glance-s3").without("keystone");
    let plan = world.plan(&glance(&several())).unwrap();
    insta::assert_snapshot!(waits(&plan));
}

#[test]
fn a_filter_is_put_into_the_pipeline_where_it_is_told() {
    let audit = json!({"name": "audit", "filterFactory": "keystonemiddleware.audit:filter_factory",
        "position": {"after": "authtoken"}});
    let file = conf(&json!({"middleware": [audit]}), "glance-api-paste.ini");
    assert!(file.contains("osprofiler authtoken audit context versions\n"), "{file}");
}

#[test]
fn with_tls_nothing_is_imported_that_another_pod_holds() {
    let tls = json!({"tls": {"enabled": true, "issuerRef": {"name": "ca"}}});
    let text = conf(&tls, "glance-api.conf");
    assert!(text.contains("enabled_import_methods = [web-download,copy-image]\n"), "{text}");
    assert!(!plan(&tls).golden().contains("SELF_REFERENCE"));
    assert!(plan(&json!({})).golden().contains("http://$(POD_IP):9292"));
}

#[test]
fn a_volume_of_one_node_is_held_by_one_pod_at_a_time() {
    let strategy = |mode: &str| {
        let spec = json!({"replicas": 1, "storage": {"backend": "file", "file": {"accessMode": mode}}});
        if plan(&spec).golden().contains("\"type\": \"Recreate\"") { "Recreate" } else { "RollingUpdate" }
    };
    assert_eq!(strategy("ReadWriteOnce"), "Recreate");
    assert_eq!(strategy("ReadWriteMany"), "RollingUpdate");
}

#[test]
fn pods_may_reach_the_buckets() {
    let egress = |endpoint: &str| {
        let bucket = json!({"endpoint": endpoint, "bucket": "images", "secretRef": {"name": "glance-s3"}});
        let plan = plan(&json!({"storage": {"backend": "s3", "s3": bucket}}));
        let mut policies = plan.children().filter(|child| child.resource.kind == "NetworkPolicy");
        let policy = policies.find(|policy| policy.object.metadata.name.as_deref() == Some("gate-api")).unwrap();
        policy.object.data["spec"]["egress"].as_array().unwrap().last().cloned().unwrap()
    };
    assert_eq!(egress("https://s3.example.net"), json!({"ports": [{"port": 443, "protocol": "TCP"}]}));
    assert_eq!(
        egress("http://gateway.rook-ceph.svc:8080"),
        json!({
            "ports": [{"port": 1, "endPort": 65535, "protocol": "TCP"}],
            "to": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "rook-ceph"}}}],
        })
    );
}

/// What `CephConnected` says once a pod serves and answered so.
fn connected(answer: Option<Result<(), &str>>) -> String {
    let serving = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "gate-api", "namespace": "cloud"},
        "spec": {}, "status": {"availableReplicas": 1}});
    let mut world = world().with(serving);
    if let Some(answer) = answer {
        world = world.answering(answer.map(|()| String::new()).map_err(ToOwned::to_owned));
    }
    let plan = world.plan(&glance(&json!({}))).unwrap();
    let step = plan.steps.iter().find(|step| step.condition == "CephConnected").unwrap();
    let reason = |wait: &c5c3_kit::Wait| format!("{:?}: {}", wait.reason(), wait.message(Some("cloud")));
    step.waits.first().map_or_else(|| "connected".to_owned(), reason)
}

#[test]
fn a_pool_that_cannot_be_used_is_told_by_its_reason_and_holds_up_nothing() {
    assert_eq!(connected(Some(Ok(()))), "connected");
    let lost = connected(Some(Err("PoolNotFound: pool images as client.glance: error opening pool 'images'")));
    assert!(lost.starts_with("\"PoolNotFound\"") && lost.contains("client.glance"), "{lost}");
    assert!(connected(Some(Err("AccessDenied: pool images"))).starts_with("\"AccessDenied\""));
    assert!(connected(Some(Err("no answer within 10 s"))).starts_with("\"NotAnswering\""));
    assert!(connected(None).starts_with("\"NotAskedYet\""));
}
