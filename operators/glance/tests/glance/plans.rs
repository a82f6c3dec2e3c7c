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

fn rbd(pool: &str) -> Value {
    json!({"pool": pool, "cephSecretRef": {"name": "glance-ceph-credentials"}})
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

/// A kubelet evicts a pod whose volume has outgrown its limit, and the cache grows between two prunings.
#[test]
fn a_full_cache_does_not_evict_its_pod() {
    let cached = json!({"storage": {"backend": "rbd", "rbd": rbd("pictures"), "cache": {"size": "10Gi"}}});
    let text = conf(&cached, "glance-api.conf");
    assert!(text.contains("image_cache_max_size = 10737418240\n"), "{text}");
    let plan = plan(&cached);
    let mut deployments = plan.children().filter(|child| child.resource.kind == "Deployment");
    let volumes = &deployments.next().unwrap().object.data["spec"]["template"]["spec"]["volumes"];
    let cache = volumes.as_array().unwrap().iter().find(|volume| volume["name"] == "cache").unwrap();
    assert_eq!(cache["emptyDir"]["sizeLimit"], "21474836480", "as much again as the cache holds");
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

/// What `CephConnected` says once a pod serves and answered so, a line for each pool.
fn connected(answer: Option<Result<(), &str>>) -> String {
    let serving = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "gate-api", "namespace": "cloud"},
        "spec": {}, "status": {"availableReplicas": 1}});
    let mut world = world().with(serving);
    if let Some(answer) = answer {
        world = world.answering(answer.map(|()| String::new()).map_err(ToOwned::to_owned));
    }
    let stores = json!([{"name": "slow", "rbd": rbd("drums")}]);
    let storage = json!({"backend": "rbd", "rbd": rbd("images"), "stores": stores});
    let plan = world.plan(&glance(&json!({ "storage": storage }))).unwrap();
    let step = plan.steps.iter().find(|step| step.condition == "CephConnected").unwrap();
    let reason = |wait: &c5c3_kit::Wait| format!("{:?}: {}", wait.reason(), wait.message(Some("cloud")));
    let said: Vec<String> = step.waits.iter().map(reason).collect();
    if said.is_empty() { "connected".to_owned() } else { said.join("\n") }
}

#[test]
fn a_pool_that_cannot_be_used_is_told_by_its_reason_and_holds_up_nothing() {
    assert_eq!(connected(Some(Ok(()))), "connected");
    let lost = connected(Some(Err("slow: PoolNotFound: pool drums as client.glance: error opening pool 'drums'\n")));
    assert_eq!(
        lost,
        "\"PoolNotFound\": deployment/gate-api says of the store slow: PoolNotFound: pool drums as client.glance: error \
         opening pool 'drums'; data is stored there"
    );
    let both = connected(Some(Err("rbd: AccessDenied: pool images\nslow: Unreachable: pool drums")));
    let lines: Vec<&str> = both.lines().collect();
    assert!(lines.len() == 2 && lines[0].contains("the store rbd: AccessDenied"), "{both}");
    assert!(lines[1].starts_with("\"Unreachable\"") && lines[1].contains("the store slow"), "{both}");
    // Pods of an earlier version name no store.
    let old = connected(Some(Err("AccessDenied: pool images as client.glance")));
    assert!(
        old.starts_with("\"AccessDenied\": deployment/gate-api says: AccessDenied") && !old.contains('\n'),
        "{old}"
    );
    assert!(connected(Some(Err("no answer within 10 s"))).starts_with("\"NotAnswering\""));
    assert!(connected(None).starts_with("\"NotAskedYet\""));
}
