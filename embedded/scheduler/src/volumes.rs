//! What can be read off claims, volumes and classes: whether a claim is bound, whether it waits for its pod, which
//! volume suits it.

use std::collections::BTreeSet;

use c5c3_kinds::Quantity;
use k8s_openapi::api::core::v1::{
    PersistentVolume, PersistentVolumeClaim, PersistentVolumeClaimSpec, PersistentVolumeSpec,
};
use k8s_openapi::api::storage::v1::StorageClass;
use kube::core::{Selector, SelectorExt};

use crate::model::node::Node;
use crate::model::node_terms::one_holds;
use crate::model::pod_terms::selector;

/// Says which node a claim's volume is to be made for, and thereby that it may be made.
pub const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
/// Says that a claim and its volume have found each other.
const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
/// The class of volumes that are made by hand.
const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";
/// Labels of volumes that can be reached from some zones or regions only.
const ZONES: [&str; 4] = [
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
];

/// Whether a claim has its volume for good.
pub fn is_bound(claim: &PersistentVolumeClaim) -> bool {
    let completed = claim.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(BIND_COMPLETED));
    volume_of(claim).is_some() && (completed || phase(claim) == "Bound")
}

/// The phase of a claim.
pub fn phase(claim: &PersistentVolumeClaim) -> &str {
    claim.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
}

/// The volume that a claim has or is to have.
pub fn volume_of(claim: &PersistentVolumeClaim) -> Option<&str> {
    claim.spec.as_ref()?.volume_name.as_deref().filter(|name| !name.is_empty())
}

/// The class that a claim is of.
pub fn class_of(claim: &PersistentVolumeClaim) -> &str {
    claim.spec.as_ref().and_then(|spec| spec.storage_class_name.as_deref()).unwrap_or_default()
}

/// The node that a claim's volume is being made for.
pub fn selected_node(claim: &PersistentVolumeClaim) -> Option<&str> {
    claim.metadata.annotations.as_ref()?.get(SELECTED_NODE).map(String::as_str).filter(|node| !node.is_empty())
}

/// Whether only one pod at a time may mount a claim.
pub fn is_for_one_pod(claim: &PersistentVolumeClaim) -> bool {
    modes(claim.spec.as_ref().and_then(|spec| spec.access_modes.as_ref())).contains("ReadWriteOncePod")
}

/// Whether claims of a class wait for their pod.
pub fn waits_for_pod(class: &StorageClass) -> bool {
    class.volume_binding_mode.as_deref() == Some("WaitForFirstConsumer")
}

/// Whether a volume of a class can be made for a node.
pub fn can_be_made(class: &StorageClass, node: &Node) -> bool {
    let topologies = class.allowed_topologies.as_deref().unwrap_or_default();
    let is_here = topologies.is_empty()
        || topologies.iter().any(|term| {
            let wanted = term.match_label_expressions.as_deref().unwrap_or_default();
            wanted.iter().all(|wanted| node.labels.get(&wanted.key).is_some_and(|value| wanted.values.contains(value)))
        });
    class.provisioner != NO_PROVISIONER && is_here
}

/// Whether a volume can be reached from a node, by its own word.
pub fn is_reachable(volume: &PersistentVolume, node: &Node) -> bool {
    let affinity = volume.spec.as_ref().and_then(|spec| spec.node_affinity.as_ref());
    let required = affinity.and_then(|affinity| affinity.required.as_ref());
    required.is_none_or(|selector| one_holds(&selector.node_selector_terms, node))
}

/// Whether a node is in the zones of a volume. A node without zones is in all.
pub fn is_in_zone(volume: &PersistentVolume, node: &Node) -> bool {
    if !ZONES.iter().any(|zone| node.labels.contains_key(*zone)) {
        return true;
    }
    let labels = volume.metadata.labels.iter().flatten().filter(|(key, _)| ZONES.contains(&key.as_str()));
    labels.into_iter().all(|(key, zones)| node.labels.get(key).is_some_and(|zone| zones.split("__").any(|z| z == zone)))
}

/// Whether a volume that no one has suits a claim on a node.
pub fn suits(volume: &PersistentVolume, claim: &PersistentVolumeClaim, node: &Node) -> bool {
    let (Some(offer), Some(wish)) = (&volume.spec, &claim.spec) else { return false };
    let phase = volume.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default();
    let is_kept_for_it = offer.claim_ref.as_ref().is_some_and(|kept| {
        (kept.namespace.as_ref(), kept.name.as_ref())
            == (claim.metadata.namespace.as_ref(), claim.metadata.name.as_ref())
            && (kept.uid.is_none() || kept.uid == claim.metadata.uid)
    });
    let is_free = is_kept_for_it || (offer.claim_ref.is_none() && matches!(phase, "" | "Available" | "Pending"));
    let class = offer.storage_class_name.as_deref().unwrap_or_default();
    let labels = volume.metadata.labels.clone().unwrap_or_default();
    is_free
        && volume.metadata.deletion_timestamp.is_none()
        && class == class_of(claim)
        && offer.volume_mode.as_deref().unwrap_or("Filesystem") == wish.volume_mode.as_deref().unwrap_or("Filesystem")
        && modes(wish.access_modes.as_ref()).is_subset(&modes(offer.access_modes.as_ref()))
        && size(volume) >= asked(wish)
        && wish
            .selector
            .as_ref()
            .is_none_or(|_| selector(wish.selector.as_ref()).is_some_and(|wanted: Selector| wanted.matches(&labels)))
        && is_reachable(volume, node)
}

/// How large a volume is.
pub fn size(volume: &PersistentVolume) -> i64 {
    let capacity = |spec: &PersistentVolumeSpec| spec.capacity.as_ref()?.get("storage").cloned();
    bytes(volume.spec.as_ref().and_then(capacity).map(|amount| amount.0))
}

fn asked(wish: &PersistentVolumeClaimSpec) -> i64 {
    let requests = wish.resources.as_ref().and_then(|resources| resources.requests.as_ref());
    bytes(requests.and_then(|requests| requests.get("storage")).map(|amount| amount.0.clone()))
}

fn bytes(amount: Option<String>) -> i64 {
    amount.and_then(|text| Quantity::parse(&text)).map_or(0, Quantity::units)
}

fn modes(modes: Option<&Vec<String>>) -> BTreeSet<&str> {
    modes.into_iter().flatten().map(String::as_str).collect()
}
