//! What decides whether keys outlive a Keystone: the owners of their Secrets, and whether a backup goes with what made it.

use c5c3_kit::Ref;
use c5c3_kit::retention::Retained;
use c5c3_service::Instance;
use c5c3_service::backup::Store;
use k8s_openapi::api::core::v1::Secret;
use serde_json::Value;

use crate::parts::SERVICE;
use crate::rotation::{PURPOSES, secret};

/// What `spec.deletionPolicy` means for each child, in a Keystone as the API holds it.
pub(crate) fn of(object: &Value) -> Vec<Retained> {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
    let instance = Instance { service: SERVICE, name: text("name"), namespace: text("namespace") };
    let keeps = object["spec"]["deletionPolicy"] != "Delete";
    let of_purpose = |purpose: &&str| {
        let secret = secret(&instance, purpose);
        let backup = Store::retention(&instance, &secret, keeps);
        [Retained::new(Ref::namespaced::<Secret>(&instance.namespace, secret)).kept(keeps), backup]
    };
    PURPOSES.iter().flat_map(of_purpose).collect()
}
