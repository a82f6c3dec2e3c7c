//! What is said of a host as a whole, of its node, and of people who edited it.

use c5c3_api::hypervisor::Maintenance;
use c5c3_kit::condition::ConditionState;

use super::maintenance::{EvictionState, ServiceState, word};
use super::offboarding::{Leaving, State};
use super::onboarding::Onboarding;
use super::view::{Phase, View};

/// Whether the scheduler may use the host, and if not, the first reason in the order of its life.
pub(super) fn ready(
    view: &View<'_>,
    onboarding: &Onboarding,
    service: &ServiceState,
    eviction: &EvictionState,
    leaving: &Leaving,
) -> ConditionState {
    let no = |reason: &str, message: &str| ConditionState::unmet("Ready", reason, message);
    let up = view.host.service.as_ref().is_some_and(crate::cloud::nova::Service::is_up);
    let libvirt_is_down = view.condition("LibVirtConnection").is_some() && !view.is_true("LibVirtConnection");
    match () {
        () if leaving.state == State::Gone => no("Offboarded", "Nova does not know the host any more"),
        () if view.node_is_leaving() => no("Terminating", "the node is going away"),
        () if onboarding.phase.is_in_progress() => no("Onboarding", &onboarding.message),
        () if view.maintenance() != Maintenance::None => {
            let mode = word(view.maintenance());
            let (reason, message) = match (eviction.evicted, eviction.failed) {
                (None, _) => ("Maintenance", format!("in maintenance ({mode}); {}", eviction.condition.message)),
                (Some(true), _) => ("Evicted", format!("in maintenance ({mode}), and empty")),
                (_, true) => ("EvictionFailed", eviction.condition.message.clone()),
                _ if view.maintenance() == Maintenance::Ha => {
                    ("Maintenance", "high availability looks after it".into())
                }
                _ => ("Evicting", eviction.condition.message.clone()),
            };
            no(reason, &message)
        }
        () if onboarding.phase == Phase::Aborted => no("Aborted", &onboarding.message),
        () if service.is_disabled => no("Disabled", &service.condition.message),
        () if !up => no("ServiceDown", "nova-compute does not report to Nova"),
        () if libvirt_is_down => no("LibVirtDown", "the node's agent has no connection to libvirt"),
        () => ConditionState::met("Ready", "Ready", "the host takes servers"),
    }
}

/// Whether the node is going away.
pub(super) fn terminating(view: &View<'_>) -> ConditionState {
    if view.node_is_leaving() {
        ConditionState::met("Terminating", "Terminating", "the node is being deleted")
    } else {
        ConditionState::unmet("Terminating", "NodeStays", "")
    }
}

/// Whether somebody has edited the object by hand, so that a deployment pipeline may not know of it.
pub(super) fn tainted(view: &View<'_>) -> ConditionState {
    let managers = view.object().metadata.managed_fields.iter().flatten().filter(|one| one.subresource.is_none());
    let mut by_hand: Vec<&str> =
        managers.filter_map(|one| one.manager.as_deref()).filter(|name| name.starts_with("kubectl")).collect();
    by_hand.dedup();
    if by_hand.is_empty() {
        ConditionState::unmet("Tainted", "NoKubectl", "nobody has edited the object with kubectl")
    } else {
        ConditionState::met("Tainted", "Kubectl", format!("edited with {}", by_hand.join(", ")))
    }
}
