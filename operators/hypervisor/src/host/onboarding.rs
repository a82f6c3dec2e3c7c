//! Onboarding: Initial, Testing, Handover, Succeeded or Aborted. A phase ends when Nova shows that its work is done, so that an
//! operator that was killed in the middle goes on where it was.

use std::time::Duration;

use c5c3_api::blocks::ConditionStatus;
use c5c3_kit::condition::ConditionState;
use c5c3_kit::{Call, Ref, Step, Wait};
use jiff::Timestamp;
use kube::ResourceExt;

use super::view::{Phase, View};
use crate::cloud::{Booted, Deed};
use crate::left_alone;
use crate::settings::Smoke;
use c5c3_api::hypervisor::{Hypervisor, Maintenance};

/// On a Hypervisor: a time, after which an aborted onboarding is started once more.
pub(super) const RESTART: &str = "hypervisor.c5c3.io/restart-onboarding";

/// The zone of hosts that are in no aggregate with one.
const DEFAULT_ZONE: &str = "nova";

/// Where onboarding stands.
pub(super) struct Onboarding {
    pub(super) phase: Phase,
    pub(super) message: String,
    pub(super) calls: Vec<Call>,
    pub(super) waits: Vec<Wait>,
    /// Whether the service of the host must be enabled now, whoever disabled it.
    pub(super) enables: bool,
    /// Whether a new phase was reached.
    pub(super) advanced: bool,
    /// Whether to look again soon.
    pub(super) again: bool,
}

impl Onboarding {
    fn new(phase: Phase, message: impl Into<String>) -> Self {
        let message = message.into();
        let again = phase.is_in_progress();
        Self { phase, message, calls: Vec::new(), waits: Vec::new(), enables: false, advanced: false, again }
    }

    fn next(phase: Phase, message: impl Into<String>) -> Self {
        Self { advanced: true, again: true, ..Self::new(phase, message) }
    }

    fn calling(self, calls: Vec<Call>) -> Self {
        Self { calls, ..self }
    }

    fn waiting(phase: Phase, wait: Wait) -> Self {
        let message = wait.message(None);
        Self { waits: vec![wait], ..Self::new(phase, message) }
    }

    /// Ends the handover when traits and aggregates are as they should be, and high availability has the host if it exists.
    pub(super) fn handed_over(self, view: &View<'_>, traits: bool, aggregates: bool) -> Self {
        if self.phase != Phase::Handover || self.advanced || !self.calls.is_empty() {
            return self;
        }
        let mut missing = Vec::new();
        if !traits {
            missing.push("its traits are set");
        }
        if !aggregates {
            missing.push("it is in its aggregates");
        }
        // A provider of high availability that is not there writes no condition, and nothing waits for it.
        let has_provider = view.condition("HaEnabled").is_some();
        if view.object().spec.high_availability && has_provider && !view.is_true("HaEnabled") {
            missing.push("high availability watches it (HaEnabled)");
        }
        if missing.is_empty() {
            Self::next(Phase::Succeeded, "the host takes servers")
        } else {
            Self { message: format!("waits until {}", missing.join(" and ")), ..self }
        }
    }

    pub(super) fn condition(&self) -> ConditionState {
        let status = if self.phase.is_in_progress() { ConditionStatus::True } else { ConditionStatus::False };
        let (reason, message) = (self.phase.name().to_owned(), self.message.clone());
        ConditionState { condition: "Onboarding".into(), status, reason, message }
    }

    pub(super) fn step(&self, view: &View<'_>) -> Step {
        let step = Step::new("Onboarding").node("onboarding", ["service"]);
        match (self.waits.is_empty(), self.calls.is_empty()) {
            (false, _) => step.undecided(self.waits.clone()),
            (true, false) => self.calls.iter().cloned().fold(step, Step::call),
            (true, true) if self.phase == Phase::Aborted => step.childless().wait(aborted(view, &self.message)),
            (true, true) => step.childless(),
        }
    }
}

/// The wait for a person who corrects the cause.
fn aborted(view: &View<'_>, why: &str) -> Wait {
    let restart = format!("kubectl annotate hv {} {RESTART}=\"$(date -u +%FT%TZ)\" --overwrite", view.name);
    Wait::on(&Ref::cluster::<Hypervisor>(&view.name))
        .condition("is onboarded")
        .now(format!("is not: {why}"))
        .look_at(format!("correct the cause; a change of the spec starts it again, and so does: {restart}"))
        .failed("OnboardingAborted")
}

/// Where onboarding stands with what is known now.
pub(super) fn decide(view: &View<'_>) -> Onboarding {
    let before = view.phase_before();
    let is_in_progress = before.is_none_or(Phase::is_in_progress);
    if let Some(why) = view.left_alone().filter(|_| before != Some(Phase::Succeeded)) {
        return abort(view, why.now);
    }
    if view.is_terminating() && is_in_progress {
        return abort(view, "the host is being terminated");
    }
    match before {
        None => Onboarding::next(Phase::Initial, "starts"),
        Some(Phase::Succeeded) => Onboarding::new(Phase::Succeeded, "the host takes servers"),
        Some(Phase::Aborted) if is_restarted(view) => Onboarding::next(Phase::Initial, "starts once more"),
        Some(Phase::Aborted) => {
            let message = view.condition("Onboarding").and_then(|one| one.message.clone()).unwrap_or_default();
            abort(view, &message)
        }
        Some(phase) if view.maintenance() != Maintenance::None => {
            Onboarding::new(phase, "is paused until spec.maintenance is empty")
        }
        Some(Phase::Initial) => initial(view),
        Some(Phase::Testing) => testing(view),
        Some(Phase::Handover) => Onboarding::new(Phase::Handover, ""),
    }
}

/// Deletes what was begun, and says why.
fn abort(view: &View<'_>, why: &str) -> Onboarding {
    let left = view.smoke().unwrap_or_default();
    Onboarding::new(Phase::Aborted, why).calling(deletions(view, left, "onboarding was aborted"))
}

/// Whether the spec was changed since, or a person asks for it.
fn is_restarted(view: &View<'_>) -> bool {
    let Some(aborted) = view.condition("Onboarding") else { return false };
    let asked = view.object().annotations().get(RESTART).and_then(|time| time.parse::<Timestamp>().ok());
    let since = aborted.last_transition_time.as_ref().map(|time| time.0).unwrap_or_default();
    // A label of the node is no change of the spec.
    let has_role_again = aborted.message.as_deref() == Some(left_alone::ROLE_LOST.now);
    has_role_again
        || aborted.observed_generation != view.object().metadata.generation
        || asked.is_some_and(|asked| asked > since)
}

/// Whether the list of aggregates was read since this phase began: one that was created just before is not in an older list, and
/// an aborted host waits for a person. Times of conditions are whole seconds.
fn knows_aggregates(view: &View<'_>) -> bool {
    let began = view.condition("Onboarding").and_then(|one| one.last_transition_time.as_ref());
    began.is_none_or(|began| view.host.aggregates.read.as_second() > began.0.as_second())
}

fn initial(view: &View<'_>) -> Onboarding {
    let wanted = view.object().spec.aggregates.iter().chain(&view.settings.test_aggregate);
    let missing: Vec<&str> = wanted.map(String::as_str).filter(|name| view.aggregate(name).is_none()).collect();
    if !missing.is_empty() && !knows_aggregates(view) {
        return Onboarding::new(Phase::Initial, format!("looks in Nova again for aggregate {}", missing.join(", ")));
    }
    if !missing.is_empty() {
        let why = format!(
            "there is no aggregate {} in Nova; create it with `openstack aggregate create`, or correct spec.aggregates",
            missing.join(", ")
        );
        return Onboarding::next(Phase::Aborted, why);
    }
    match view.agents() {
        Err(wait) => return Onboarding::waiting(Phase::Initial, wait),
        // The host was taken out of Nova before, and comes back.
        Ok(seen) if seen.tainted => {
            let call = view.call(Deed::Untaint { node: view.name.clone() }, "the host comes back to Nova");
            return Onboarding::new(Phase::Initial, "removes the taint of the node").calling(vec![call]);
        }
        Ok(_) => {}
    }
    let (Some(service), Some(_)) = (&view.host.service, &view.host.compute) else {
        return Onboarding::new(
            Phase::Initial,
            "waits until nova-compute registers the host in Nova under the node's name",
        );
    };
    let onboarding = Onboarding::new(Phase::Initial, "");
    if !super::membership::is_in_test_aggregates(view) {
        return Onboarding { message: "waits until the host is in the aggregates of its test".into(), ..onboarding };
    }
    if !service.is_enabled() || service.forced_down {
        return Onboarding { message: "enables the compute service".into(), enables: true, ..onboarding };
    }
    if !service.is_up() {
        return Onboarding { message: "waits until the compute service is up".into(), ..onboarding };
    }
    if view.object().spec.skip_tests {
        return Onboarding::next(Phase::Handover, "was not tested, because spec.skipTests is true");
    }
    Onboarding::next(Phase::Testing, "starts the tests")
}

/// A test: passed, not yet, or failed.
enum Tested {
    Passed,
    Waits(String),
    Seen,
    Failed(String),
    Unknown(Box<Wait>),
    Calls(&'static str, Vec<Call>),
}

/// The tests, in order. One that is not configured passes.
const TESTS: &[fn(&View<'_>) -> Tested] = &[service, libvirt, bridges, server];

fn testing(view: &View<'_>) -> Onboarding {
    for test in TESTS {
        match test(view) {
            Tested::Passed => {}
            Tested::Waits(message) => return Onboarding::new(Phase::Testing, message),
            Tested::Seen => return Onboarding::next(Phase::Testing, PASSED),
            Tested::Unknown(wait) => return Onboarding::waiting(Phase::Testing, *wait),
            Tested::Calls(message, calls) => return Onboarding::new(Phase::Testing, message).calling(calls),
            Tested::Failed(why) => return Onboarding::next(Phase::Aborted, why),
        }
    }
    Onboarding::next(Phase::Handover, "passed its tests")
}

fn service(view: &View<'_>) -> Tested {
    match &view.host.service {
        Some(service) if service.is_enabled() && service.is_up() => Tested::Passed,
        Some(service) if !service.is_enabled() => Tested::Waits("the compute service was disabled".into()),
        _ => Tested::Waits("waits until the compute service is up".into()),
    }
}

/// libvirt as the node's agent reports it. Without an agent there is nothing to compare.
fn libvirt(view: &View<'_>) -> Tested {
    if view.condition("LibVirtConnection").is_some() && !view.is_true("LibVirtConnection") {
        return Tested::Waits("waits until the node's agent has a connection to libvirt (LibVirtConnection)".into());
    }
    let Some(minimum) = &view.settings.minimum_libvirt else { return Tested::Passed };
    match view.before.lib_virt_version.as_deref().filter(|version| *version != "unknown") {
        None => Tested::Waits("waits until the node's agent reports the version of libvirt".into()),
        Some(version) if numbers(version) >= numbers(minimum) => Tested::Passed,
        Some(version) => {
            Tested::Failed(format!("libvirt is {version}, and at least {minimum} is needed; update the host"))
        }
    }
}

fn numbers(version: &str) -> Vec<u64> {
    version.split(|c: char| !c.is_ascii_digit()).filter_map(|part| part.parse().ok()).collect()
}

fn bridges(view: &View<'_>) -> Tested {
    if view.settings.bridges.is_empty() {
        return Tested::Passed;
    }
    match view.bridges() {
        Err(wait) => Tested::Unknown(Box::new(wait)),
        Ok(None) => Tested::Waits("waits until the agent of Open vSwitch reports its bridges".into()),
        Ok(Some(found)) => {
            let missing: Vec<&str> = view
                .settings
                .bridges
                .iter()
                .map(String::as_str)
                .filter(|name| !found.iter().any(|one| one == name))
                .collect();
            if missing.is_empty() {
                Tested::Passed
            } else {
                Tested::Waits(format!("waits for the bridge {} of Open vSwitch", missing.join(", ")))
            }
        }
    }
}

/// A server that boots on this very host, and writes its name to its console.
fn server(view: &View<'_>) -> Tested {
    let Some(smoke) = &view.settings.smoke else { return Tested::Passed };
    let booted = match view.smoke() {
        Ok(booted) => booted,
        Err(wait) => return Tested::Unknown(Box::new(wait)),
    };
    let has_passed = view.condition("Onboarding").and_then(|one| one.message.as_deref()) == Some(PASSED);
    match booted {
        [] if has_passed => Tested::Passed,
        [] => Tested::Calls("creates the smoke server", vec![boot(view, smoke)]),
        [_] if has_passed => Tested::Calls(PASSED, deletions(view, booted, "it has passed")),
        // It is written down before the server is deleted, so that an operator that is killed then creates no second one.
        [one] if is_seen(view, one) => Tested::Seen,
        [one] => judge(view, smoke, one),
        several => {
            Tested::Calls("deletes smoke servers that are too many", deletions(view, &several[1..], "one is enough"))
        }
    }
}

/// Says that the server was seen on its console. It outlives the server, and an operator that is killed while it is deleted.
const PASSED: &str = "the smoke server has written its name to its console, and is deleted";

fn is_seen(view: &View<'_>, booted: &Booted) -> bool {
    let is_here = booted.server.host.as_deref().is_none_or(|host| host == view.name);
    let console = booted.console.as_deref().unwrap_or_default();
    is_here && booted.server.status == "ACTIVE" && console.contains(&view.smoke_name())
}

fn judge(view: &View<'_>, smoke: &Smoke, booted: &Booted) -> Tested {
    let name = &booted.server.name;
    let fault = booted.server.fault.as_ref().map(|fault| fault.message.clone()).unwrap_or_default();
    let age = booted.server.created.map(|created| Duration::try_from(view.now().duration_since(created)));
    let is_late = age.and_then(Result::ok).is_some_and(|age| age > smoke.patience);
    match booted.server.status.as_str() {
        "ERROR" => Tested::Failed(format!("the smoke server {name} failed: {fault}")),
        status if is_late => Tested::Failed(format!(
            "the smoke server {name} is {status}, and its name is not on its console after {} s",
            smoke.patience.as_secs()
        )),
        "ACTIVE" => Tested::Waits(format!("waits until {name} writes its name to its console")),
        status => Tested::Waits(format!("waits until {name} is ACTIVE; it is {status}")),
    }
}

fn boot(view: &View<'_>, smoke: &Smoke) -> Call {
    let zone = view.member_of().find_map(|aggregate| aggregate.metadata.get("availability_zone"));
    let zone = zone.map_or(DEFAULT_ZONE, String::as_str).to_owned();
    let deed = Deed::Boot { host: view.name.clone(), zone, name: view.smoke_name(), smoke: smoke.clone() };
    smoke_call(view, deed, "a server must boot on the host before users' servers do")
}

fn deletions(view: &View<'_>, booted: &[Booted], because: &str) -> Vec<Call> {
    let delete = |booted: &Booted| {
        let deed = Deed::DeleteServer { id: booted.server.id.clone(), name: booted.server.name.clone() };
        smoke_call(view, deed, because)
    };
    booted.iter().filter(|one| one.server.task_state.as_deref() != Some("deleting")).map(delete).collect()
}

fn smoke_call(view: &View<'_>, deed: Deed, because: &str) -> Call {
    let access = view.smoke_access().unwrap_or_else(|_| view.access.clone());
    Call::to::<crate::cloud::Cloud>(crate::cloud::Order { access, deed }, because)
}
