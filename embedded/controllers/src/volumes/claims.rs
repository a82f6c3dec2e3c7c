//! What to do about a claim, from the volumes and the class that there are.

use c5c3_events::News;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::StorageClass;
use kube::ResourceExt;
use kube::core::{Selector, SelectorExt};

use super::read::{self, asked, bytes, class_of, is_for, size, volume_of};
use crate::owners::is_going;

/// What to tell of a claim.
pub(super) type Told = (News, &'static str, String);

/// What to do about a claim.
#[derive(Debug, PartialEq)]
pub(super) enum Step<'v> {
    /// Nothing, and say why if there is anything to say.
    Wait(Option<Told>),
    /// It gets the default class.
    Classify(String),
    /// It and this volume belong together.
    Bind(&'v PersistentVolume),
    /// A volume is made for it.
    Provision(&'v StorageClass),
    /// It has lost its volume.
    Lose(Told),
}

/// What is seen of everything that a claim may need.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen<'v> {
    pub(super) volumes: &'v [PersistentVolume],
    pub(super) classes: &'v [StorageClass],
}

/// What to do about a claim.
pub(super) fn decide<'v>(claim: &PersistentVolumeClaim, seen: Seen<'v>) -> Step<'v> {
    if is_going(&claim.metadata) {
        return Step::Wait(None);
    }
    if claim.annotations().contains_key(read::BIND_COMPLETED) {
        return of_bound(claim, seen);
    }
    match volume_of(claim) {
        Some(name) => of_named(claim, name, seen),
        None => of_free(claim, seen),
    }
}

/// A claim that once had its volume.
fn of_bound<'v>(claim: &PersistentVolumeClaim, seen: Seen<'v>) -> Step<'v> {
    let lost = |reason, message: &str| Step::Lose((News::Warning, reason, message.to_owned()));
    let Some(name) = volume_of(claim) else {
        return lost("ClaimLost", "Bound claim has lost reference to PersistentVolume. Data on the volume is lost!");
    };
    let Some(volume) = seen.volumes.iter().find(|volume| volume.name_any() == name) else {
        return lost("ClaimLost", "Bound claim has lost its PersistentVolume. Data on the volume is lost!");
    };
    if read::claim_of(volume).is_none() || is_for(volume, claim) {
        return Step::Bind(volume);
    }
    let message = "Two claims are bound to the same volume, this one is bound incorrectly";
    lost("ClaimMisbound", message)
}

/// A claim that asks for a volume by name.
fn of_named<'v>(claim: &PersistentVolumeClaim, name: &str, seen: Seen<'v>) -> Step<'v> {
    let Some(volume) = seen.volumes.iter().find(|volume| volume.name_any() == name) else { return Step::Wait(None) };
    if is_for(volume, claim) {
        return Step::Bind(volume);
    }
    if read::claim_of(volume).is_some() {
        let message = format!("volume {name:?} already bound to a different claim.");
        return Step::Wait(Some((News::Warning, "FailedBinding", message)));
    }
    match misfit(volume, claim) {
        None => Step::Bind(volume),
        Some(why) => {
            let message = format!("Cannot bind to requested volume {name:?}: {why}");
            Step::Wait(Some((News::Warning, "VolumeMismatch", message)))
        }
    }
}

/// A claim that takes what suits it.
fn of_free<'v>(claim: &PersistentVolumeClaim, seen: Seen<'v>) -> Step<'v> {
    let class = seen.classes.iter().find(|class| class.name_any() == class_of(claim));
    let waits = class.is_some_and(read::waits_for_pod) && !claim.annotations().contains_key(read::SELECTED_NODE);
    if let Some(volume) = best(claim, seen.volumes, waits) {
        return Step::Bind(volume);
    }
    if waits {
        let message = "waiting for first consumer to be created before binding";
        return Step::Wait(Some((News::Normal, "WaitForFirstConsumer", message.into())));
    }
    if let Some(class) = class {
        return Step::Provision(class);
    }
    let default = seen.classes.iter().filter(|class| read::is_default(class));
    let default = default.max_by_key(|class| class.metadata.creation_timestamp.clone());
    if let Some(default) = default.filter(|_| read::has_no_class(claim)) {
        return Step::Classify(default.name_any());
    }
    let told = if class_of(claim).is_empty() {
        let message = "no persistent volumes available for this claim and no storage class is set";
        (News::Normal, "FailedBinding", message.to_owned())
    } else {
        let name = class_of(claim);
        (News::Warning, "ProvisioningFailed", format!("storageclass.storage.k8s.io {name:?} not found"))
    };
    Step::Wait(Some(told))
}

/// The volume for a claim: one that is kept for it, else the smallest that suits it. A claim that waits for its pod only
/// takes what is kept for it.
fn best<'v>(
    claim: &PersistentVolumeClaim,
    volumes: &'v [PersistentVolume],
    waits: bool,
) -> Option<&'v PersistentVolume> {
    let there = || volumes.iter().filter(|volume| !is_going(&volume.metadata));
    if let Some(kept) = there().find(|volume| is_for(volume, claim)) {
        return Some(kept);
    }
    let selector = claim.spec.as_ref().and_then(|spec| spec.selector.clone());
    // A selector that cannot be read selects nothing.
    let selector: Option<Option<Selector>> = selector.map(|selector| Selector::try_from(selector).ok());
    let selected = |volume: &PersistentVolume| match &selector {
        None => true,
        Some(selector) => selector.as_ref().is_some_and(|selector| selector.matches(volume.labels())),
    };
    let free = |volume: &&PersistentVolume| {
        read::claim_of(volume).is_none()
            && matches!(read::volume_phase(volume), "Available")
            && selected(volume)
            && misfit(volume, claim).is_none()
    };
    there().filter(|_| !waits).filter(free).min_by_key(|volume| (size(volume), volume.name_any()))
}

/// Why a volume cannot be that of a claim, in words that fit an event.
fn misfit(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> Option<&'static str> {
    let (offer, wish) = (volume.spec.as_ref()?, claim.spec.as_ref()?);
    let mode = |mode: &Option<String>| mode.clone().unwrap_or_else(|| "Filesystem".into());
    if is_going(&volume.metadata) {
        return Some("the volume is marked for deletion");
    }
    if bytes(asked(claim).as_ref()) > size(volume) {
        return Some("requested PV is too small");
    }
    if read::volume_class(volume) != class_of(claim) {
        return Some("storageClassName does not match");
    }
    if mode(&offer.volume_mode) != mode(&wish.volume_mode) {
        return Some("incompatible volumeMode");
    }
    let fits = read::claim_modes(claim).is_subset(&read::modes(offer.access_modes.as_ref()));
    (!fits).then_some("incompatible accessMode")
}

/// Whether a bound claim asks for more than it has.
pub(super) fn grows(claim: &PersistentVolumeClaim, volume: &PersistentVolume) -> bool {
    bytes(asked(claim).as_ref()) > size(volume)
}
