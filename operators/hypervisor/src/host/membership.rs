//! Aggregates and traits: added before others are removed, and asserted again with each resync.

use std::collections::BTreeSet;

use c5c3_kit::{Ref, Step, Wait};
use k8s_openapi::api::core::v1::Node;

use super::view::{Phase, View};
use crate::cloud::Deed;

/// A step, and whether its work is seen to be done.
pub(super) struct Membership {
    pub(super) step: Step,
    pub(super) is_set: bool,
    /// The traits that are ours.
    pub(super) names: Vec<String>,
}

fn done(step: Step, message: &str, names: Vec<String>) -> Membership {
    Membership { step: step.childless().reasons("Succeeded", "Failed").done(message), is_set: true, names }
}

fn waits(view: &View<'_>, step: Step, reason: &'static str, now: &str) -> Membership {
    let wait = Wait::on(&Ref::cluster::<Node>(&view.name)).condition("is ready for it").now(now).with_reason(reason);
    Membership { step: step.childless().wait(wait), is_set: false, names: view.before.traits.clone() }
}

/// The traits of the host's resource provider. Those of the hardware and of others stay.
pub(super) fn traits(view: &View<'_>, phase: Phase) -> Membership {
    let step = Step::new("TraitsUpdated").node("traits", []);
    if let Some(why) = view.left_alone() {
        return waits(view, step, why.reason, why.now);
    }
    if view.is_terminating() {
        return waits(view, step, "Terminating", "traits stay as they are while the host is being terminated");
    }
    if !matches!(phase, Phase::Handover | Phase::Succeeded) || view.phase_before() != Some(phase) {
        return waits(view, step, "Onboarding", "traits are set when the host has passed its tests");
    }
    let (provider, seen) = match (view.provider(), view.traits()) {
        (_, Err(wait)) => {
            return Membership { step: step.undecided([wait]), is_set: false, names: view.before.traits.clone() };
        }
        (Some(provider), Ok(Some(seen))) => (provider, seen),
        _ => return waits(view, step, "WaitingForProvider", "Placement has no resource provider of the host yet"),
    };
    let wanted: BTreeSet<&String> = view.object().spec.custom_traits.iter().collect();
    let there: BTreeSet<&String> = seen.traits.iter().collect();
    let ours: BTreeSet<&String> = view.before.traits.iter().filter(|name| name.starts_with("CUSTOM_")).collect();
    let after: BTreeSet<&String> =
        there.iter().copied().filter(|name| !ours.contains(name)).chain(wanted.iter().copied()).collect();
    let names: Vec<String> = wanted.iter().map(|name| (*name).clone()).collect();
    if after == there {
        return done(step, "the traits are set", names);
    }
    let owned = |names: BTreeSet<&String>| names.into_iter().cloned().collect::<Vec<_>>();
    let create = owned(wanted.difference(&there).copied().collect());
    let why = format!("spec.customTraits asks for [{}]", names.join(", "));
    let deed = Deed::SetTraits { provider, generation: seen.generation, traits: owned(after), create };
    // Until the change is seen, the traits of before are still ours to remove.
    let known: BTreeSet<&String> = ours.iter().copied().chain(wanted).collect();
    Membership { step: step.call(view.call(deed, why)), is_set: false, names: owned(known) }
}

/// The aggregates that a host is in while it is tested: that of its zone, and the one that keeps other servers away.
fn test_aggregates(view: &View<'_>) -> BTreeSet<String> {
    let has_zone =
        |name: &&String| view.aggregate(name).is_some_and(|one| one.metadata.contains_key("availability_zone"));
    let of_zone = view.object().spec.aggregates.iter().filter(has_zone);
    of_zone.chain(&view.settings.test_aggregate).cloned().collect()
}

pub(super) fn is_in_test_aggregates(view: &View<'_>) -> bool {
    test_aggregates(view).iter().all(|name| view.member_of().any(|one| one.name == *name))
}

/// The aggregates that a host should be in; none if they stay as they are.
fn wanted(view: &View<'_>, phase: Phase, traits_are_set: bool) -> Option<BTreeSet<String>> {
    let spec = &view.object().spec;
    let evicted = view.condition("Evicting").and_then(|one| one.reason.as_deref()) == Some("Succeeded");
    match phase {
        _ if view.is_terminating() => evicted.then(BTreeSet::new),
        Phase::Initial | Phase::Testing => Some(test_aggregates(view)),
        Phase::Handover if !traits_are_set => Some(test_aggregates(view)),
        Phase::Handover | Phase::Succeeded => Some(spec.aggregates.iter().cloned().collect()),
        Phase::Aborted => None,
    }
}

/// The aggregates of the host in Nova.
pub(super) fn aggregates(view: &View<'_>, phase: Phase, traits_are_set: bool) -> Membership {
    let step = Step::new("AggregatesUpdated").node("aggregates", []);
    if let Some(why) = view.left_alone() {
        return waits(view, step, why.reason, why.now);
    }
    if view.host.service.is_none() && view.is_terminating() {
        return done(step, "Nova does not know the host", Vec::new());
    }
    if view.host.service.is_none() {
        return waits(view, step, "WaitingForCompute", "Nova does not know the host");
    }
    let Some(wanted) = wanted(view, phase, traits_are_set) else {
        let (reason, now) = if view.is_terminating() {
            ("EvictionInProgress", "aggregates stay as they are until all instances have left")
        } else {
            ("OnboardingAborted", "aggregates stay as they are because onboarding was aborted")
        };
        return waits(view, step, reason, now);
    };
    let missing: Vec<&str> = wanted.iter().map(String::as_str).filter(|name| view.aggregate(name).is_none()).collect();
    if !missing.is_empty() {
        let wait = Wait::on(&Ref::cluster::<Node>(&view.name))
            .condition("is in its aggregates")
            .now(format!("cannot be: there is no aggregate {} in Nova", missing.join(", ")))
            .look_at("openstack aggregate list; create it, or correct spec.aggregates")
            .failed("AggregateMissing");
        return Membership { step: step.childless().wait(wait), is_set: false, names: Vec::new() };
    }
    let member_of: BTreeSet<String> = view.member_of().map(|one| one.name.clone()).collect();
    let mut calls = Vec::new();
    for name in wanted.difference(&member_of) {
        let Some(one) = view.aggregate(name) else { continue };
        let deed = Deed::AddHost { host: view.name.clone(), aggregate: one.id, name: name.clone() };
        calls.push(view.call(deed, "the host should be in it"));
    }
    for one in view.member_of().filter(|one| !wanted.contains(&one.name) && is_ours(view, &one.name)) {
        let deed = Deed::RemoveHost { host: view.name.clone(), aggregate: one.id, name: one.name.clone() };
        calls.push(view.call(deed, "the host should not be in it any more"));
    }
    // First all additions: a host in no aggregate would take the servers of everybody.
    if !calls.is_empty() {
        return Membership { step: calls.into_iter().fold(step, Step::call), is_set: false, names: Vec::new() };
    }
    let is_final =
        matches!(phase, Phase::Handover if traits_are_set) || phase == Phase::Succeeded || view.is_terminating();
    if is_final {
        done(step, "the host is in its aggregates", Vec::new())
    } else {
        waits(view, step, "TestAggregates", "the host is in the aggregates of its test")
    }
}

/// Whether a membership is the operator's to end. While `spec.aggregates` is empty, what others did stays.
fn is_ours(view: &View<'_>, name: &str) -> bool {
    let is_test = view.settings.test_aggregate.as_deref() == Some(name);
    view.is_terminating() || is_test || !view.object().spec.aggregates.is_empty()
}
