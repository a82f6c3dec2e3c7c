//! What field selectors can see of an object.

use serde_json::Value;

use crate::jsonpath::JsonPath;
use crate::read::{bool_at, int_at, str_at};
use crate::resource::Resource;

/// The fields of an object that a selector may name, with their values. Which there are depends on the resource alone,
/// so an empty object tells which are supported.
pub fn fields(resource: &Resource, object: &Value) -> Vec<(String, String)> {
    let mut fields = vec![("metadata.name".to_owned(), text(object, "metadata.name"))];
    if resource.namespaced {
        fields.push(("metadata.namespace".to_owned(), text(object, "metadata.namespace")));
    }
    if let Some(custom) = resource.custom() {
        fields.extend(custom.selectable_fields.iter().map(|path| selectable(path, object)));
        return fields;
    }
    let mut add = |name: &str, value: String| fields.push((name.to_owned(), value));
    for name in texts(&resource.group, &resource.kind) {
        add(name, text(object, name));
    }
    match resource.built_in_kind() {
        ("", "Pod") => add("spec.hostNetwork", bool_at(&object["spec"], "hostNetwork").to_string()),
        ("", "Node") => add("spec.unschedulable", bool_at(&object["spec"], "unschedulable").to_string()),
        ("batch", "Job") => add("status.successful", int_at(&object["status"], "succeeded").to_string()),
        ("", "ReplicationController") | ("apps", "ReplicaSet") => {
            add("status.replicas", int_at(&object["status"], "replicas").to_string());
        }
        ("", "Event") => {
            let new = text(object, "reportingComponent");
            add("source", Some(text(object, "source.component")).filter(|old| !old.is_empty()).unwrap_or(new));
        }
        ("events.k8s.io", "Event") => {
            for name in ["uid", "kind", "name", "namespace", "apiVersion", "resourceVersion", "fieldPath"] {
                add(&format!("regarding.{name}"), text(object, &format!("regarding.{name}")));
            }
        }
        _ => {}
    }
    fields
}

/// Fields that are plain strings.
fn texts(group: &str, kind: &str) -> &'static [&'static str] {
    match (group, kind) {
        ("", "Pod") => &[
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "status.phase",
            "status.podIP",
            "status.nominatedNodeName",
        ],
        ("", "Event") => &[
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "reportingComponent",
            "type",
        ],
        ("events.k8s.io", "Event") => &["reason", "reportingController", "type"],
        ("", "Secret") => &["type"],
        ("", "Namespace") => &["status.phase"],
        ("certificates.k8s.io", "CertificateSigningRequest") => &["spec.signerName"],
        _ => &[],
    }
}

fn text(object: &Value, path: &str) -> String {
    let (parents, last) = path.rsplit_once('.').unwrap_or(("", path));
    let parent = parents.split('.').filter(|step| !step.is_empty()).fold(object, |value, step| &value[step]);
    str_at(parent, last).to_owned()
}

/// A field that a definition makes selectable: it is named without its leading dot.
fn selectable(path: &str, object: &Value) -> (String, String) {
    let found = JsonPath::parse(path).ok().and_then(|path| path.find(object).first().map(|value| (*value).clone()));
    let value = match found {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text,
        Some(other) => other.to_string(),
    };
    (path.trim_start_matches('.').to_owned(), value)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::resource::{custom, find};

    fn value(resource: &Resource, object: &Value, name: &str) -> Option<String> {
        fields(resource, object).into_iter().find(|(field, _)| field == name).map(|(_, value)| value)
    }

    #[test]
    fn pods_can_be_selected_by_node_and_phase() {
        let pods = find("", "v1", "pods").unwrap();
        let pod = json!({"metadata": {"name": "p", "namespace": "n"}, "spec": {"nodeName": "n1"}});
        assert_eq!(value(pods, &pod, "spec.nodeName").as_deref(), Some("n1"));
        assert_eq!(value(pods, &pod, "status.phase").as_deref(), Some(""));
        assert_eq!(value(pods, &pod, "spec.containers"), None);
    }

    #[test]
    fn numbers_and_booleans_read_as_text() {
        let nodes = find("", "v1", "nodes").unwrap();
        assert_eq!(value(nodes, &json!({}), "spec.unschedulable").as_deref(), Some("false"));
        assert_eq!(value(nodes, &json!({}), "metadata.namespace"), None);
        let jobs = find("batch", "v1", "jobs").unwrap();
        assert_eq!(value(jobs, &json!({"status": {"succeeded": 2}}), "status.successful").as_deref(), Some("2"));
    }

    #[test]
    fn events_can_be_selected_by_what_they_are_about_in_both_shapes() {
        let old = json!({"involvedObject": {"uid": "u"}, "source": {"component": "kubelet"}});
        let events = find("", "v1", "events").unwrap();
        assert_eq!(value(events, &old, "involvedObject.uid").as_deref(), Some("u"));
        assert_eq!(value(events, &old, "source").as_deref(), Some("kubelet"));
        let events = find("events.k8s.io", "v1", "events").unwrap();
        assert_eq!(value(events, &json!({"regarding": {"name": "oak"}}), "regarding.name").as_deref(), Some("oak"));
    }

    #[test]
    fn a_definition_says_what_else_can_be_selected() {
        let resources = custom(&json!({"spec": {
            "group": "example.com", "scope": "Cluster", "names": {"plural": "trees", "kind": "Tree"},
            "versions": [{"name": "v1", "served": true, "storage": true, "selectableFields": [{"jsonPath": ".spec.height"}]}],
        }}));
        assert_eq!(value(&resources[0], &json!({"spec": {"height": 7}}), "spec.height").as_deref(), Some("7"));
        assert_eq!(value(&resources[0], &json!({}), "spec.height").as_deref(), Some(""));
    }
}
