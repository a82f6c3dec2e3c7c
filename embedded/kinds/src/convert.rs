//! Kinds that show the same stored objects in two shapes: events, and horizontal pod autoscalers.

use serde_json::{Map, Value, json};

use crate::read::{is_empty_at, list_at, str_at};
use crate::resource::Resource;

/// Core name, and `events.k8s.io` name, of the fields of an event that are named differently.
const EVENT_FIELDS: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];

/// Where the old version of an autoscaler keeps what it has no fields for.
const ANNOTATIONS: [(&str, &str, &str); 4] = [
    ("spec", "metrics", "autoscaling.alpha.kubernetes.io/metrics"),
    ("spec", "behavior", "autoscaling.alpha.kubernetes.io/behavior"),
    ("status", "conditions", "autoscaling.alpha.kubernetes.io/conditions"),
    ("status", "currentMetrics", "autoscaling.alpha.kubernetes.io/current-metrics"),
];

/// Gives an object the shape of another version, named by its `apiVersion`. For custom resources that is the
/// conversion strategy `None`: only the version changes; with the strategy `Webhook` nothing does, and it is up to the
/// caller to ask. An object that has the shape already stays as it is.
pub fn convert(resource: &Resource, api_version: &str, object: &mut Value) {
    let from = str_at(object, "apiVersion").to_owned();
    let is_asked_for = resource.custom().is_some_and(|custom| custom.conversion.is_some());
    if from == api_version || !object.is_object() || is_asked_for {
        return;
    }
    match (resource.built_in_kind().1, from.as_str(), api_version) {
        ("Event", "v1", "events.k8s.io/v1") => rename(object, EVENT_FIELDS),
        ("Event", "events.k8s.io/v1", "v1") => rename(object, EVENT_FIELDS.map(|(old, new)| (new, old))),
        ("HorizontalPodAutoscaler", "autoscaling/v2", "autoscaling/v1") => autoscaler_to_v1(object),
        ("HorizontalPodAutoscaler", "autoscaling/v1", "autoscaling/v2") => autoscaler_to_v2(object),
        _ => {}
    }
    object["apiVersion"] = json!(api_version);
}

fn rename<'n>(object: &mut Value, names: impl IntoIterator<Item = (&'n str, &'n str)>) {
    let Some(fields) = object.as_object_mut() else { return };
    for (from, to) in names {
        if let Some(value) = fields.remove(from) {
            fields.insert(to.to_owned(), value);
        }
    }
}

/// The one target that the old version knows becomes its field; everything else waits in annotations.
fn autoscaler_to_v1(object: &mut Value) {
    let (targets, others): (Vec<Value>, Vec<Value>) =
        list_at(&object["spec"], "metrics").iter().cloned().partition(|metric| cpu_target(metric).is_some());
    let reached = list_at(&object["status"], "currentMetrics").iter().find_map(|metric| {
        let resource = &metric["resource"];
        (str_at(resource, "name") == "cpu").then(|| resource["current"]["averageUtilization"].clone())
    });
    if let Some(spec) = object.get_mut("spec").filter(|spec| spec.is_object()) {
        spec["metrics"] = json!(others);
        if let Some(percent) = targets.first().and_then(cpu_target) {
            spec["targetCPUUtilizationPercentage"] = json!(percent);
        }
    }
    if let (Some(status), Some(percent)) = (object.get_mut("status").filter(|s| s.is_object()), reached) {
        status["currentCPUUtilizationPercentage"] = percent;
    }
    for (part, field, annotation) in ANNOTATIONS {
        let value = object.get_mut(part).and_then(Value::as_object_mut).and_then(|part| part.remove(field));
        if let Some(value) = value.filter(|value| !crate::read::is_empty(value))
            && let Some(annotations) = annotations(object)
        {
            annotations.insert(annotation.to_owned(), json!(value.to_string()));
        }
    }
}

fn autoscaler_to_v2(object: &mut Value) {
    for (part, field, annotation) in ANNOTATIONS {
        let Some(text) = annotations(object).and_then(|annotations| annotations.remove(annotation)) else { continue };
        let parsed = text.as_str().and_then(|text| serde_json::from_str::<Value>(text).ok());
        if let (Some(value), Some(part)) = (parsed, object.get_mut(part).and_then(Value::as_object_mut)) {
            part.insert(field.to_owned(), value);
        }
    }
    if let Some(metadata) = object.get_mut("metadata").filter(|metadata| is_empty_at(metadata, "annotations"))
        && let Some(metadata) = metadata.as_object_mut()
    {
        metadata.remove("annotations");
    }
    let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) else { return };
    if let Some(percent) = spec.remove("targetCPUUtilizationPercentage") {
        let target = json!({"type": "Utilization", "averageUtilization": percent});
        let metric = json!({"type": "Resource", "resource": {"name": "cpu", "target": target}});
        let metrics = spec.entry("metrics").or_insert_with(|| json!([]));
        if let Some(metrics) = metrics.as_array_mut() {
            metrics.insert(0, metric);
        }
    }
    if let Some(status) = object.get_mut("status").and_then(Value::as_object_mut) {
        status.remove("currentCPUUtilizationPercentage");
    }
}

fn annotations(object: &mut Value) -> Option<&mut Map<String, Value>> {
    let metadata = object.get_mut("metadata")?.as_object_mut()?;
    metadata.entry("annotations").or_insert_with(|| json!({})).as_object_mut()
}

/// The utilization that a metric aims at, if that is one of the cpu.
fn cpu_target(metric: &Value) -> Option<i64> {
    let resource = &metric["resource"];
    let is_cpu = str_at(metric, "type") == "Resource" && str_at(resource, "name") == "cpu";
    resource["target"]["averageUtilization"].as_i64().filter(|_| is_cpu)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resource::find;

    #[test]
    fn an_event_survives_the_way_to_its_other_shape_and_back() {
        let events = find("", "v1", "events").unwrap();
        let old = json!({
            "apiVersion": "v1", "kind": "Event", "metadata": {"name": "e"}, "type": "Normal", "reason": "Pulled",
            "message": "done", "involvedObject": {"name": "oak"}, "count": 2, "source": {"component": "kubelet"},
            "firstTimestamp": "2024-05-01T11:00:00Z", "reportingComponent": "kubelet", "reportingInstance": "n1",
        });
        let mut new = old.clone();
        convert(events, "events.k8s.io/v1", &mut new);
        assert_eq!(new["regarding"], json!({"name": "oak"}));
        assert_eq!((&new["note"], &new["deprecatedCount"]), (&json!("done"), &json!(2)));
        assert_eq!(new["reportingController"], "kubelet");
        assert!(new.get("message").is_none());
        convert(events, "v1", &mut new);
        assert_eq!(new, old);
    }

    #[test]
    fn an_autoscaler_survives_it_too() {
        let autoscalers = find("autoscaling", "v2", "horizontalpodautoscalers").unwrap();
        let new = json!({
            "apiVersion": "autoscaling/v2", "metadata": {"name": "oak"},
            "spec": {"maxReplicas": 3, "behavior": {"scaleUp": {"selectPolicy": "Max"}}, "metrics": [
                {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 60}}},
                {"type": "Pods", "pods": {"metric": {"name": "rps"}}},
            ]},
            "status": {"currentReplicas": 1, "conditions": [{"type": "AbleToScale"}]},
        });
        let mut old = new.clone();
        convert(autoscalers, "autoscaling/v1", &mut old);
        assert_eq!(old["spec"], json!({"maxReplicas": 3, "targetCPUUtilizationPercentage": 60}));
        assert_eq!(old["status"], json!({"currentReplicas": 1}));
        convert(autoscalers, "autoscaling/v2", &mut old);
        assert_eq!(old, new);
    }
}
