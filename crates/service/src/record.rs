//! The version that a database has the schema of, and how far an upgrade is, where both outlive a status.
//!
//! A status can be lost: a restored backup and `kubectl replace` drop it. A ConfigMap beside the object keeps the same
//! three values, so that no release is installed over a newer one's schema. It stays with the data, when that stays.

use c5c3_kit::{Child, Inputs, Ref};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Resource;

use crate::instance::Instance;
use crate::upgrade::Progress;

/// The ConfigMap of an instance.
pub fn reference(instance: &Instance) -> Ref {
    Ref::namespaced::<ConfigMap>(&instance.namespace, name(instance))
}

fn name(instance: &Instance) -> String {
    instance.named("release")
}

/// What is recorded; what the status says of an instance from before there were records.
pub fn read<K: Resource>(inputs: &Inputs<K>, instance: &Instance, status: Progress) -> Progress {
    let Ok(map) = inputs.typed::<ConfigMap>(&reference(instance)) else { return status };
    let mut data = map.data.unwrap_or_default();
    if !data.contains_key("installed") && !data.contains_key("target") {
        return status;
    }
    let mut value = |key: &str| data.remove(key);
    Progress { installed: value("installed"), target: value("target"), phase: value("phase") }
}

/// The ConfigMap with what is to be recorded.
pub fn child(instance: &Instance, progress: &Progress, kept: bool) -> Child {
    let Progress { installed, target, phase } = progress;
    let values = [("installed", installed), ("target", target), ("phase", phase)];
    let data = values.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value.clone()?)));
    let map = ConfigMap {
        metadata: instance.meta(name(instance), "database"),
        data: Some(data.collect()),
        ..ConfigMap::default()
    };
    Child::new(&map).kept(kept)
}
