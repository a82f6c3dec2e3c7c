//! Every object of a plan held against the schema that its API server has.

use std::path::Path;

use c5c3_schema::Schema;
use serde_json::{Value, json};

use crate::paper::{example, issuer, lab, plan, secret, storage_class};

/// The genuine CRD of a kind of another project.
fn genuine(group: &str, plural: &str) -> Option<Schema> {
    let project = match group {
        "k8s.mariadb.com" => "mariadb-operator",
        "rabbitmq.com" => "rabbitmq-cluster-operator",
        "cache.cs.sap.com" => "valkey-operator",
        _ => return None,
    };
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../../shared/crds")
        .join(project)
        .join(format!("{group}_{plural}.yaml"));
    let crd: Value = serde_saphyr::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    Some(Schema::compile(&crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]).unwrap())
}

/// How many objects were checked.
fn check(object: &Value, there: &[Value]) -> usize {
    let mut checked = 0;
    for child in plan(object, there).unwrap().children() {
        let mut value = serde_json::to_value(&child.object).unwrap();
        value["apiVersion"] = child.resource.api_version.clone().into();
        value["kind"] = child.resource.kind.clone().into();
        let problems = if let Some(kind) = c5c3_api::find(&child.resource.api_version, &child.resource.kind) {
            kind.check(&value, None)
        } else if let Some(schema) = genuine(&child.resource.group, &child.resource.plural) {
            schema.check(&value, None)
        } else {
            continue;
        };
        assert!(problems.is_empty(), "{}:\n{problems}\n{value:#}", child.reference());
        checked += 1;
    }
    checked
}

#[test]
fn whatever_is_written_is_accepted_and_loses_nothing() {
    let there = [storage_class("ceph-rbd"), issuer("letsencrypt-prod")];
    assert_eq!(check(&example("controlplane-small.yaml"), &[]), 2);
    assert_eq!(check(&example("controlplane-full.yaml"), &there), 11);
    let mut deleted = example("controlplane-full.yaml");
    deleted["spec"]["deletionPolicy"] = "Delete".into();
    assert_eq!(check(&deleted, &there), 11);
    let brownfield = lab(&json!({
        "infrastructure": {
            "mariadb": {"host": "db.example.org"},
            "rabbitmq": {"clusterRef": {"name": "shared"}},
            "memcached": {"servers": ["cache.example.org:11211"]},
        },
        "services": {"keystone": {}, "glance": {"backend": {"type": "file"}}, "cinder": {}, "neutron": {}},
    }));
    assert_eq!(check(&brownfield, &[secret("keystone-db-credentials", &["username", "password"])]), 4);
}
