//! Finalizers that keep a claim while pods use it, and a volume while a claim has it.

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod};
use kube::ResourceExt;

use super::read;

/// Keeps a claim.
pub(super) const CLAIM: &str = "kubernetes.io/pvc-protection";
/// Keeps a volume.
pub(super) const VOLUME: &str = "kubernetes.io/pv-protection";

/// The claims that a pod names, those that are made for it alone included.
pub(super) fn claims_of(pod: &Pod) -> Vec<String> {
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    let name = |volume: &k8s_openapi::api::core::v1::Volume| match (&volume.persistent_volume_claim, &volume.ephemeral)
    {
        (Some(source), _) => Some(source.claim_name.clone()),
        (None, Some(_)) => Some(format!("{}-{}", pod.name_any(), volume.name)),
        (None, None) => None,
    };
    volumes.filter_map(name).collect()
}

/// Whether a pod uses a claim: one that has no node yet will not get to.
pub(super) fn uses(pod: &Pod, claim: &PersistentVolumeClaim) -> bool {
    let placed = pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some());
    placed && claims_of(pod).contains(&claim.name_any())
}

/// The finalizers that an object should have; None if it has them. `needed` says whether it may still not go.
pub(super) fn wanted<K: ResourceExt>(object: &K, finalizer: &str, needed: bool) -> Option<Vec<String>> {
    let held = object.finalizers().iter().any(|held| held == finalizer);
    let going = object.meta().deletion_timestamp.is_some();
    match (held, going) {
        // It is too late for an object that is going already.
        (false, false) => Some(object.finalizers().iter().cloned().chain([finalizer.to_owned()]).collect()),
        (true, true) if !needed => {
            Some(object.finalizers().iter().filter(|held| *held != finalizer).cloned().collect())
        }
        _ => None,
    }
}

/// Whether a volume may not go: a claim has it.
pub(super) fn is_needed(volume: &PersistentVolume) -> bool {
    read::volume_phase(volume) == "Bound"
}
