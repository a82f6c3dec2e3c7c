//! `c5c3 status` as a value: each ControlPlane, its parts, and of those that are not ready what runs for them.

use super::cause::{invalid, unasked};
use super::tree::{State, Tree};
use super::world::{Object, World};

/// A tree for each ControlPlane, or for each object of ours where there is none, one for each node that is not ready, and one for
/// each Ceph that is not well.
pub(crate) fn trees(world: &World) -> Vec<Tree> {
    let mut trees: Vec<Tree> = unasked(world)
        .into_iter()
        .map(|object| if object.kind() == "ControlPlane" { control_plane(world, object) } else { alone(world, object) })
        .collect();
    if !trees.is_empty() {
        trees.extend(world.nodes_down().map(|(node, message)| {
            Tree::new(node.reference.short(), format!("NotReady: {message}")).state(State::Stuck)
        }));
        trees.extend(world.of_kind("CephCluster").filter_map(unwell));
    }
    trees
}

/// A Ceph that is not well. One that warns still serves, and may do so for long: only an error counts.
fn unwell(cluster: &Object) -> Option<Tree> {
    let health = cluster.text("/status/ceph/health").filter(|health| *health != "HEALTH_OK")?;
    let checks = cluster.value.pointer("/status/ceph/details").and_then(|details| details.as_object());
    let said = checks.into_iter().flatten().map(|(name, check)| {
        let message = check["message"].as_str().unwrap_or_default();
        if message.is_empty() { name.clone() } else { format!("{name}: {message}") }
    });
    let said: Vec<String> = said.collect();
    let says = if said.is_empty() { health.to_owned() } else { format!("{health}: {}", said.join("; ")) };
    let tree = Tree::new(title(cluster), says);
    Some(if health == "HEALTH_ERR" { tree.state(State::Stuck) } else { tree })
}

/// An object that belongs to no ControlPlane.
fn alone(world: &World, object: &Object) -> Tree {
    Tree { label: title(object), ..part(world, object) }
}

fn control_plane(world: &World, object: &Object) -> Tree {
    let parts = object.value.pointer("/status/services").and_then(|parts| parts.as_object());
    let mut children: Vec<(usize, Tree)> = Vec::new();
    for child in world.owned_by(object).filter(|child| is_part(child)) {
        children.push((place(&child.reference.name), part(world, child)));
    }
    for (name, part) in parts.into_iter().flatten() {
        if !children.iter().any(|(at, _)| *at == place(name)) {
            // What is in Keystone, such as the catalog, has no object of its own that is looked at here.
            let is_ready = part["ready"] == true;
            let (usual, state) =
                if is_ready { ("ready", State::Ready) } else { ("does not exist yet", State::NotStarted) };
            let says = part["message"].as_str().unwrap_or(usual);
            children.push((place(name), Tree::new(name.as_str(), says).state(state)));
        }
    }
    children.sort_by_key(|(place, _)| *place);
    let tree = Tree::new(title(object), says(world, object)).state(state(object));
    let tree = if children.is_empty() && asks_for_nothing(object) { tree.remedy(NOTHING) } else { tree };
    tree.children(children.into_iter().map(|(_, tree)| tree).collect())
}

/// What to do about a ControlPlane that asks for nothing.
const NOTHING: &str = "its spec asks for no service: add spec.services.keystone, or start with examples/controlplane/";

/// ControlPlanes that are ready only because nothing is to run.
pub(super) fn idle(objects: &[&Object]) -> Vec<Tree> {
    let planes = objects.iter().filter(|object| object.kind() == "ControlPlane" && asks_for_nothing(object));
    planes.map(|plane| Tree::new(plane.reference.short(), "ready, and runs nothing").remedy(NOTHING)).collect()
}

/// Whether a ControlPlane is ready only because nothing is to run.
fn asks_for_nothing(object: &Object) -> bool {
    let is_empty = |part: &str| object.value["spec"][part].as_object().is_none_or(serde_json::Map::is_empty);
    is_empty("services") && is_empty("infrastructure")
}

/// The place of a part among all of them; what is no part comes last.
fn place(name: &str) -> usize {
    let parts = c5c3_operator_controlplane::PARTS;
    parts.iter().position(|part| part.name == name).unwrap_or(parts.len())
}

fn is_part(object: &Object) -> bool {
    c5c3_operator_controlplane::PARTS.iter().any(|part| part.name == object.reference.name)
        && !matches!(object.kind(), "Service" | "NetworkPolicy" | "PodDisruptionBudget" | "Secret")
}

fn part(world: &World, object: &Object) -> Tree {
    let tree = Tree::new(object.reference.short(), says(world, object)).state(state(object));
    if object.wait.is_none() {
        return tree.children(unwritten(world, object));
    }
    let running = world.owned_by(object).filter(|child| runs(child) && child.wait.is_some());
    let mut children: Vec<Tree> = running.map(|child| part(world, child)).collect();
    if matches!(object.kind(), "Deployment" | "StatefulSet" | "ReplicaSet" | "Job") {
        children.clear();
        let pods = world.below(object, "Pod").into_iter().filter(|pod| !super::pods::is_ready(pod));
        children.extend(
            pods.map(|pod| Tree::new(pod.reference.short(), super::pods::says(world, pod)).state(State::Waiting)),
        );
    }
    tree.children(children)
}

/// The backups of an object's Secrets that are not in the store. They keep nothing from being ready, and are missed when a
/// Secret is lost.
fn unwritten(world: &World, object: &Object) -> Vec<Tree> {
    let pushes = world.owned_by(object).filter(|child| child.kind() == "PushSecret");
    let told = |push: &Object| {
        let why = push.wait.as_ref()?.now.clone().unwrap_or_else(|| "is not written yet".to_owned());
        let remedy =
            format!("spec.secretStoreRef of {} names the store: correct it, or create it", object.reference.short());
        Some(Tree::new(push.reference.short(), format!("not backed up: {why}")).remedy(remedy))
    };
    pushes.filter_map(told).collect()
}

/// Whether the object runs pods, or stands for some that do.
fn runs(object: &Object) -> bool {
    matches!(object.kind(), "Deployment" | "StatefulSet" | "Job" | "Database" | "User" | "Grant")
}

fn title(object: &Object) -> String {
    match object.namespace() {
        Some(namespace) => format!("{} in {namespace}", object.reference.short()),
        None => object.reference.short(),
    }
}

fn state(object: &Object) -> State {
    let is_invalid = invalid(object).is_some();
    let waits = object.value["status"]["waitingFor"].as_array().into_iter().flatten();
    let stuck = is_invalid || waits.into_iter().any(|wait| wait["failed"] == true);
    match &object.wait {
        None => State::Ready,
        Some(wait) if wait.failed || stuck => State::Stuck,
        Some(_) => State::Waiting,
    }
}

fn says(world: &World, object: &Object) -> String {
    let since = object.condition("Ready").and_then(|ready| ready["lastTransitionTime"].as_str());
    let since = since.and_then(|since| world.ago(since)).map(|ago| format!(" {ago}")).unwrap_or_default();
    match (&object.wait, object.kind()) {
        (None, _) => match public_endpoint(world, object).or_else(|| object.text("/status/endpoint")) {
            Some(endpoint) => format!("ready{since} at {endpoint}{}", version(object)),
            None => format!("ready{since}{}", version(object)),
        },
        _ if invalid(object).is_some() => {
            let first = invalid(object).and_then(|problems| problems.lines().next()).unwrap_or_default();
            format!("invalid spec{since}: {first}")
        }
        (Some(_), "ControlPlane") => {
            let phase = object.text("/status/phase").map(|phase| format!(": {phase}")).unwrap_or_default();
            format!("waiting{since}{phase}")
        }
        (Some(wait), _) => format!("{}{}", wait.now.as_ref().unwrap_or(&wait.condition), version(object)),
    }
}

/// Where users reach the service, if its ControlPlane says so.
fn public_endpoint<'a>(world: &'a World, object: &Object) -> Option<&'a str> {
    let pointer = format!("/spec/services/{}/publicEndpoint", object.kind().to_lowercase());
    let plane =
        world.of_kind("ControlPlane").find(|plane| world.owned_by(plane).any(|child| child.uid() == object.uid()));
    plane?.text(&pointer)
}

/// The version that runs and the step of an upgrade to another.
fn version(object: &Object) -> String {
    let text = |field: &str| object.text(&format!("/status/{field}"));
    match (text("installedRelease"), text("targetRelease"), text("upgradePhase")) {
        (Some(installed), Some(target), Some(phase)) => format!(", upgrade {installed} -> {target}: {phase}"),
        (Some(installed), ..) => format!(", version {installed}"),
        _ => String::new(),
    }
}
