//! Where a ControlPlane stands: part by part, and in one word.

use c5c3_api::c5c3::{ControlPlane, UpdatePhase};
use c5c3_kit::{Inputs, Plan, readiness};
use serde_json::{Map, Value, json};

use super::cloud::Cloud;
use super::graph::{self, Node};
use super::reference;

/// The longest message that the schema takes.
const LONGEST: usize = 4000;

/// Adds what the status says beside conditions and waits. It is told from the objects as they were read: when they change,
/// they are read again.
pub(super) fn status(plan: Plan, cloud: &Cloud, inputs: &Inputs<ControlPlane>) -> Plan {
    let mut parts = Map::new();
    let mut behind: Option<&Node> = None;
    for node in cloud.nodes() {
        let missing = missing(node, cloud, inputs);
        if missing.is_some() {
            behind = behind.or(Some(node));
        }
        parts.insert(node.name.to_owned(), part(node, missing, cloud));
    }
    let (phase, update) = phase(behind);
    let plan = plan.status("phase", phase).status("updatePhase", json!(update));
    if parts.is_empty() { plan } else { plan.status("services", parts) }
}

fn part(node: &Node, missing: Option<String>, cloud: &Cloud) -> Value {
    let mut part = json!({"ready": missing.is_none()});
    if let Some(version) = cloud.release.version(node.name) {
        part["version"] = version.into();
    }
    if let Some(missing) = missing {
        part["message"] = missing.chars().take(LONGEST).collect::<String>().into();
    }
    part
}

/// What a part lacks; none when it is ready.
fn missing(node: &Node, cloud: &Cloud, inputs: &Inputs<ControlPlane>) -> Option<String> {
    let Some(object) = reference(cloud, node.name) else {
        return Some("nobody acts on it in this version".to_owned());
    };
    match inputs.get(&object) {
        Some(found) => readiness::wait(&object, found).map(|wait| wait.now.unwrap_or(wait.condition)),
        None => Some("is not there yet".to_owned()),
    }
}

/// The phase, by the first part that is behind.
fn phase(behind: Option<&Node>) -> (&'static str, UpdatePhase) {
    match behind.map(|node| node.condition) {
        None => ("Ready", UpdatePhase::Complete),
        Some(graph::INFRASTRUCTURE) => ("Infrastructure", UpdatePhase::UpdatingInfra),
        Some(graph::KEYSTONE) => ("Identity", UpdatePhase::UpdatingKeystone),
        Some(_) => ("Services", UpdatePhase::UpdatingServices),
    }
}
