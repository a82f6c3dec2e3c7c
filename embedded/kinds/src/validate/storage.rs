//! Validation of storage.

use serde_json::Value;

use super::pod::same;
use super::report::Report;
use super::volume as paths;
use crate::quantity::Quantity;
use crate::read::{is_empty_at, str_at};
use crate::write::{child, put};

/// Fields of a volume's spec that are not its source.
const NOT_A_SOURCE: &[&str] = &[
    "accessModes",
    "capacity",
    "claimRef",
    "mountOptions",
    "nodeAffinity",
    "persistentVolumeReclaimPolicy",
    "storageClassName",
    "volumeAttributesClassName",
    "volumeMode",
];

pub(super) fn claim(object: &Value, old: Option<&Value>, report: &mut Report) {
    let spec = &object["spec"];
    if is_empty_at(spec, "accessModes") {
        report.required("spec.accessModes", "at least 1 access mode is required");
    }
    match spec["resources"]["requests"].get("storage") {
        None => report.required("spec.resources[storage]", ""),
        Some(amount) => {
            if Quantity::from_json(amount).is_some_and(|q| q.is_zero() || q.is_negative()) {
                report.invalid("spec.resources[storage]", amount.clone(), "must be greater than zero");
            }
        }
    }
    if let Some(old) = old {
        claim_update(object, old, report);
    }
}

/// A claim may grow once it is bound, and be bound; a class may be given to one that was left without.
fn claim_update(object: &Value, old: &Value, report: &mut Report) {
    let (mut after, before) = (object["spec"].clone(), &old["spec"]);
    if is_empty_at(before, "volumeName") {
        put(&mut after, "volumeName", before["volumeName"].clone());
    }
    if before.get("storageClassName").is_none() {
        put(&mut after, "storageClassName", Value::Null);
    }
    put(&mut after, "volumeAttributesClassName", before["volumeAttributesClassName"].clone());
    let amount = |of: &Value| of["resources"]["requests"].get("storage").and_then(Quantity::from_json);
    if str_at(&old["status"], "phase") == "Bound" {
        let capacity = old["status"]["capacity"].get("storage").and_then(Quantity::from_json);
        if amount(&after) < amount(before) && amount(&after) < capacity {
            let path = "spec.resources.requests.storage";
            report.forbidden(path, "field can not be less than status.capacity");
            return;
        }
        if let Some(resources) = child(&mut after, "resources") {
            put(resources, "requests", before["resources"]["requests"].clone());
        }
    }
    if !same(&after, before) {
        let why =
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";
        report.forbidden("spec", why);
    }
}

pub(super) fn volume(object: &Value, old: Option<&Value>, report: &mut Report) {
    let spec = &object["spec"];
    for field in ["accessModes", "capacity"] {
        if is_empty_at(spec, field) {
            report.required(format!("spec.{field}"), "");
        }
    }
    let source = |spec: &Value| -> Vec<(String, Value)> {
        let fields = spec.as_object().into_iter().flatten();
        let sources = fields.filter(|(key, _)| !NOT_A_SOURCE.contains(&key.as_str()));
        sources.map(|(key, value)| (key.clone(), value.clone())).collect()
    };
    let sources = source(spec);
    match sources.len() {
        0 => report.required("spec", "must specify a volume type"),
        1 => {}
        _ => report.forbidden("spec", "may not specify more than 1 volume type"),
    }
    paths::host_path("spec.hostPath", &spec["hostPath"], report);
    paths::no_backsteps("spec.local.path".to_owned(), str_at(&spec["local"], "path"), report);
    if let Some(old) = old {
        if sources != source(&old["spec"]) {
            report.forbidden("spec.persistentvolumesource", "spec.persistentvolumesource is immutable after creation");
        }
        report.immutable("spec.volumeMode", &spec["volumeMode"], &old["spec"]["volumeMode"]);
    }
}

pub(super) fn class(object: &Value, old: Option<&Value>, report: &mut Report) {
    let Some(old) = old else { return };
    keeps(&["parameters", "provisioner", "reclaimPolicy"], object, old, report);
    report.immutable("volumeBindingMode", &object["volumeBindingMode"], &old["volumeBindingMode"]);
}

/// A class says something, and always the same: claims change their class instead.
pub(super) fn attributes_class(object: &Value, old: Option<&Value>, report: &mut Report) {
    if is_empty_at(object, "parameters") {
        report.required("parameters", "must contain at least one key/value pair");
    }
    if let Some(old) = old {
        keeps(&["driverName", "parameters"], object, old, report);
    }
}

fn keeps(fields: &[&str], object: &Value, old: &Value, report: &mut Report) {
    for field in fields.iter().filter(|field| !same(&object[**field], &old[**field])) {
        report.forbidden(*field, &format!("updates to {field} are forbidden."));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::tests::{assert_has, extend, problems};
    use super::*;

    fn claim(size: &str, phase: &str) -> Value {
        json!({
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}},
            "status": {"phase": phase, "capacity": {"storage": "1Gi"}},
        })
    }

    fn check(object: &Value, old: Option<&Value>) -> Vec<String> {
        problems("", "persistentvolumeclaims", object, old)
    }

    #[test]
    fn a_claim_says_how_and_how_much() {
        assert!(check(&claim("1Gi", ""), None).is_empty());
        let found = check(&json!({"spec": {}}), None);
        assert_has(&found, "spec.accessModes: Required value: at least 1 access mode is required");
        assert_has(&found, "spec.resources[storage]: Required value");
    }

    #[test]
    fn a_bound_claim_may_grow_and_not_shrink() {
        assert!(check(&claim("2Gi", "Bound"), Some(&claim("1Gi", "Bound"))).is_empty());
        assert_eq!(
            check(&claim("1Mi", "Bound"), Some(&claim("1Gi", "Bound"))),
            ["spec.resources.requests.storage: Forbidden: field can not be less than status.capacity"]
        );
        assert!(
            check(&claim("2Gi", "Pending"), Some(&claim("1Gi", "Pending")))[0]
                .starts_with("spec: Forbidden: spec is immutable")
        );
    }

    #[test]
    fn a_claim_can_be_bound_once() {
        let mut bound = claim("1Gi", "Pending");
        bound["spec"]["volumeName"] = json!("pv1");
        assert!(check(&bound, Some(&claim("1Gi", "Pending"))).is_empty());
        let mut other = bound.clone();
        other["spec"]["volumeName"] = json!("pv2");
        assert_eq!(check(&other, Some(&bound)).len(), 1);
    }

    #[test]
    fn a_volume_is_of_one_type() {
        let volume = |more: Value| {
            let mut spec = json!({"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]});
            extend(&mut spec, more);
            json!({"spec": spec})
        };
        let host = volume(json!({"hostPath": {"path": "/a"}}));
        assert!(problems("", "persistentvolumes", &host, None).is_empty());
        let none = problems("", "persistentvolumes", &volume(json!({})), None);
        assert_eq!(none, ["spec: Required value: must specify a volume type"]);
        let moved = volume(json!({"hostPath": {"path": "/b"}}));
        assert_eq!(problems("", "persistentvolumes", &moved, Some(&host)).len(), 1);
    }

    #[test]
    fn a_class_of_attributes_says_something_and_always_the_same() {
        let check =
            |object: &Value, old: Option<&Value>| problems("storage.k8s.io", "volumeattributesclasses", object, old);
        let gold = json!({"driverName": "csi.example", "parameters": {"iops": "9"}});
        assert!(check(&gold, None).is_empty() && check(&gold, Some(&gold)).is_empty());
        let none = check(&json!({"parameters": {}}), None);
        assert_has(&none, "parameters: Required value: must contain at least one key/value pair");
        assert_has(&none, "driverName: Required value");
        let silver = json!({"driverName": "csi.example", "parameters": {"iops": "5"}});
        assert_eq!(check(&silver, Some(&gold)), ["parameters: Forbidden: updates to parameters are forbidden."]);
    }

    #[test]
    fn a_class_does_not_change_what_it_provisions() {
        let (old, new) = (json!({"provisioner": "a"}), json!({"provisioner": "b"}));
        assert_eq!(
            problems("storage.k8s.io", "storageclasses", &new, Some(&old)),
            ["provisioner: Forbidden: updates to provisioner are forbidden."]
        );
    }
}
