//! Which webhooks a request is for: rules and selectors.

use std::sync::Arc;

use c5c3_kinds::Resource;
use serde_json::Value;

use super::Webhook;
use super::review::Request;
use crate::object::of_entry;
use crate::registry::Served;
use crate::selector::Labels;
use crate::status::ApiError;

/// As which resource the webhook wants to see the request; none if it does not want to.
///
/// With the match policy `Equivalent` a rule for another version of the same objects is as good, and the webhook sees
/// that version.
pub(super) fn resource(request: &Request<'_>, hook: &Webhook) -> Option<Arc<Served>> {
    let rules: Vec<&Value> = hook.0["rules"].as_array().into_iter().flatten().collect();
    let served = &request.call.served;
    if rules.iter().any(|rule| matches(request, rule, &served.resource)) {
        return Some(served.clone());
    }
    if hook.0["matchPolicy"] == "Exact" {
        return None;
    }
    let others = equivalents(request);
    rules.iter().find_map(|rule| others.iter().find(|other| matches(request, rule, &other.resource)).cloned())
}

/// The other resources that show the same objects: other versions, or other groups.
fn equivalents(request: &Request<'_>) -> Vec<Arc<Served>> {
    let resource = &request.call.served.resource;
    let mut all = request.call.server.registry().all();
    all.retain(|other| {
        other.resource.storage_prefix == resource.storage_prefix
            && other.resource.api_version() != resource.api_version()
    });
    all
}

fn matches(request: &Request<'_>, rule: &Value, resource: &Resource) -> bool {
    let names = |field: &str, wanted: &str| {
        let listed = rule[field].as_array().into_iter().flatten().filter_map(Value::as_str);
        listed.into_iter().any(|one| one == "*" || one == wanted)
    };
    names("operations", request.operation)
        && names("apiGroups", &resource.group)
        && names("apiVersions", &resource.version)
        && is_in_scope(request, rule)
        && names_resource(&rule["resources"], &resource.plural, request.subresource())
}

fn is_in_scope(request: &Request<'_>, rule: &Value) -> bool {
    let namespaced = !request.namespace.is_empty() && !request.is_for_namespace();
    match rule["scope"].as_str() {
        Some("Namespaced") => namespaced,
        Some("Cluster") => !namespaced,
        _ => true,
    }
}

/// `pods` is pods alone, `pods/status` their status, `pods/*` both and everything else below them, `*` everything that
/// is below nothing, `*/scale` every scale, `*/*` everything.
fn names_resource(resources: &Value, plural: &str, subresource: &str) -> bool {
    let listed = resources.as_array().into_iter().flatten().filter_map(Value::as_str);
    listed
        .map(|one| one.split_once('/').unwrap_or((one, "")))
        .any(|(resource, below)| (resource == "*" || resource == plural) && (below == "*" || below == subresource))
}

/// Whether the webhook's selectors take the request: by the labels of the namespace, and of the object as it is or was.
pub(super) fn selects(request: &Request<'_>, hook: &Webhook, shown: &Value) -> Result<bool, ApiError> {
    let selector = |field: &str| {
        let selector = Labels::from_object(&hook.0[field]);
        selector.map_err(|why| ApiError::internal(format!("the {field} of webhook {:?}: {why}", hook.name())))
    };
    let namespaces = selector("namespaceSelector")?;
    let in_no_namespace = request.namespace.is_empty();
    if !namespaces.is_empty() && !in_no_namespace && !namespaces.matches(&namespace_labels(request, shown)) {
        return Ok(false);
    }
    let objects = selector("objectSelector")?;
    let takes = |object: &Value| object.is_object() && objects.matches(&object["metadata"]["labels"]);
    Ok(objects.is_empty() || takes(shown) || request.old.is_some_and(|old| takes(&request.shown(old))))
}

/// The labels of the namespace that the request is about. One that is being written has those that it is written with.
fn namespace_labels(request: &Request<'_>, shown: &Value) -> Value {
    if request.is_for_namespace() && shown.is_object() {
        return shown["metadata"]["labels"].clone();
    }
    let server = request.call.server;
    let namespace = server.registry().find("", "v1", "namespaces").and_then(|namespaces| {
        let entry = server.store().get(&namespaces.key(None, &request.namespace))?;
        of_entry(&namespaces.resource, &entry).ok()
    });
    namespace.map_or(Value::Null, |mut namespace| namespace["metadata"]["labels"].take())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_rule_names_resources_and_what_is_below_them() {
        for (rule, plural, below, named) in [
            ("pods", "pods", "", true),
            ("pods", "pods", "status", false),
            ("pods", "nodes", "", false),
            ("pods/status", "pods", "status", true),
            ("pods/status", "pods", "", false),
            ("pods/*", "pods", "", true),
            ("pods/*", "pods", "exec", true),
            ("pods/*", "nodes", "status", false),
            ("*", "nodes", "", true),
            ("*", "nodes", "status", false),
            ("*/scale", "deployments", "scale", true),
            ("*/scale", "deployments", "", false),
            ("*/*", "nodes", "", true),
            ("*/*", "nodes", "status", true),
        ] {
            assert_eq!(names_resource(&json!(["none", rule]), plural, below), named, "{rule} and {plural}/{below}");
        }
    }
}
