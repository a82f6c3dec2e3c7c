//! Maintenance: the compute service is disabled and enabled, and the host drained. Who disabled a service is told by its reason, so
//! that the operator enables only what it disabled.

use c5c3_api::blocks::ConditionStatus;
use c5c3_api::hypervisor::{Eviction, Maintenance};
use c5c3_kit::condition::ConditionState;
use c5c3_kit::object::condition;
use c5c3_kit::{Call, Child, KindRef, Ref, Step, Wait};
use kube::ResourceExt;
use kube::api::DynamicObject;
use serde_json::json;

use super::onboarding::Onboarding;
use super::view::{Phase, View};
use crate::cloud::Deed;
use crate::cloud::nova::Service;

/// How the reasons of the operator begin.
pub(super) const MARK: &str = "c5c3 maintenance";

/// The compute service.
pub(super) struct ServiceState {
    pub(super) step: Step,
    pub(super) condition: ConditionState,
    /// Whether it is seen to be disabled.
    pub(super) is_disabled: bool,
    pub(super) calls_are_due: bool,
}

/// The word of a mode, as the spec has it.
pub(super) fn word(mode: Maintenance) -> &'static str {
    match mode {
        Maintenance::None => "",
        Maintenance::Manual => "manual",
        Maintenance::Auto => "auto",
        Maintenance::Ha => "ha",
        Maintenance::Termination => "termination",
    }
}

/// Whether the operator drains the host in this mode. In `ha` high availability does.
fn drains(mode: Maintenance) -> bool {
    matches!(mode, Maintenance::Manual | Maintenance::Auto | Maintenance::Termination)
}

fn reason(view: &View<'_>) -> String {
    let spec = &view.object().spec;
    let why = spec.maintenance_reason.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
    format!("{MARK} {}{why}", word(spec.maintenance)).chars().take(255).collect()
}

/// Whether the drain of the host exists still. It would disable a service that is enabled before it is gone.
fn has_eviction(view: &View<'_>) -> bool {
    view.inputs.own_named::<Eviction>(&view.name).is_some()
}

/// The call that changes the service; none if it is as it should be, and none of a host that is left alone.
fn due(view: &View<'_>, onboarding: &Onboarding, service: &Service) -> Option<Call> {
    if view.left_alone().is_some() {
        return None;
    }
    let (host, id, mode) = (view.name.clone(), service.id.clone(), view.maintenance());
    if drains(mode) && service.is_enabled() {
        let deed = Deed::Disable { host, service: id, reason: reason(view) };
        return Some(view.call(deed, format!("spec.maintenance is {}", word(mode))));
    }
    if mode != Maintenance::None {
        return None;
    }
    if onboarding.enables {
        return Some(view.call(Deed::Enable { host, service: id, disabled_by: None }, "the host is tested next"));
    }
    let disabled_by = Some(MARK.to_owned());
    (is_disabled_by_operator(service) && !has_eviction(view))
        .then(|| view.call(Deed::Enable { host, service: id, disabled_by }, "spec.maintenance is empty"))
}

fn is_disabled_by_operator(service: &Service) -> bool {
    !service.is_enabled() && service.disabled_reason.as_deref().is_some_and(|why| why.starts_with(MARK))
}

/// The compute service as it should be.
pub(super) fn service(view: &View<'_>, onboarding: &Onboarding) -> ServiceState {
    let step = Step::new("HypervisorDisabled").node("service", []);
    let condition = |status, reason: &str, message: String| ConditionState {
        condition: "HypervisorDisabled".into(),
        status,
        reason: reason.into(),
        message,
    };
    let Some(service) = &view.host.service else {
        let message = "Nova has no compute service of the host".to_owned();
        let condition = condition(ConditionStatus::Unknown, "NoService", message);
        return ServiceState { step: step.childless(), condition, is_disabled: true, calls_are_due: false };
    };
    let call = due(view, onboarding, service);
    let why = service.disabled_reason.clone().unwrap_or_default();
    let stays = view.left_alone().map(|why| format!("; it is left as it is, because {}", why.now)).unwrap_or_default();
    let said = if service.is_enabled() {
        condition(ConditionStatus::False, "Enabled", format!("the compute service is enabled{stays}"))
    } else if is_disabled_by_operator(service) {
        condition(ConditionStatus::True, "Succeeded", format!("{why}{stays}"))
    } else {
        condition(ConditionStatus::True, "DisabledByOthers", format!("disabled in Nova: {why}"))
    };
    let (is_disabled, calls_are_due) = (!service.is_enabled(), call.is_some());
    let step = call.into_iter().fold(step.clone().childless(), Step::call);
    ServiceState { step, condition: said, is_disabled, calls_are_due }
}

/// The drain of the host.
pub(super) struct EvictionState {
    pub(super) step: Step,
    pub(super) condition: ConditionState,
    /// Whether all instances are away; none if it is not known, because nothing is done.
    pub(super) evicted: Option<bool>,
    pub(super) failed: bool,
}

/// The Eviction of the host, and what it says.
pub(super) fn eviction(view: &View<'_>, service: &ServiceState) -> EvictionState {
    let step = Step::new("Evicting").node("eviction", ["service"]);
    let said = |status, reason: &str, message: String| ConditionState {
        condition: "Evicting".into(),
        status,
        reason: reason.into(),
        message,
    };
    let mode = view.maintenance();
    let is_onboarding = view.phase_before().is_some_and(Phase::is_in_progress);
    if !drains(mode) {
        let condition = said(ConditionStatus::False, "NotAsked", "nobody asks for a drain".into());
        return EvictionState { step: step.childless(), condition, evicted: Some(false), failed: false };
    }
    if let Some(why) = view.left_alone() {
        let condition = said(ConditionStatus::False, why.reason, format!("the host is not drained: {}", why.now));
        // A drain that was begun ends: what has not moved stays.
        let begun = Ref::cluster::<Eviction>(&view.name);
        let step = step.childless().released([begun]).wait(why.wait(&view.name));
        return EvictionState { step, condition, evicted: None, failed: false };
    }
    if is_onboarding || (!service.is_disabled && view.host.service.is_some()) {
        let condition = said(ConditionStatus::True, "Running", "waits until the compute service is disabled".into());
        // The Eviction of a host that was enabled by others meanwhile stays.
        let step = step.undecided([Wait::on(&Ref::cluster::<Eviction>(&view.name))
            .condition("is created")
            .now("waits until the compute service is disabled")
            .because("instances would come while others leave")]);
        return EvictionState { step, condition, evicted: Some(false), failed: false };
    }
    let step = step.child(child(view).readiness_optional());
    let live = view.inputs.own_named::<Eviction>(&view.name);
    let live = live.filter(|live| live.metadata.deletion_timestamp.is_none());
    let seen = live.and_then(|live| condition(live, "Evicting"));
    let text = |key: &str| seen.and_then(|seen| seen[key].as_str()).unwrap_or_default().to_owned();
    let (condition, evicted, failed) = match (text("status").as_str(), text("reason").as_str()) {
        ("False", "Succeeded") => (said(ConditionStatus::False, "Succeeded", text("message")), true, false),
        ("False", "Failed") => (said(ConditionStatus::False, "Failed", text("message")), false, true),
        _ => (said(ConditionStatus::True, "Running", text("message")), false, false),
    };
    EvictionState { step, condition, evicted: Some(evicted), failed }
}

fn child(view: &View<'_>) -> Child {
    let kind = KindRef::of::<Eviction>();
    let mut object = DynamicObject::new(&view.name, &kind.resource);
    object.metadata.labels =
        Some(view.object().labels().clone().into_iter().filter(|(key, _)| !is_mark(key)).collect());
    // A reason cannot be changed: the first one of a maintenance stays.
    let live = view.inputs.own_named::<Eviction>(&view.name).and_then(|live| live.data["spec"]["reason"].as_str());
    let reason = live.map_or_else(|| reason(view), ToOwned::to_owned);
    object.data = json!({"spec": {"hypervisor": view.name, "reason": reason}});
    Child::dynamic(kind.resource, object)
}

/// Whether a label says whose the object is.
fn is_mark(key: &str) -> bool {
    key.starts_with("app.kubernetes.io/") || key.starts_with("c5c3.io/")
}
