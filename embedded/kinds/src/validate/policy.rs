//! Validation of disruption budgets, autoscalers, priorities, leases and events.

use serde_json::Value;

use super::report::Report;
use crate::read::{int_at, is_empty_at, str_at};

/// Priorities above this are the system's own.
const HIGHEST_USER_PRIORITY: i64 = 1_000_000_000;

pub(super) fn disruption_budget(object: &Value, report: &mut Report) {
    let spec = &object["spec"];
    if !spec["minAvailable"].is_null() && !spec["maxUnavailable"].is_null() {
        report.invalid("spec", spec.clone(), "minAvailable and maxUnavailable cannot be both set");
    }
    for field in ["minAvailable", "maxUnavailable"] {
        amount_or_percent(&format!("spec.{field}"), &spec[field], report);
    }
}

fn amount_or_percent(path: &str, value: &Value, report: &mut Report) {
    report.not_negative(path, value);
    let Some(text) = value.as_str() else { return };
    match text.strip_suffix('%').and_then(|number| number.parse::<u32>().ok()) {
        None => report.invalid(
            path,
            text,
            "a valid percent string must be a number followed by '%' (such as '1%' or '93%')",
        ),
        Some(percent) if percent > 100 => report.invalid(path, text, "must not be greater than 100%"),
        Some(_) => {}
    }
}

pub(super) fn autoscaler(object: &Value, report: &mut Report) {
    let spec = &object["spec"];
    let (least, most) = (spec["minReplicas"].as_i64().unwrap_or(1), int_at(spec, "maxReplicas"));
    if least < 1 {
        report.invalid("spec.minReplicas", least, "must be greater than or equal to 1");
    }
    if most < 1 {
        report.invalid("spec.maxReplicas", most, "must be greater than 0");
    }
    if most < least {
        report.invalid("spec.maxReplicas", most, "must be greater than or equal to `minReplicas`");
    }
    if is_empty_at(spec, "scaleTargetRef") {
        report.required("spec.scaleTargetRef.kind", "");
        report.required("spec.scaleTargetRef.name", "");
    }
}

pub(super) fn priority_class(object: &Value, old: Option<&Value>, report: &mut Report) {
    let name = str_at(&object["metadata"], "name");
    if name.starts_with("system-") {
        if !matches!(name, "system-node-critical" | "system-cluster-critical") {
            report.forbidden(
                "metadata.name",
                "priority class names with 'system-' prefix are reserved for system use only",
            );
        }
    } else if int_at(object, "value") > HIGHEST_USER_PRIORITY {
        let why = format!("maximum allowed value of a user defined priority is {HIGHEST_USER_PRIORITY}");
        report.forbidden("value", &why);
    }
    let Some(old) = old else { return };
    if int_at(object, "value") != int_at(old, "value") {
        report.forbidden("value", "may not be changed in an update.");
    }
    report.immutable("preemptionPolicy", &object["preemptionPolicy"], &old["preemptionPolicy"]);
}

pub(super) fn lease(object: &Value, report: &mut Report) {
    let spec = &object["spec"];
    let seconds = &spec["leaseDurationSeconds"];
    if seconds.as_i64().is_some_and(|seconds| seconds <= 0) {
        report.invalid("spec.leaseDurationSeconds", seconds.clone(), "must be greater than 0");
    }
    report.not_negative("spec.leaseTransitions", &spec["leaseTransitions"]);
    if spec.get("holderIdentity").is_some_and(|holder| holder == "") && !is_empty_at(spec, "strategy") {
        report.invalid("spec.holderIdentity", "", "must not be empty");
    }
}

/// An event lives where its object does, or in the default namespace if its object lives in none.
pub(super) fn event(object: &Value, report: &mut Report) {
    let (about, here) = (str_at(&object["involvedObject"], "namespace"), str_at(&object["metadata"], "namespace"));
    let belongs = if about.is_empty() { matches!(here, "default" | "kube-system") } else { about == here };
    if !belongs {
        report.invalid("involvedObject.namespace", about, "does not match event.namespace");
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::tests::{assert_has, problems};

    #[test]
    fn a_budget_has_one_bound() {
        let check = |spec| problems("policy", "poddisruptionbudgets", &json!({"spec": spec}), None);
        assert!(check(json!({"minAvailable": "50%"})).is_empty());
        assert_eq!(check(json!({"minAvailable": 1, "maxUnavailable": 1})).len(), 1);
        assert_eq!(check(json!({"minAvailable": "half"})).len(), 1);
        assert_eq!(check(json!({"minAvailable": "101%"})).len(), 1);
    }

    #[test]
    fn an_autoscaler_has_room_to_move() {
        let target = json!({"kind": "Deployment", "name": "oak"});
        let check = |min: i64, max: i64| {
            let spec = json!({"minReplicas": min, "maxReplicas": max, "scaleTargetRef": target});
            problems("autoscaling", "horizontalpodautoscalers", &json!({"spec": spec}), None)
        };
        assert!(check(1, 3).is_empty());
        assert_has(&check(3, 1), "spec.maxReplicas: Invalid value: 1: must be greater than or equal to `minReplicas`");
    }

    #[test]
    fn a_priority_does_not_change() {
        let found = problems("scheduling.k8s.io", "priorityclasses", &json!({"value": 2}), Some(&json!({"value": 1})));
        assert_eq!(found, ["value: Forbidden: may not be changed in an update."]);
    }

    #[test]
    fn an_event_lives_with_its_object() {
        let found = problems("", "events", &json!({"involvedObject": {"namespace": "elsewhere"}}), None);
        assert_eq!(found.len(), 1);
        assert!(problems("", "events", &json!({"involvedObject": {"namespace": "grove"}}), None).is_empty());
    }
}
