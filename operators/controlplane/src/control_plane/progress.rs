//! How far a ControlPlane is: part by part, and in one word.

use c5c3_api::c5c3::{ControlPlane, UpdatePhase};
use c5c3_kit::object::condition;
use c5c3_kit::{Inputs, Plan, readiness};
use kube::api::DynamicObject;
use serde_json::{Map, Value, json};

use super::cloud::Cloud;
use super::part::{self, Makes, Part};
use super::reference;

/// The longest message that the schema takes.
const LONGEST: usize = 4000;

/// How a part is.
struct State {
    part: &'static Part,
    /// What it lacks; none when it is ready.
    missing: Option<String>,
    /// Whether it is not yet what the ControlPlane asks for: it is being installed, upgraded or changed.
    is_behind: bool,
    /// The version that runs.
    version: Option<String>,
}

/// Adds what the status says beside conditions and waits. It is told from the objects as they were read: when they change,
/// they are read again.
pub(super) fn status(plan: Plan, cloud: &Cloud, inputs: &Inputs<ControlPlane>) -> Plan {
    let states: Vec<State> = cloud.parts().map(|part| State::of(part, cloud, inputs)).collect();
    // Users are in status.identity.
    let shown = states.iter().filter(|state| state.part.condition != part::CREDENTIALS);
    let parts: Map<String, Value> = shown.map(|state| (state.part.name.to_owned(), state.status(cloud))).collect();
    let plan = plan.status("phase", phase(&states)).status("updatePhase", json!(update_phase(&states, &inputs.object)));
    if parts.is_empty() { plan } else { plan.status("services", parts) }
}

impl State {
    fn of(part: &'static Part, cloud: &Cloud, inputs: &Inputs<ControlPlane>) -> Self {
        if let Makes::Identity { missing, .. } = part.makes {
            return Self { part, missing: missing(part, cloud, inputs), is_behind: false, version: None };
        }
        let Some(reference) = reference(cloud, part) else {
            return Self { part, missing: None, is_behind: false, version: None };
        };
        // What becomes of an object that exists already is no update of this cloud.
        let is_ours = cloud.existing(part).is_none();
        let Some(object) = inputs.get(&reference) else {
            let missing = Some("does not exist yet".to_owned());
            return Self { part, missing, is_behind: is_ours && part.operated, version: None };
        };
        let missing = readiness::wait(&reference, object).map(|wait| wait.now.unwrap_or(wait.condition));
        let version = object.data.pointer("/status/installedRelease").and_then(Value::as_str).map(ToOwned::to_owned);
        let is_behind = is_ours && is_behind(object, version.as_deref(), cloud.version(part));
        Self { part, missing, is_behind, version }
    }

    fn status(&self, cloud: &Cloud) -> Value {
        let mut status = json!({"ready": self.missing.is_none()});
        if let Some(version) = &self.version {
            status["version"] = version.as_str().into();
        }
        if let Some(wanted) = cloud.version(self.part) {
            status["wantedVersion"] = wanted.into();
        }
        if let Some(missing) = &self.missing {
            status["message"] = missing.chars().take(LONGEST).collect::<String>().into();
        }
        status
    }
}

/// Whether an object is not yet what it was told to be: its operator has not seen the last change, another version runs, or
/// an upgrade is under way. MariaDB has no `observedGeneration`, and a condition for it instead.
fn is_behind(object: &DynamicObject, installed: Option<&str>, wanted: Option<&str>) -> bool {
    let status = &object.data["status"];
    let unseen = status["observedGeneration"].as_i64().is_some_and(|seen| Some(seen) < object.metadata.generation);
    let other_version = installed.is_some_and(|installed| Some(installed) != wanted);
    let upgrading = status["upgradePhase"].as_str().is_some_and(|phase| !phase.is_empty());
    let updating = condition(object, "Updated").is_some_and(|updated| updated["status"] == "False");
    unseen || other_version || upgrading || updating
}

/// `Ready`, or the first group of parts that is not.
fn phase(states: &[State]) -> &'static str {
    let first = states.iter().find(|state| state.missing.is_some());
    match first.map(|state| state.part.condition) {
        None => "Ready",
        Some(part::INFRASTRUCTURE) => "Infrastructure",
        Some(part::KEYSTONE | part::KORC | part::CREDENTIALS) => "Identity",
        Some(_) => "Services",
    }
}

/// An update is under way while a part is behind, and from then on until everything is ready that has an operator. A part
/// that fails when no update is under way starts none.
fn update_phase(states: &[State], object: &ControlPlane) -> UpdatePhase {
    let last = object.status.as_ref().and_then(|status| status.update_phase);
    let was_at_rest = matches!(last, Some(UpdatePhase::Idle | UpdatePhase::Complete));
    let behind = states.iter().find(|state| state.is_behind);
    let unready = states.iter().find(|state| state.missing.is_some() && state.part.operated);
    match behind.or(unready.filter(|_| !was_at_rest)).map(|state| state.part.condition) {
        None => UpdatePhase::Idle,
        Some(part::INFRASTRUCTURE) => UpdatePhase::UpdatingInfra,
        Some(part::KEYSTONE) => UpdatePhase::UpdatingKeystone,
        Some(_) => UpdatePhase::UpdatingServices,
    }
}
