//! Validation of pods and pod templates.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::container;
use super::ephemeral;
use super::metadata::labels;
use super::names;
use super::report::Report;
use super::security;
use super::volume;
use crate::read::{is_empty_at, list_at, str_at};
use crate::write::put;

pub(super) fn pod(pod: &Value, old: Option<&Value>, report: &mut Report) {
    spec("spec", &pod["spec"], report);
    if old.is_none() && !list_at(&pod["spec"], "ephemeralContainers").is_empty() {
        report.forbidden("spec.ephemeralContainers", "cannot be set on create");
    }
    if let Some(old) = old {
        update(&pod["spec"], &old["spec"], report);
    }
}

/// A pod template; `path` leads to it.
pub(super) fn template(path: &str, template: &Value, report: &mut Report) {
    labels(&format!("{path}.metadata.labels"), &template["metadata"], report);
    spec(&format!("{path}.spec"), &template["spec"], report);
    if !list_at(&template["spec"], "ephemeralContainers").is_empty() {
        report
            .forbidden(format!("{path}.spec.ephemeralContainers"), "ephemeral containers not allowed in pod template");
    }
}

/// The specification of a pod; `path` leads to it.
pub(super) fn spec(path: &str, spec: &Value, report: &mut Report) {
    let volumes = volume::volumes(path, spec, report);
    let mut names: HashSet<&str> = HashSet::new();
    let mut ports: HashSet<(String, i64, String)> = HashSet::new();
    if is_empty_at(spec, "containers") {
        report.required(format!("{path}.containers"), "");
    }
    for list in ["containers", "initContainers", "ephemeralContainers"] {
        for (at, item) in list_at(spec, list).iter().enumerate() {
            let path = format!("{path}.{list}[{at}]");
            let name = str_at(item, "name");
            if !name.is_empty() && !names.insert(name) {
                report.duplicate(format!("{path}.name"), name);
            }
            let scene = container::Scene { volumes: &volumes, init: list == "initContainers" };
            container::container(&path, item, &scene, report);
            if list == "ephemeralContainers" {
                ephemeral::container(&path, item, spec, report);
            }
            if list == "containers" {
                container::host_ports(&path, item, &mut ports, report);
            }
        }
    }
    security::pod(path, spec, report);
    report.not_negative(format!("{path}.terminationGracePeriodSeconds"), &spec["terminationGracePeriodSeconds"]);
    report.between(format!("{path}.activeDeadlineSeconds"), &spec["activeDeadlineSeconds"], 1, i64::from(i32::MAX));
    if !is_empty_at(spec, "serviceAccountName") {
        report.name(format!("{path}.serviceAccountName"), str_at(spec, "serviceAccountName"), names::subdomain);
    }
    if !is_empty_at(spec, "hostname") {
        report.name(format!("{path}.hostname"), str_at(spec, "hostname"), names::label);
    }
    for (at, toleration) in list_at(spec, "tolerations").iter().enumerate() {
        if str_at(toleration, "operator") == "Exists" && !is_empty_at(toleration, "value") {
            let path = format!("{path}.tolerations[{at}].operator");
            report.invalid(path, toleration.clone(), "value must be empty when `operator` is 'Exists'");
        }
    }
    for (at, constraint) in list_at(spec, "topologySpreadConstraints").iter().enumerate() {
        if constraint["maxSkew"].as_i64().is_some_and(|skew| skew <= 0) {
            let path = format!("{path}.topologySpreadConstraints[{at}].maxSkew");
            report.invalid(path, constraint["maxSkew"].clone(), "must be greater than zero");
        }
    }
}

/// A running pod can be given other images, a deadline, more tolerations, and be released from its scheduling gates.
fn update(new: &Value, old: &Value, report: &mut Report) {
    const WHY: &str = "pod updates may not change fields other than `spec.containers[*].image`, \
                       `spec.initContainers[*].image`, `spec.activeDeadlineSeconds`, `spec.tolerations` (only additions \
                       to existing tolerations), `spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was \
                       previously negative)";
    for list in ["containers", "initContainers"] {
        let (before, after) = (list_at(old, list).len(), list_at(new, list).len());
        if before != after {
            report.forbidden(format!("spec.{list}"), "pod updates may not add or remove containers");
            return;
        }
    }
    let tolerations = list_at(new, "tolerations");
    if list_at(old, "tolerations").iter().any(|toleration| !tolerations.contains(toleration)) {
        report.forbidden("spec.tolerations", "existing toleration can not be modified except its tolerationSeconds");
    }
    gates(new, old, report);
    let mut allowed = new.clone();
    for list in ["containers", "initContainers"] {
        let items = allowed.get_mut(list).and_then(Value::as_array_mut);
        for (item, before) in items.into_iter().flatten().zip(list_at(old, list)) {
            put(item, "image", before["image"].clone());
        }
    }
    let gated = !is_empty_at(old, "schedulingGates");
    let mut fields = vec!["activeDeadlineSeconds", "tolerations", "schedulingGates", "serviceAccount"];
    if gated {
        fields.extend(["nodeSelector", "affinity"]);
    }
    if old["terminationGracePeriodSeconds"].as_i64().is_some_and(|n| n < 0) && new["terminationGracePeriodSeconds"] == 1
    {
        fields.push("terminationGracePeriodSeconds");
    }
    let mut before = old.clone();
    for field in fields {
        for spec in [&mut allowed, &mut before] {
            if let Some(spec) = spec.as_object_mut() {
                spec.remove(field);
            }
        }
    }
    if !same(&allowed, &before) {
        report.forbidden("spec", &format!("{WHY}; changed: {}", changed(&allowed, &before).join(", ")));
    }
}

fn gates(new: &Value, old: &Value, report: &mut Report) {
    let before = list_at(old, "schedulingGates");
    for (at, gate) in list_at(new, "schedulingGates").iter().enumerate() {
        if !before.contains(gate) {
            report.forbidden(
                format!("spec.schedulingGates[{at}]"),
                "only deletion is allowed, but found new scheduling gate",
            );
        }
    }
}

/// Whether two values are equal but for what is empty in one and missing in the other.
pub(super) fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Object(left), Value::Object(right)) => left
            .keys()
            .chain(right.keys())
            .all(|key| same(left.get(key).unwrap_or(&Value::Null), right.get(key).unwrap_or(&Value::Null))),
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(a, b)| same(a, b))
        }
        _ => a == b || (crate::read::is_empty(a) && crate::read::is_empty(b)),
    }
}

/// The top-level fields in which two specs differ.
fn changed(new: &Value, old: &Value) -> Vec<String> {
    let empty = serde_json::Map::new();
    let (new, old) = (new.as_object().unwrap_or(&empty), old.as_object().unwrap_or(&empty));
    let mut names: Vec<&String> = new.keys().chain(old.keys()).collect();
    names.sort();
    names.dedup();
    let null = json!(null);
    let differs = |name: &&String| !same(new.get(*name).unwrap_or(&null), old.get(*name).unwrap_or(&null));
    names.into_iter().filter(differs).map(|name| format!("spec.{name}")).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::{assert_has, problems};
    use super::*;

    fn check(spec: &Value, old: Option<&Value>) -> Vec<String> {
        let old = old.map(|old| json!({"spec": old}));
        problems("", "pods", &json!({"spec": spec}), old.as_ref())
    }

    fn minimal() -> Value {
        json!({"containers": [{"name": "c", "image": "i:1"}]})
    }

    #[test]
    fn a_minimal_pod_is_fine_and_one_without_containers_is_not() {
        assert!(check(&minimal(), None).is_empty());
        assert_has(&check(&json!({}), None), "spec.containers: Required value");
    }

    #[test]
    fn names_of_containers_and_volumes_are_labels_and_unique() {
        let problems = check(
            &json!({
                "containers": [{"name": "c", "image": "i"}, {"name": "c", "image": "i"}],
                "initContainers": [{"name": "C_", "image": "i"}],
                "volumes": [{"name": "v", "emptyDir": {}}, {"name": "v", "emptyDir": {}, "secret": {"secretName": "s"}}],
            }),
            None,
        );
        assert_has(&problems, r#"spec.containers[1].name: Duplicate value: "c""#);
        assert_has(&problems, r#"spec.volumes[1].name: Duplicate value: "v""#);
        assert_has(&problems, "spec.volumes[1]: Forbidden: may not specify more than 1 volume type");
        assert!(problems.iter().any(|problem| problem.starts_with("spec.initContainers[0].name: Invalid value")));
    }

    #[test]
    fn a_running_pod_may_change_its_images_and_little_else() {
        let mut image = minimal();
        image["containers"][0]["image"] = json!("i:2");
        assert!(check(&image, Some(&minimal())).is_empty());
        let mut node = minimal();
        node["nodeName"] = json!("n1");
        let problems = check(&node, Some(&minimal()));
        assert!(
            problems[0].starts_with("spec: Forbidden: pod updates may not change fields other than"),
            "{problems:?}"
        );
        assert!(problems[0].ends_with("changed: spec.nodeName"));
        let mut more = minimal();
        more["containers"].as_array_mut().unwrap().push(json!({"name": "d", "image": "i"}));
        assert_has(
            &check(&more, Some(&minimal())),
            "spec.containers: Forbidden: pod updates may not add or remove containers",
        );
    }

    #[test]
    fn tolerations_can_be_added_and_gates_removed() {
        let mut old = minimal();
        old["schedulingGates"] = json!([{"name": "a.b/c"}]);
        let mut new = minimal();
        new["tolerations"] = json!([{"key": "k", "operator": "Exists"}]);
        new["nodeSelector"] = json!({"zone": "a"});
        assert!(check(&new, Some(&old)).is_empty());
        assert_eq!(check(&old, Some(&new)).len(), 3);
    }
}
