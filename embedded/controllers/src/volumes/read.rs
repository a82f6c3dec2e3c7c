//! What is read off claims, volumes and classes.

use std::collections::BTreeSet;

use c5c3_kinds::Quantity;
use k8s_openapi::api::core::v1::{ObjectReference, PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::StorageClass;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as Amount;
use kube::{Resource, ResourceExt};

/// Says that a claim and its volume have found each other.
pub(super) const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
/// Says that it was we who chose, and not a user.
pub(super) const BOUND_BY_US: &str = "pv.kubernetes.io/bound-by-controller";
/// Who made a volume.
pub(super) const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
/// Who is to make a claim's volume.
pub(super) const PROVISIONER: &str = "volume.kubernetes.io/storage-provisioner";
/// The node that a claim's volume is to be made for.
pub(super) const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
/// Says of a class that it is for claims which name none.
pub(super) const DEFAULT_CLASS: &str = "storageclass.kubernetes.io/is-default-class";
const OLD_CLASS: &str = "volume.beta.kubernetes.io/storage-class";

/// The class of a claim; empty if it wants none.
pub(super) fn class_of(claim: &PersistentVolumeClaim) -> &str {
    let old = claim.annotations().get(OLD_CLASS).map(String::as_str);
    old.or(claim.spec.as_ref().and_then(|spec| spec.storage_class_name.as_deref())).unwrap_or_default()
}

/// Whether a claim leaves it to others which class it is of.
pub(super) fn has_no_class(claim: &PersistentVolumeClaim) -> bool {
    let named = claim.spec.as_ref().is_some_and(|spec| spec.storage_class_name.is_some());
    !named && !claim.annotations().contains_key(OLD_CLASS)
}

pub(super) fn volume_class(volume: &PersistentVolume) -> &str {
    volume.spec.as_ref().and_then(|spec| spec.storage_class_name.as_deref()).unwrap_or_default()
}

pub(super) fn is_default(class: &StorageClass) -> bool {
    class.annotations().get(DEFAULT_CLASS).is_some_and(|is| is == "true")
}

/// Whether the claims of a class wait for their pod.
pub(super) fn waits_for_pod(class: &StorageClass) -> bool {
    class.volume_binding_mode.as_deref() == Some("WaitForFirstConsumer")
}

pub(super) fn phase(claim: &PersistentVolumeClaim) -> &str {
    claim.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
}

pub(super) fn volume_phase(volume: &PersistentVolume) -> &str {
    volume.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
}

/// The volume that a claim has or is to have.
pub(super) fn volume_of(claim: &PersistentVolumeClaim) -> Option<&str> {
    claim.spec.as_ref()?.volume_name.as_deref().filter(|name| !name.is_empty())
}

/// The claim that a volume is for.
pub(super) fn claim_of(volume: &PersistentVolume) -> Option<&ObjectReference> {
    volume.spec.as_ref()?.claim_ref.as_ref()
}

/// Whether a volume is for that claim, and no older one of its name.
pub(super) fn is_for(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> bool {
    claim_of(volume).is_some_and(|kept| {
        (kept.namespace.as_ref(), kept.name.as_ref())
            == (claim.metadata.namespace.as_ref(), claim.metadata.name.as_ref())
            && kept.uid.as_ref().is_none_or(|uid| uid.is_empty() || Some(uid) == claim.metadata.uid.as_ref())
    })
}

/// What refers to a claim.
pub(super) fn reference(claim: &PersistentVolumeClaim) -> ObjectReference {
    claim.object_ref(&())
}

/// How large a volume is.
pub(super) fn size(volume: &PersistentVolume) -> i64 {
    bytes(capacity(volume).as_ref())
}

pub(super) fn capacity(volume: &PersistentVolume) -> Option<Amount> {
    volume.spec.as_ref()?.capacity.as_ref()?.get("storage").cloned()
}

/// How much a claim asks for.
pub(super) fn asked(claim: &PersistentVolumeClaim) -> Option<Amount> {
    claim.spec.as_ref()?.resources.as_ref()?.requests.as_ref()?.get("storage").cloned()
}

/// How much a claim has been given.
pub(super) fn given(claim: &PersistentVolumeClaim) -> Option<Amount> {
    claim.status.as_ref()?.capacity.as_ref()?.get("storage").cloned()
}

pub(super) fn bytes(amount: Option<&Amount>) -> i64 {
    amount.and_then(|amount| Quantity::parse(&amount.0)).map_or(0, Quantity::units)
}

pub(super) fn modes(modes: Option<&Vec<String>>) -> BTreeSet<&str> {
    modes.into_iter().flatten().map(String::as_str).collect()
}

pub(super) fn claim_modes(claim: &PersistentVolumeClaim) -> BTreeSet<&str> {
    modes(claim.spec.as_ref().and_then(|spec| spec.access_modes.as_ref()))
}
