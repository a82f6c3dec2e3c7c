//! `c5c3 status` as a value: each ControlPlane, its parts, and of those that are not ready what runs for them.

use super::tree::{State, Tree};
use super::world::{Object, World};

/// A tree for each ControlPlane.
pub(crate) fn trees(world: &World) -> Vec<Tree> {
    world.of_kind("ControlPlane").map(|object| control_plane(world, object)).collect()
}

fn control_plane(world: &World, object: &Object) -> Tree {
    let parts = object.value.pointer("/status/services").and_then(|parts| parts.as_object());
    let mut children: Vec<(usize, Tree)> = Vec::new();
    for child in world.owned_by(object).filter(|child| is_part(child)) {
        children.push((place(&child.reference.name), part(world, child)));
    }
    for (name, part) in parts.into_iter().flatten() {
        if !children.iter().any(|(at, _)| *at == place(name)) {
            let says = part["message"].as_str().unwrap_or("does not exist yet");
            children.push((place(name), Tree::new(name.as_str(), says).state(State::NotStarted)));
        }
    }
    children.sort_by_key(|(place, _)| *place);
    let tree = Tree::new(title(object), says(world, object)).state(state(object));
    tree.children(children.into_iter().map(|(_, tree)| tree).collect())
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
        return tree;
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
    let is_invalid = object.condition("Ready").is_some_and(|ready| ready["reason"] == "InvalidSpec");
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
        (None, _) => match object.text("/status/endpoint") {
            Some(endpoint) => format!("ready{since} at {endpoint}"),
            None => format!("ready{since}"),
        },
        (Some(_), "ControlPlane") => {
            let phase = object.text("/status/phase").map(|phase| format!(": {phase}")).unwrap_or_default();
            format!("waiting{since}{phase}")
        }
        (Some(wait), _) => wait.now.clone().unwrap_or_else(|| wait.condition.clone()),
    }
}
