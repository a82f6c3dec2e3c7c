//! Every object of a plan held against the schema that its API server has.

use c5c3_kit::testing::schemas;
use serde_json::{Value, json};

use crate::paper::{example, issuer, lab, plan, secret, storage_class};

/// How many objects were checked.
fn check(object: &Value, there: &[Value]) -> usize {
    let mut checked = 0;
    for child in plan(object, there).unwrap().children() {
        let Some(problems) = schemas::problems(child) else { continue };
        assert!(problems.is_empty(), "{}:\n{}\n{:#}", child.reference(), problems.join("\n"), child.object.data);
        checked += 1;
    }
    checked
}

#[test]
fn whatever_is_written_is_accepted_and_loses_nothing() {
    let there = [storage_class("ceph-rbd"), issuer("letsencrypt-prod")];
    assert_eq!(check(&example("controlplane-small.yaml"), &[]), 4);
    assert_eq!(check(&example("controlplane-full.yaml"), &there), 82);
    let mut deleted = example("controlplane-full.yaml");
    deleted["spec"]["deletionPolicy"] = "Delete".into();
    assert_eq!(check(&deleted, &there), 82);
    let brownfield = lab(&json!({
        "infrastructure": {
            "mariadb": {"host": "db.example.org"},
            "rabbitmq": {"clusterRef": {"name": "shared"}},
            "memcached": {"servers": ["cache.example.org:11211"]},
        },
        "services": {"keystone": {}, "glance": {"backend": {"type": "file"}}, "cinder": {}, "neutron": {}},
    }));
    assert_eq!(check(&brownfield, &[secret("keystone-db-credentials", &["username", "password"])]), 39);
}
