//! What decides whether data outlives a ControlPlane: the Secret of the administrator, the volumes of MariaDB, the keys of Keystone,
//! the policies of services.

use c5c3_api::ext::mariadb::MariaDB;
use c5c3_kit::retention::{Confirmation, Retained};
use c5c3_kit::{KindRef, Ref, Wait};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::Secret;
use serde_json::{Value, json};

use super::infrastructure::ROOT_SECRET;
use super::part::Part;
use super::parts::PARTS;

/// The Secrets that Keystone's operator keeps keys in.
const KEYS: &[&str] = &["keystone-fernet-keys", "keystone-credential-keys"];

/// What `spec.deletionPolicy` means for each child, in a ControlPlane as the API holds it.
pub(super) fn of(object: &Value) -> Vec<Retained> {
    let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
    let keeps = object["spec"]["deletionPolicy"] != "Delete";
    let accounts = PARTS.iter().flat_map(|part| part.accounts.iter().filter_map(|account| account.kept_secret(part)));
    let accounts = accounts.map(|name| secret(namespace, name).kept(keeps));
    accounts.chain(PARTS.iter().flat_map(|part| (part.retention)(part, namespace, keeps))).collect()
}

fn secret(namespace: &str, name: impl Into<String>) -> Retained {
    Retained::new(Ref::namespaced::<Secret>(namespace, name))
}

/// Of a part that has no objects that decide about data.
pub(super) fn nothing(_: &Part, _: &str, _: bool) -> Vec<Retained> {
    Vec::new()
}

/// Of a service: its own policy.
pub(super) fn service(part: &Part, namespace: &str, keeps: bool) -> Vec<Retained> {
    let policy = if keeps { "Retain" } else { "Delete" };
    let Some(KindRef { resource, .. }) = part.kind().filter(|_| part.takes(&["deletionPolicy"])) else {
        return Vec::new();
    };
    let object = Ref { resource, namespace: Some(namespace.to_owned()), name: part.name.to_owned() };
    vec![Retained::new(object).fields(json!({"spec": {"deletionPolicy": policy}}))]
}

pub(super) fn mariadb(_: &Part, namespace: &str, keeps: bool) -> Vec<Retained> {
    let policy = if keeps { Value::Null } else { "Delete".into() };
    let retained = Retained::new(Ref::namespaced::<MariaDB>(namespace, "mariadb"))
        .fields(json!({"spec": {"storage": {"pvcRetentionPolicy": {"whenDeleted": policy}}}}));
    let mariadb = if keeps { retained.confirmed_by(volumes(namespace)) } else { retained };
    vec![secret(namespace, ROOT_SECRET).kept(keeps), mariadb]
}

/// The operator of MariaDB need not carry a change of the policy over to a StatefulSet that is there already.
fn volumes(namespace: &str) -> Confirmation {
    let object = Ref::namespaced::<StatefulSet>(namespace, "mariadb");
    let patch = r#"{"spec":{"persistentVolumeClaimRetentionPolicy":{"whenDeleted":"Retain"}}}"#;
    let wait = Wait::on(&object)
        .condition("keeps its volumes")
        .because("spec.deletionPolicy is Retain, and they would be deleted with it")
        .look_at(format!("kubectl patch statefulset mariadb -n {namespace} --type merge -p '{patch}'"));
    Confirmation { object, unwanted: ("/spec/persistentVolumeClaimRetentionPolicy/whenDeleted", "Delete".into()), wait }
}

pub(super) fn keystone(part: &Part, namespace: &str, keeps: bool) -> Vec<Retained> {
    let follow = |retained: Retained| {
        let keys = KEYS.iter().filter(|_| keeps);
        keys.fold(retained, |retained, name| retained.confirmed_by(key(namespace, name)))
    };
    service(part, namespace, keeps).into_iter().map(follow).collect()
}

fn key(namespace: &str, name: &str) -> Confirmation {
    let object = Ref::namespaced::<Secret>(namespace, name);
    let wait = Wait::on(&object)
        .condition("is retained when keystone/keystone is deleted")
        .because("spec.deletionPolicy is Retain, and the operator of Keystone has not applied it yet")
        .look_at("c5c3 why keystone/keystone");
    Confirmation { object, unwanted: ("/metadata/ownerReferences/0/kind", "Keystone".into()), wait }
}
