//! Plans in full, for objects as people write them.

use c5c3_kit::Plan;
use c5c3_operator_placement::Inventory;
use c5c3_stage::{file, secret, waits};
use serde_json::{Value, json};

pub type World = c5c3_stage::World<Inventory>;

/// Everything that a Placement needs by convention.
pub fn world() -> World {
    let policy = "\"placement:usages\": \"role:admin\"\n";
    World::with_all(vec![
        secret("mariadb-ca", &[("ca.crt", "CA")]),
        secret("placement-db-client", &[("tls.crt", "CRT"), ("tls.key", "KEY")]),
        secret("keystone-ca", &[("ca.crt", "CA")]),
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "placement-policy", "namespace": "cloud"},
               "data": {"policy.yaml": policy}}),
        secret("placement-extra-config", &[("config", "[placement]\nallocation_conflict_retry_count = 20\n")]),
    ])
}

pub fn placement(spec: &Value) -> Value {
    World::object(spec)
}

const SMALL: &str = include_str!("../../../../examples/placement/placement-small.yaml");

fn plan(text: &str) -> Plan {
    world().plan(&World::example(text)).unwrap()
}

#[test]
fn the_plan_of_a_small_placement() {
    insta::assert_snapshot!(plan(SMALL).golden());
}

#[test]
fn the_files_of_a_small_placement() {
    let plan = plan(SMALL);
    let files = ["placement.conf", "uwsgi.ini", "entry.json", "health.json"];
    let text: Vec<String> = files.map(|name| format!("== {name}\n{}", file(&plan, "gate-config", name))).into();
    insta::assert_snapshot!(text.join("\n"));
}

#[test]
fn no_secret_is_in_anything_but_a_secret() {
    let text = plan(SMALL).golden();
    for value in ["db$ecret", "db%24ecret", "app$ecret", "ZGIkZWNyZXQ", "YXBwJGVjcmV0"] {
        assert!(!text.contains(value), "{value}");
    }
}

#[test]
fn everything_that_is_wrong_is_said_at_once() {
    let wrong = placement(&json!({
        "extraConfig": {"placement": {"randomise": "true"}, "api": {"auth_strategy": "noauth2"}},
        "policyOverrides": {"rules": {"placement:usage": "role:admin"}},
    }));
    insta::assert_snapshot!(world().plan(&wrong).unwrap_err());
}

#[test]
fn what_is_missing_is_waited_for_by_name() {
    let world =
        world().without("placement-db-credentials").without("placement-keystone-credentials").without("keystone");
    let plan = world.plan(&placement(&json!({}))).unwrap();
    insta::assert_snapshot!(waits(&plan));
}

#[test]
fn clients_are_sent_to_the_address_that_they_can_reach_keystone_at() {
    let uri = |spec: &Value| {
        let keystone = json!({"apiVersion": "keystone.openstack.c5c3.io/v1alpha1", "kind": "Keystone",
            "metadata": {"name": "keystone", "namespace": "cloud"}, "spec": spec,
            "status": {"endpoint": "http://keystone.cloud.svc.cluster.local:5000"}});
        let plan = world().with(keystone).plan(&placement(&json!({}))).unwrap();
        let conf = file(&plan, "gate-config", "placement.conf");
        let line = conf.lines().find_map(|line| line.strip_prefix("www_authenticate_uri = ")).unwrap().to_owned();
        assert!(conf.contains("auth_url = http://keystone.cloud.svc.cluster.local:5000/v3\n"), "{conf}");
        line
    };
    assert_eq!(uri(&json!({})), "http://keystone.cloud.svc.cluster.local:5000/v3");
    let gateway = json!({"parentRef": {"name": "edge"}, "hostname": "id.example.net"});
    assert_eq!(uri(&json!({"gateway": gateway})), "https://id.example.net/v3");
    let bootstrap = json!({"publicEndpoint": "https://clouds.example.net/identity/v3"});
    assert_eq!(uri(&json!({"gateway": gateway, "bootstrap": bootstrap})), "https://clouds.example.net/identity/v3");
}

#[test]
fn a_keystone_with_tls_is_trusted_by_the_authority_of_its_certificate() {
    let tls = json!({"enabled": true, "issuerRef": {"name": "ca"}});
    let keystone = json!({"apiVersion": "keystone.openstack.c5c3.io/v1alpha1", "kind": "Keystone",
        "metadata": {"name": "keystone", "namespace": "cloud"}, "spec": {"tls": tls},
        "status": {"endpoint": "https://keystone.cloud.svc.cluster.local:5000"}});
    let world = world().with(keystone).with(secret("keystone-api-tls", &[("ca.crt", "CA"), ("tls.crt", "C")]));
    let plan = world.plan(&placement(&json!({}))).unwrap();
    let conf = file(&plan, "gate-config", "placement.conf");
    assert!(conf.contains("auth_url = https://keystone.cloud.svc.cluster.local:5000/v3\n"), "{conf}");
    assert!(conf.contains("cafile = /etc/keystone-tls/ca.crt\n"), "{conf}");
    let text = plan.golden();
    assert!(text.contains("\"secretName\": \"keystone-api-tls\""), "{text}");
}
