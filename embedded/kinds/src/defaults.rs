//! Defaults that a real API server writes into the objects of built-in kinds, so that what a client reads back is
//! complete. Custom resources get theirs from their schemas.

mod admission;
mod autoscaling;
mod create;
mod network;
mod pod;
mod storage;
mod volume;
mod workload;

use k8s_openapi::ByteString;
use serde_json::{Value, json};

use crate::quantity;
use crate::read::str_at;
use crate::resource::Resource;
use crate::schema::{compiled, schema};
use crate::write::{child, each, ensure, fill};

pub use create::{initial_status, prepare_create, prepare_status_update, prepare_update};

/// Fills in the defaults of a built-in kind, drops its nulls, which stand for nothing, and writes its quantities in
/// canonical form. Does nothing to custom resources. Applying it twice is the same as applying it once.
pub fn default(resource: &Resource, object: &mut Value) {
    let Some(compiled) = compiled(resource) else { return };
    compiled.default(object);
    quantity::canonicalize(&schema(resource), object);
    match (resource.group.as_str(), resource.kind.as_str()) {
        ("", "Pod") => pod::pod(object),
        ("", "PodTemplate") => {
            if let Some(template) = child(object, "template") {
                pod::template(template);
            }
        }
        ("", "ReplicationController") => workload::replication_controller(object),
        ("", "Service") => network::service(object),
        ("", "Endpoints") => each(object, "subsets", network::port_protocols),
        ("", "Secret") => secret(object),
        ("", "PersistentVolumeClaim") => storage::claim(object),
        ("", "PersistentVolume") => storage::volume(object),
        ("", "Namespace") => namespace(object),
        ("", "Node") => node(object),
        ("", "LimitRange") => limit_range(object),
        ("apps", "Deployment") => workload::deployment(object),
        ("apps", "ReplicaSet") => workload::replica_set(object),
        ("apps", "StatefulSet") => workload::stateful_set(object),
        ("apps", "DaemonSet") => workload::daemon_set(object),
        ("batch", "Job") => workload::job(object),
        ("batch", "CronJob") => workload::cron_job(object),
        ("autoscaling", "HorizontalPodAutoscaler") => autoscaling::autoscaler(&resource.version, object),
        ("networking.k8s.io", "NetworkPolicy") => network::policy(object),
        ("networking.k8s.io", "IngressClass") => network::ingress_class(object),
        ("discovery.k8s.io", "EndpointSlice") => network::endpoint_slice(object),
        ("storage.k8s.io", "StorageClass") => storage::class(object),
        ("storage.k8s.io", "CSIDriver") => storage::csi_driver(object),
        ("scheduling.k8s.io", "PriorityClass") => fill(object, "preemptionPolicy", "PreemptLowerPriority"),
        ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding") => binding(object),
        ("admissionregistration.k8s.io", kind) if kind.contains("AdmissionPolicy") => {
            admission::policy(kind, object);
        }
        ("admissionregistration.k8s.io", kind) => admission::webhooks(kind, object),
        ("flowcontrol.apiserver.k8s.io", "FlowSchema") => {
            if let Some(spec) = child(object, "spec") {
                fill(spec, "matchingPrecedence", 1000);
            }
        }
        ("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration") => priority_level(object),
        ("apiextensions.k8s.io", "CustomResourceDefinition") => definition(object),
        _ => {}
    }
}

/// `stringData` is a convenience for writing: it ends up, encoded, in `data`.
fn secret(secret: &mut Value) {
    fill(secret, "type", "Opaque");
    let Some(plain) = secret.as_object_mut().and_then(|secret| secret.remove("stringData")) else { return };
    let Some(plain) = plain.as_object().filter(|plain| !plain.is_empty()) else { return };
    let Some(data) = ensure(secret, "data") else { return };
    for (key, text) in plain {
        data[key] = json!(ByteString(text.as_str().unwrap_or_default().as_bytes().to_vec()));
    }
}

/// Selectors of network policies and webhooks find namespaces by name through this label.
fn namespace(namespace: &mut Value) {
    let name = str_at(&namespace["metadata"], "name").to_owned();
    if name.is_empty() {
        return;
    }
    if let Some(labels) = child(namespace, "metadata").and_then(|metadata| ensure(metadata, "labels")) {
        labels["kubernetes.io/metadata.name"] = json!(name);
    }
}

fn node(node: &mut Value) {
    if let Some(status) = child(node, "status")
        && let Some(capacity) = status.get("capacity").cloned()
    {
        fill(status, "allocatable", capacity);
    }
}

/// A limit stands for the default, and the default or the minimum for the request.
fn limit_range(range: &mut Value) {
    let Some(spec) = child(range, "spec") else { return };
    each(spec, "limits", |limit| {
        if str_at(limit, "type") != "Container" {
            return;
        }
        for (target, sources) in [("default", &["max"][..]), ("defaultRequest", &["default", "min"])] {
            for source in sources {
                let Some(amounts) = limit.get(source).and_then(Value::as_object).cloned() else { continue };
                for (name, amount) in amounts {
                    if let Some(defaults) = ensure(limit, target) {
                        fill(defaults, &name, amount);
                    }
                }
            }
        }
    });
}

fn binding(binding: &mut Value) {
    const RBAC: &str = "rbac.authorization.k8s.io";
    if let Some(role) = child(binding, "roleRef") {
        fill(role, "apiGroup", RBAC);
    }
    each(binding, "subjects", |subject| {
        if matches!(str_at(subject, "kind"), "User" | "Group") {
            fill(subject, "apiGroup", RBAC);
        }
    });
}

fn priority_level(level: &mut Value) {
    let Some(spec) = child(level, "spec") else { return };
    if str_at(spec, "type") == "Exempt" {
        if let Some(exempt) = ensure(spec, "exempt") {
            fill(exempt, "nominalConcurrencyShares", 0);
            fill(exempt, "lendablePercent", 0);
        }
    } else if let Some(limited) = child(spec, "limited") {
        fill(limited, "nominalConcurrencyShares", 30);
        fill(limited, "lendablePercent", 0);
        let queuing = child(limited, "limitResponse").and_then(|response| child(response, "queuing"));
        if let Some(queuing) = queuing {
            for (field, number) in [("queues", 64), ("handSize", 8), ("queueLengthLimit", 50)] {
                fill(queuing, field, number);
            }
        }
    }
}

fn definition(definition: &mut Value) {
    let Some(spec) = child(definition, "spec") else { return };
    if let Some(names) = child(spec, "names") {
        let kind = str_at(names, "kind").to_owned();
        if !kind.is_empty() {
            fill(names, "singular", kind.to_lowercase());
            fill(names, "listKind", format!("{kind}List"));
        }
    }
    let Some(conversion) = ensure(spec, "conversion") else { return };
    fill(conversion, "strategy", "None");
    let service = child(conversion, "webhook").and_then(|hook| child(hook, "clientConfig"));
    if let Some(service) = service.and_then(|config| child(config, "service")) {
        fill(service, "port", 443);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resource::{builtin, find};

    pub(super) fn defaulted(group: &str, plural: &str, mut object: Value) -> Value {
        let resource = builtin().iter().find(|r| r.group == group && r.plural == plural).unwrap();
        default(resource, &mut object);
        let mut twice = object.clone();
        default(resource, &mut twice);
        assert_eq!(object, twice, "defaulting is idempotent");
        object
    }

    #[test]
    fn string_data_of_a_secret_becomes_data() {
        let secret =
            defaulted("", "secrets", json!({"data": {"a": "AA=="}, "stringData": {"user": "rowan", "a": "b"}}));
        assert_eq!(secret, json!({"type": "Opaque", "data": {"a": "Yg==", "user": "cm93YW4="}}));
    }

    #[test]
    fn a_namespace_is_labelled_with_its_name() {
        let namespace = defaulted("", "namespaces", json!({"metadata": {"name": "grove"}}));
        assert_eq!(namespace["metadata"]["labels"], json!({"kubernetes.io/metadata.name": "grove"}));
    }

    #[test]
    fn a_definition_gets_the_names_that_follow_from_its_kind() {
        let crd = defaulted(
            "apiextensions.k8s.io",
            "customresourcedefinitions",
            json!({"spec": {"names": {"kind": "Widget", "plural": "widgets"}}}),
        );
        assert_eq!(
            crd["spec"],
            json!({
                "names": {"kind": "Widget", "plural": "widgets", "singular": "widget", "listKind": "WidgetList"},
                "conversion": {"strategy": "None"},
            })
        );
    }

    #[test]
    fn role_references_and_people_get_their_group_and_service_accounts_do_not() {
        let binding = defaulted(
            "rbac.authorization.k8s.io",
            "rolebindings",
            json!({"roleRef": {"kind": "Role", "name": "r"}, "subjects": [
                {"kind": "User", "name": "u"}, {"kind": "ServiceAccount", "name": "s"},
            ]}),
        );
        assert_eq!(binding["roleRef"]["apiGroup"], "rbac.authorization.k8s.io");
        assert_eq!(binding["subjects"][0]["apiGroup"], "rbac.authorization.k8s.io");
        assert!(binding["subjects"][1].get("apiGroup").is_none());
    }

    #[test]
    fn limits_of_a_range_stand_for_defaults_and_defaults_for_requests() {
        let range = defaulted(
            "",
            "limitranges",
            json!({"spec": {"limits": [{"type": "Container", "max": {"cpu": 2}, "min": {"memory": "1Gi"}}]}}),
        );
        let limit = &range["spec"]["limits"][0];
        assert_eq!(limit["default"], json!({"cpu": "2"}));
        assert_eq!(limit["defaultRequest"], json!({"cpu": "2", "memory": "1Gi"}));
    }

    #[test]
    fn nothing_shaped_wrongly_makes_defaulting_fail() {
        for resource in builtin() {
            for object in [json!({}), json!([]), json!("x"), json!({"spec": 1, "metadata": [], "status": "x"})] {
                let mut object = object;
                default(resource, &mut object);
            }
        }
        assert!(find("", "v1", "pods").is_some());
    }
}
