//! Validation of objects: metadata of every kind, and of built-in kinds the rules that tools rely on. Messages have the
//! form of a real API server's, `spec.replicas: Invalid value: -1: must be ...`.

mod addresses;
mod batch;
mod config;
mod container;
mod definition;
mod ephemeral;
mod metadata;
mod names;
mod network;
mod pod;
mod policies;
mod policy;
mod rbac;
mod report;
mod security;
mod service;
mod storage;
mod volume;
mod walk;
mod webhook;
mod workload;

use c5c3_schema::Problems;
use serde_json::Value;

pub use ephemeral::validate_ephemeral_containers;
pub use metadata::validate_metadata;

use crate::resource::{Resource, Verb};
use report::Report;

/// What is wrong with an object that is about to be created, or to replace `old`: its metadata, and for built-in kinds
/// the rest of it. Expects a defaulted object. Custom resources have their schemas besides.
///
/// This is for writes to the object itself. What a subresource may change (a pod's node by binding it, any
/// status) is not held against its immutable fields, so for those [`validate_metadata`] is enough. A pod's ephemeral
/// containers have [`validate_ephemeral_containers`].
pub fn validate(resource: &Resource, object: &Value, old: Option<&Value>) -> Problems {
    if !resource.allows(Verb::Get) {
        // A review or a binding is an act, not an object: what its metadata says is no one's name.
        return Problems::new();
    }
    let old_metadata = old.map(|old| &old["metadata"]);
    let mut problems = validate_metadata(&object["metadata"], old_metadata, resource.namespaced, resource.name_rule);
    if resource.custom().is_some() {
        return problems;
    }
    let mut report = Report::default();
    walk::walk(&crate::schema::schema(resource), object, &mut report);
    kind(resource, object, old, &mut report);
    problems.extend(report.into_problems());
    problems
}

fn kind(resource: &Resource, object: &Value, old: Option<&Value>, report: &mut Report) {
    match resource.built_in_kind() {
        ("", "Pod") => pod::pod(object, old, report),
        ("", "PodTemplate") => pod::template("template", &object["template"], report),
        ("", "ReplicationController") => workload::replication_controller(object, report),
        ("apps", "Deployment") => workload::deployment(object, old, report),
        ("apps", "ReplicaSet") => workload::replica_set(object, old, report),
        ("apps", "DaemonSet") => workload::daemon_set(object, old, report),
        ("apps", "StatefulSet") => workload::stateful_set(object, old, report),
        ("apps", "ControllerRevision") => workload::revision(object, old, report),
        ("batch", "Job") => batch::job(object, old, report),
        ("batch", "CronJob") => batch::cron_job(object, report),
        ("", "Service") => service::service(object, old, report),
        ("", "ConfigMap") => config::config_map(object, old, report),
        ("", "Secret") => config::secret(object, old, report),
        ("", "PersistentVolumeClaim") => storage::claim(object, old, report),
        ("", "PersistentVolume") => storage::volume(object, old, report),
        ("storage.k8s.io", "StorageClass") => storage::class(object, old, report),
        ("storage.k8s.io", "VolumeAttributesClass") => storage::attributes_class(object, old, report),
        ("rbac.authorization.k8s.io", kind) => rbac::rbac(kind, object, old, report),
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy") => policies::validating(object, report),
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding") => {
            policies::validating_binding(object, report);
        }
        ("admissionregistration.k8s.io", "MutatingAdmissionPolicy") => policies::mutating(object, report),
        ("admissionregistration.k8s.io", "MutatingAdmissionPolicyBinding") => policies::binding(object, report),
        ("admissionregistration.k8s.io", _) => webhook::configuration(object, report),
        ("apiextensions.k8s.io", _) => definition::definition(object, old, report),
        ("policy", "PodDisruptionBudget") => policy::disruption_budget(object, report),
        ("autoscaling", "HorizontalPodAutoscaler") => policy::autoscaler(object, report),
        ("scheduling.k8s.io", "PriorityClass") => policy::priority_class(object, old, report),
        ("coordination.k8s.io", "Lease") => policy::lease(object, report),
        ("", "Event") => policy::event(object, report),
        ("networking.k8s.io", "Ingress") => network::ingress(object, report),
        ("networking.k8s.io", "NetworkPolicy") => network::policy(object, report),
        ("networking.k8s.io", "IPAddress") => addresses::ip_address(object, old, report),
        ("networking.k8s.io", "ServiceCIDR") => addresses::service_cidr(object, old, report),
        ("discovery.k8s.io", "EndpointSlice") => network::endpoint_slice(object, old, report),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::resource::{builtin, custom, find};

    /// What is wrong with an object of a built-in kind, after defaults, one problem a line.
    pub(super) fn problems(group: &str, plural: &str, object: &Value, old: Option<&Value>) -> Vec<String> {
        let resource = builtin().iter().find(|r| r.group == group && r.plural == plural).unwrap();
        let complete = |object: &Value| {
            let mut object = object.clone();
            object["metadata"]["name"] = json!("oak");
            if resource.namespaced {
                object["metadata"]["namespace"] = json!("grove");
            }
            crate::default(resource, &mut object);
            object
        };
        let old = old.map(complete);
        validate(resource, &complete(object), old.as_ref()).iter().map(ToString::to_string).collect()
    }

    /// Adds fields to an object.
    pub(super) fn extend(object: &mut Value, more: Value) {
        if let (Some(object), Value::Object(more)) = (object.as_object_mut(), more) {
            object.extend(more);
        }
    }

    /// Asserts that one of the problems is this.
    #[track_caller]
    pub(super) fn assert_has(problems: &[String], wanted: &str) {
        assert!(problems.iter().any(|problem| problem == wanted), "{problems:#?} does not have {wanted:?}");
    }

    #[test]
    fn a_custom_resource_is_judged_by_its_metadata_here() {
        let resources = custom(&json!({"spec": {
            "group": "example.com", "scope": "Cluster", "names": {"plural": "trees", "kind": "Tree"},
            "versions": [{"name": "v1", "served": true, "storage": true}],
        }}));
        let problems = validate(&resources[0], &json!({"metadata": {"name": "Oak"}, "spec": {"any": 1}}), None);
        assert_eq!(problems.len(), 1);
    }

    #[test]
    fn nothing_shaped_wrongly_makes_validation_fail() {
        for resource in builtin() {
            for object in [json!({}), json!([]), json!({"spec": [], "metadata": 1, "webhooks": {}, "rules": [1]})] {
                validate(resource, &object, Some(&object));
            }
        }
        assert!(find("", "v1", "pods").is_some());
    }

    #[test]
    fn required_strings_and_enumerated_values_are_checked_wherever_they_are() {
        let problems = problems(
            "",
            "pods",
            &json!({"spec": {"restartPolicy": "Sometimes", "containers": [{"name": "c", "image": "i", "env": [{}]}]}}),
            None,
        );
        assert_has(&problems, "spec.containers[0].env[0].name: Required value");
        assert_has(
            &problems,
            r#"spec.restartPolicy: Unsupported value: "Sometimes": supported values: "Always", "Never", "OnFailure""#,
        );
    }

    #[test]
    fn quantities_must_parse() {
        let problems = problems(
            "",
            "pods",
            &json!({"spec": {"containers": [{"name": "c", "image": "i", "resources": {"limits": {"cpu": "much"}}}]}}),
            None,
        );
        assert!(problems[0].starts_with(r#"spec.containers[0].resources.limits[cpu]: Invalid value: "much": "#));
    }
}
