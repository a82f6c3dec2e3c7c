//! What to do about a volume, from the claim that it is for.

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use kube::ResourceExt;

use super::read::{self, is_for, volume_of, volume_phase};
use crate::owners::is_going;

/// What to do about a volume.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// It is in this phase.
    Is(&'static str),
    /// It is for no one any more; its phase and what it was for go.
    Unbind,
    /// Its claim is gone, and so is it: what it holds, then itself.
    Reclaim,
    /// Nothing: someone else has to act first.
    Leave,
}

/// What to do about a volume, given the claim that it names if there is one of that name.
pub(super) fn decide(volume: &PersistentVolume, claim: Option<&PersistentVolumeClaim>) -> Step {
    let Some(kept) = read::claim_of(volume) else {
        return if is_going(&volume.metadata) { Step::Leave } else { Step::Is("Available") };
    };
    // A user has kept it for a claim that need not be there yet.
    if kept.uid.as_ref().is_none_or(String::is_empty) {
        return match claim.and_then(volume_of) {
            Some(name) if name == volume.name_any() => Step::Leave,
            _ => Step::Is("Available"),
        };
    }
    let Some(claim) = claim.filter(|claim| is_for(volume, claim)) else { return released(volume) };
    match volume_of(claim) {
        Some(name) if name == volume.name_any() => Step::Is("Bound"),
        // The claim has still to take it.
        None => Step::Leave,
        // The claim has another: what was made for it is not needed, what was there before is free again.
        Some(_) if volume.annotations().contains_key(read::PROVISIONED_BY) => Step::Reclaim,
        Some(_) => Step::Unbind,
    }
}

fn released(volume: &PersistentVolume) -> Step {
    let policy = volume.spec.as_ref().and_then(|spec| spec.persistent_volume_reclaim_policy.as_deref());
    match (policy, volume_phase(volume)) {
        // Said before it is done, so that it can be seen what is going on.
        (_, phase) if !matches!(phase, "Released" | "Failed") => Step::Is("Released"),
        (Some("Delete" | "Recycle"), "Released") => Step::Reclaim,
        _ => Step::Leave,
    }
}
