//! What decides whether data outlives a ControlPlane: the Secrets of accounts, the volumes of MariaDB, the keys of Keystone.

use c5c3_api::ext::mariadb::MariaDB;
use c5c3_api::openstack::Keystone;
use c5c3_kit::retention::{Follow, Retained};
use c5c3_kit::{Ref, Wait};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::Secret;
use serde_json::{Value, json};

use super::accounts::{ADMIN_SECRET, database_secret, queue_secret};
use super::graph::GRAPH;
use super::infrastructure::ROOT_SECRET;

/// The Secrets that Keystone's operator keeps keys in.
const KEYS: &[&str] = &["keystone-fernet-keys", "keystone-credential-keys"];

/// What `spec.deletionPolicy` means for each child, in a ControlPlane as the API holds it.
pub(super) fn of(object: &Value) -> Vec<Retained> {
    let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
    let keeps = object["spec"]["deletionPolicy"] != "Delete";
    let services = GRAPH.iter().flat_map(|node| [database_secret(node.name), queue_secret(node.name)]);
    let secrets = services.chain([ROOT_SECRET, ADMIN_SECRET].map(ToOwned::to_owned));
    let mut all: Vec<Retained> =
        secrets.map(|name| Retained::new(Ref::namespaced::<Secret>(namespace, name)).kept(keeps)).collect();
    all.push(mariadb(namespace, keeps));
    all.push(keystone(namespace, keeps));
    all
}

fn mariadb(namespace: &str, keeps: bool) -> Retained {
    let policy = if keeps { Value::Null } else { "Delete".into() };
    let retained = Retained::new(Ref::namespaced::<MariaDB>(namespace, "mariadb"))
        .fields(json!({"spec": {"storage": {"pvcRetentionPolicy": {"whenDeleted": policy}}}}));
    if keeps { retained.follow(volumes(namespace)) } else { retained }
}

/// The operator of MariaDB need not carry a change of the policy over to a StatefulSet that is there already.
fn volumes(namespace: &str) -> Follow {
    let object = Ref::namespaced::<StatefulSet>(namespace, "mariadb");
    let patch = r#"{"spec":{"persistentVolumeClaimRetentionPolicy":{"whenDeleted":"Retain"}}}"#;
    let wait = Wait::on(&object)
        .condition("keeps its volumes")
        .because("spec.deletionPolicy is Retain, and they would go with it")
        .look_at(format!("kubectl patch statefulset mariadb -n {namespace} --type merge -p '{patch}'"));
    Follow { object, unwanted: ("/spec/persistentVolumeClaimRetentionPolicy/whenDeleted", "Delete".into()), wait }
}

fn keystone(namespace: &str, keeps: bool) -> Retained {
    let policy = if keeps { "Retain" } else { "Delete" };
    let retained = Retained::new(Ref::namespaced::<Keystone>(namespace, "keystone"))
        .fields(json!({"spec": {"deletionPolicy": policy}}));
    let keys = KEYS.iter().filter(|_| keeps);
    keys.fold(retained, |retained, name| retained.follow(key(namespace, name)))
}

fn key(namespace: &str, name: &str) -> Follow {
    let object = Ref::namespaced::<Secret>(namespace, name);
    let wait = Wait::on(&object)
        .condition("stays when keystone/keystone goes")
        .because("spec.deletionPolicy is Retain, and the operator of Keystone has not followed yet")
        .look_at("c5c3 why keystone/keystone");
    Follow { object, unwanted: ("/metadata/ownerReferences/0/kind", "Keystone".into()), wait }
}
