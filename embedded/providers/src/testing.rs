//! What the tests of providers share: objects as the API holds them, with names that no one else has.

use c5c3_api::ext::mariadb::MariaDB;
use c5c3_api::ext::rabbitmq::RabbitmqCluster;
use c5c3_api::ext::rook::CephCluster;
use c5c3_api::ext::valkey::Valkey;
use kube::Resource;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// A MariaDB.
pub(crate) fn mariadb(spec: Value) -> MariaDB {
    object("ledger", "vault", spec)
}

/// A RabbitMQ cluster.
pub(crate) fn cluster(spec: Value) -> RabbitmqCluster {
    object("burrow", "warren", spec)
}

/// A Valkey.
pub(crate) fn valkey(spec: Value) -> Valkey {
    object("larder", "kitchen", spec)
}

/// A Ceph cluster.
pub(crate) fn ceph_cluster(spec: Value) -> CephCluster {
    object("pottery", "clay", spec)
}

#[expect(clippy::needless_pass_by_value, reason = "a test writes it down where it is used")]
pub(crate) fn object<K: Resource<DynamicType = ()> + DeserializeOwned>(name: &str, namespace: &str, spec: Value) -> K {
    let object = json!({
        "apiVersion": K::api_version(&()), "kind": K::kind(&()),
        "metadata": {"name": name, "namespace": namespace, "uid": "0000-1111", "generation": 3},
        "spec": spec,
    });
    serde_json::from_value(object).expect("a test's object is of its kind")
}
