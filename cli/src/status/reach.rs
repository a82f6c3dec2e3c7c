//! Why a pod that runs is not ready: the database that it cannot do without, and the NetworkPolicies between the two. A probe
//! tells no more than that it failed.

use serde_json::Value;

use super::pods;
use super::world::{Object, World};

/// What may keep a pod from its database; nothing if its readiness probe does not fail.
pub(super) fn remedies(world: &World, pod: &Object, way: &[&Object]) -> Vec<String> {
    let fails = world.warning(pod).is_some_and(|(_, message)| message.starts_with("Readiness probe failed"));
    if !fails || pods::is_ready(pod) || !pods::halted(pod).is_empty() {
        return Vec::new();
    }
    let Some((server, servers)) = way.iter().rev().find_map(|object| database(world, object)) else {
        return Vec::new();
    };
    let policies = || world.of_kind("NetworkPolicy").filter(|policy| is_written_by_people(policy));
    let mut lines = vec![format!("its readiness probe fails: look whether it reaches its database, {server}")];
    for server in servers {
        for policy in policies().filter(|policy| restricts(policy, "Ingress") && selects(policy, server)) {
            lines.push(format!(
                "{} selects {} and restricts who reaches it: let {} in",
                policy.reference.short(),
                server.reference.short(),
                pod.reference.short()
            ));
        }
    }
    for policy in policies().filter(|policy| restricts(policy, "Egress") && selects(policy, pod)) {
        let policy = policy.reference.short();
        lines.push(format!(
            "{policy} selects {} and restricts what it reaches: let it out to {server}",
            pod.reference.short()
        ));
    }
    lines
}

/// The database of an object in words, and the pods of it that the cluster has.
fn database<'a>(world: &'a World, object: &Object) -> Option<(String, Vec<&'a Object>)> {
    let database = object.value.pointer("/spec/database")?;
    let port = database["port"].as_i64().unwrap_or(3306);
    if let Some(host) = database["host"].as_str() {
        return Some((format!("{host}:{port}"), Vec::new()));
    }
    let server = &database["clusterRef"];
    let name = server["name"].as_str()?;
    let namespace = server["namespace"].as_str().or(object.namespace());
    let found = world.find(&format!("mariadb/{name}"), namespace);
    let pods = found.map(|found| world.below(found, "Pod")).unwrap_or_default();
    Some((format!("mariadb/{name} on port {port}"), pods))
}

/// Operators let in whom their services need.
fn is_written_by_people(policy: &Object) -> bool {
    policy.list("/metadata/ownerReferences").is_empty()
}

/// Whether a policy restricts that direction. Without a list it restricts what comes in, and what goes out if it has rules for it.
fn restricts(policy: &Object, direction: &str) -> bool {
    match policy.list("/spec/policyTypes") {
        [] => direction == "Ingress" || !policy.list("/spec/egress").is_empty(),
        types => types.iter().any(|kind| kind == direction),
    }
}

fn selects(policy: &Object, pod: &Object) -> bool {
    let labels = &pod.value["metadata"]["labels"];
    let selector = &policy.value["spec"]["podSelector"];
    let has = |requirement: &Value| {
        let value = requirement["key"].as_str().and_then(|key| labels.get(key));
        let is_listed = || requirement["values"].as_array().into_iter().flatten().any(|one| Some(one) == value);
        match requirement["operator"].as_str() {
            Some("In") => is_listed(),
            Some("NotIn") => !is_listed(),
            Some("Exists") => value.is_some(),
            Some("DoesNotExist") => value.is_none(),
            _ => false,
        }
    };
    let mut labelled = selector["matchLabels"].as_object().into_iter().flatten();
    let mut required = selector["matchExpressions"].as_array().into_iter().flatten();
    policy.namespace() == pod.namespace()
        && labelled.all(|(key, value)| labels.get(key) == Some(value))
        && required.all(has)
}
