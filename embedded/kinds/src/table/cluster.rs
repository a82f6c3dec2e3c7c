//! Columns and rows of nodes, namespaces, configuration, events and the API's own kinds; and the default, name and
//! time of creation, for everything else.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::Cells;
use super::format::{NONE, UNKNOWN, age, ago, condition, is_true, joined, name, text_or};
use crate::read::{bool_at, entries_at, int_at, is_empty_at, list_at, str_at};

pub(super) fn built_in(group: &str, kind: &str) -> (&'static [&'static str], Cells) {
    match (group, kind) {
        ("", "Node") => (
            &[
                "Name",
                "Status",
                "Roles",
                "Age",
                "Version",
                "Internal-IP*",
                "External-IP*",
                "OS-Image*",
                "Kernel-Version*",
                "Container-Runtime*",
            ],
            node,
        ),
        ("", "Namespace") => (&["Name", "Status", "Age"], |object, now| {
            vec![name(object), json!(str_at(&object["status"], "phase")), age(object, now)]
        }),
        ("", "ConfigMap") => (&["Name", "Data", "Age"], |object, now| {
            let count = entries_at(object, "data").count() + entries_at(object, "binaryData").count();
            vec![name(object), json!(count), age(object, now)]
        }),
        ("", "Secret") => (&["Name", "Type", "Data", "Age"], |object, now| {
            vec![
                name(object),
                json!(str_at(object, "type")),
                json!(entries_at(object, "data").count()),
                age(object, now),
            ]
        }),
        ("", "ServiceAccount") => (&["Name", "Secrets", "Age"], |object, now| {
            vec![name(object), json!(list_at(object, "secrets").len()), age(object, now)]
        }),
        ("", "ResourceQuota") => (&["Name", "Request", "Limit", "Age"], quota),
        ("" | "events.k8s.io", "Event") => (
            &[
                "Last Seen",
                "Type",
                "Reason",
                "Object",
                "Subobject*",
                "Source*",
                "Message",
                "First Seen*",
                "Count*",
                "Name*",
            ],
            event,
        ),
        ("coordination.k8s.io", "Lease") => (&["Name", "Holder", "Age"], |object, now| {
            vec![name(object), json!(str_at(&object["spec"], "holderIdentity")), age(object, now)]
        }),
        ("scheduling.k8s.io", "PriorityClass") => {
            (&["Name", "Value", "Global-Default", "Age", "PreemptionPolicy"], priority_class)
        }
        ("node.k8s.io", "RuntimeClass") => (&["Name", "Handler", "Age"], |object, now| {
            vec![name(object), json!(str_at(object, "handler")), age(object, now)]
        }),
        ("admissionregistration.k8s.io", _) => (&["Name", "Webhooks", "Age"], |object, now| {
            vec![name(object), json!(list_at(object, "webhooks").len()), age(object, now)]
        }),
        ("apiregistration.k8s.io", _) => (&["Name", "Service", "Available", "Age"], api_service),
        _ => (&["Name", "Created At"], |object, _| {
            vec![name(object), json!(str_at(&object["metadata"], "creationTimestamp"))]
        }),
    }
}

fn node(node: &Value, now: Timestamp) -> Vec<Value> {
    let info = &node["status"]["nodeInfo"];
    let address = |kind: &str| {
        let addresses = list_at(&node["status"], "addresses");
        let found = addresses.iter().find(|address| str_at(address, "type") == kind);
        json!(found.map_or(NONE, |address| str_at(address, "address")))
    };
    vec![
        name(node),
        json!(node_status(node)),
        json!(roles(node)),
        age(node, now),
        json!(str_at(info, "kubeletVersion")),
        address("InternalIP"),
        address("ExternalIP"),
        json!(text_or(info, "osImage", UNKNOWN)),
        json!(text_or(info, "kernelVersion", UNKNOWN)),
        json!(text_or(info, "containerRuntimeVersion", UNKNOWN)),
    ]
}

fn node_status(node: &Value) -> String {
    let ready = match condition(node, "Ready") {
        None => "Unknown",
        Some(_) if is_true(node, "Ready") => "Ready",
        Some(_) => "NotReady",
    };
    let suffix = if bool_at(&node["spec"], "unschedulable") { ",SchedulingDisabled" } else { "" };
    format!("{ready}{suffix}")
}

fn roles(node: &Value) -> String {
    let roles: Vec<&str> = entries_at(&node["metadata"], "labels")
        .filter_map(|(key, value)| match key.strip_prefix("node-role.kubernetes.io/") {
            Some(role) => Some(role),
            None if key == "kubernetes.io/role" => value.as_str(),
            None => None,
        })
        .collect();
    joined(&roles)
}

fn quota(quota: &Value, now: Timestamp) -> Vec<Value> {
    let status = &quota["status"];
    let (mut requests, mut limits) = (Vec::new(), Vec::new());
    for (resource, hard) in entries_at(status, "hard") {
        let used = text_or(&status["used"], resource, "0");
        let shown = format!("{resource}: {used}/{}", hard.as_str().unwrap_or_default());
        if resource.starts_with("limits.") { &mut limits } else { &mut requests }.push(shown);
    }
    vec![name(quota), json!(requests.join(", ")), json!(limits.join(", ")), age(quota, now)]
}

/// An event in either of its shapes.
fn event(event: &Value, now: Timestamp) -> Vec<Value> {
    let either = |old: &str, new: &str| if event.get(old).is_some() { &event[old] } else { &event[new] };
    let or_time = |time: &Value| ago(if time.is_null() { &event["eventTime"] } else { time }, now);
    let first = or_time(either("firstTimestamp", "deprecatedFirstTimestamp"));
    let last = either("lastTimestamp", "deprecatedLastTimestamp");
    let series = &event["series"];
    let (last, count) = if series.is_object() {
        (ago(&series["lastObservedTime"], now), int_at(series, "count"))
    } else {
        let count = either("count", "deprecatedCount").as_i64().unwrap_or(0).max(1);
        (if last.is_null() { first.clone() } else { ago(last, now) }, count)
    };
    let about = either("involvedObject", "regarding");
    let kind = str_at(about, "kind").to_lowercase();
    let object = if is_empty_at(about, "name") { kind } else { format!("{kind}/{}", str_at(about, "name")) };
    vec![
        last,
        json!(str_at(event, "type")),
        json!(str_at(event, "reason")),
        json!(object),
        json!(str_at(about, "fieldPath")),
        json!(source(event, either("source", "deprecatedSource"))),
        json!(either("message", "note").as_str().unwrap_or_default().trim()),
        first,
        json!(count),
        name(event),
    ]
}

fn source(event: &Value, source: &Value) -> String {
    let new = text_or(event, "reportingController", str_at(event, "reportingComponent"));
    let component = text_or(source, "component", new);
    let host = text_or(source, "host", str_at(event, "reportingInstance"));
    if host.is_empty() { component.to_owned() } else { format!("{component}, {host}") }
}

fn priority_class(class: &Value, now: Timestamp) -> Vec<Value> {
    vec![
        name(class),
        json!(int_at(class, "value")),
        json!(bool_at(class, "globalDefault")),
        age(class, now),
        json!(str_at(class, "preemptionPolicy")),
    ]
}

fn api_service(service: &Value, now: Timestamp) -> Vec<Value> {
    let backend = match &service["spec"]["service"] {
        Value::Null => "Local".to_owned(),
        backend => format!("{}/{}", str_at(backend, "namespace"), str_at(backend, "name")),
    };
    let available = condition(service, "Available").map_or(UNKNOWN, |condition| str_at(condition, "status"));
    vec![name(service), json!(backend), json!(available), age(service, now)]
}

#[cfg(test)]
mod tests {
    use super::super::tests::row;
    use super::*;

    #[test]
    fn a_node_shows_whether_it_takes_pods() {
        let object = json!({
            "metadata": {"name": "n1", "labels": {"node-role.kubernetes.io/control-plane": ""}},
            "spec": {"unschedulable": true},
            "status": {
                "conditions": [{"type": "Ready", "status": "True"}],
                "addresses": [{"type": "InternalIP", "address": "192.0.2.7"}],
                "nodeInfo": {"kubeletVersion": "v1.33.0"},
            },
        });
        assert_eq!(
            row("", "nodes", &object),
            "n1 | Ready,SchedulingDisabled | control-plane | <unknown> | v1.33.0 | 192.0.2.7 | <none> | <unknown> \
             | <unknown> | <unknown>"
        );
    }

    #[test]
    fn an_event_reads_the_same_in_both_shapes() {
        let old = json!({
            "metadata": {"name": "e"}, "type": "Normal", "reason": "Pulled", "message": "done\n", "count": 3,
            "involvedObject": {"kind": "Pod", "name": "oak"}, "source": {"component": "kubelet", "host": "n1"},
            "firstTimestamp": "2024-05-01T11:00:00Z", "lastTimestamp": "2024-05-01T11:59:00Z",
        });
        let shown = "60s | Normal | Pulled | pod/oak |  | kubelet, n1 | done | 60m | 3 | e";
        assert_eq!(row("", "events", &old), shown);
        let new = json!({
            "metadata": {"name": "e"}, "type": "Normal", "reason": "Pulled", "note": "done\n", "deprecatedCount": 3,
            "regarding": {"kind": "Pod", "name": "oak"}, "deprecatedSource": {"component": "kubelet", "host": "n1"},
            "deprecatedFirstTimestamp": "2024-05-01T11:00:00Z", "deprecatedLastTimestamp": "2024-05-01T11:59:00Z",
        });
        assert_eq!(row("events.k8s.io", "events", &new), shown);
    }

    #[test]
    fn kinds_of_no_special_columns_show_when_they_were_made() {
        let object = json!({"metadata": {"name": "view", "creationTimestamp": "2024-05-01T11:00:00Z"}});
        assert_eq!(row("rbac.authorization.k8s.io", "clusterroles", &object), "view | 2024-05-01T11:00:00Z");
        assert_eq!(row("apiextensions.k8s.io", "customresourcedefinitions", &object), "view | 2024-05-01T11:00:00Z");
    }

    #[test]
    fn maps_and_secrets_show_how_many_keys_they_have() {
        let object = json!({"metadata": {"name": "m"}, "type": "Opaque", "data": {"a": "", "b": ""}});
        assert_eq!(row("", "configmaps", &object), "m | 2 | <unknown>");
        assert_eq!(row("", "secrets", &object), "m | Opaque | 2 | <unknown>");
    }
}
