//! The plans as text.

use serde_json::json;

use crate::paper::{example, issuer, lab, plan, secret, storage_class};

#[test]
fn a_small_control_plane() {
    insta::assert_snapshot!(plan(&example("controlplane-small.yaml"), &[]).unwrap().golden());
}

#[test]
fn a_full_control_plane() {
    let there =
        [storage_class("ceph-rbd"), issuer("letsencrypt-prod"), secret("keystone-admin-credentials", &["password"])];
    insta::assert_snapshot!(plan(&example("controlplane-full.yaml"), &there).unwrap().golden());
}

#[test]
fn a_control_plane_on_servers_that_exist_already() {
    let spec = json!({
        "infrastructure": {
            "mariadb": {"host": "db.example.org", "port": 3307, "tls": {"caSecretRef": {"name": "db-ca"}}},
            "rabbitmq": {"hosts": ["mq-0.example.org:5671"]},
            "memcached": {"servers": ["cache-0.example.org:11211", "cache-1.example.org:11211"]},
        },
        "services": {"keystone": {"replicas": 2}, "neutron": {}},
    });
    let there = [
        secret("keystone-db-credentials", &["username", "password"]),
        secret("neutron-db-credentials", &["username", "password"]),
        secret("neutron-rabbitmq-credentials", &["username", "password"]),
    ];
    insta::assert_snapshot!(plan(&lab(&spec), &there).unwrap().golden());
}

#[test]
fn a_control_plane_on_a_mariadb_object_that_exists_already() {
    let spec = json!({
        "infrastructure": {"mariadb": {"clusterRef": {"name": "shared", "namespace": "databases"}}},
        "services": {"keystone": {}},
    });
    insta::assert_snapshot!(plan(&lab(&spec), &[]).unwrap().golden());
}
