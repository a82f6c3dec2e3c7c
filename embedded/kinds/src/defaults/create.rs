//! What a real API server does to an object when it is created, and which parts of it an update may touch.

use serde_json::{Value, json};

use crate::qos;
use crate::read::{bool_at, list_at, str_at};
use crate::resource::Resource;
use crate::service;
use crate::write::{child, ensure, fill, put};

/// The status that a new object has whatever its creator wrote, for the kinds whose status is not theirs to write.
pub fn initial_status(resource: &Resource, object: &Value) -> Option<Value> {
    Some(match resource.built_in_kind() {
        ("", "Pod") => pod_status(object),
        ("", "Namespace") => json!({"phase": "Active"}),
        ("", "PersistentVolumeClaim" | "PersistentVolume") => json!({"phase": "Pending"}),
        ("", "Service") | ("networking.k8s.io", "Ingress") => json!({"loadBalancer": {}}),
        ("", "ReplicationController") | ("apps", "ReplicaSet") => json!({"replicas": 0}),
        ("apps", "StatefulSet") => json!({"replicas": 0, "availableReplicas": 0}),
        ("apps", "DaemonSet") => json!({
            "currentNumberScheduled": 0, "desiredNumberScheduled": 0, "numberMisscheduled": 0, "numberReady": 0,
        }),
        ("policy", "PodDisruptionBudget") => {
            json!({"currentHealthy": 0, "desiredHealthy": 0, "disruptionsAllowed": 0, "expectedPods": 0})
        }
        ("autoscaling", "HorizontalPodAutoscaler") => json!({"currentReplicas": 0, "desiredReplicas": 0}),
        ("", "ResourceQuota")
        | ("apps", "Deployment")
        | ("batch", "Job" | "CronJob")
        | ("certificates.k8s.io", "CertificateSigningRequest")
        | ("storage.k8s.io", "VolumeAttachment") => json!({}),
        ("apiextensions.k8s.io", "CustomResourceDefinition") => json!({
            "acceptedNames": {"kind": "", "plural": ""}, "conditions": [], "storedVersions": stored(object),
        }),
        _ => return None,
    })
}

/// A pod that is held back says so from the beginning; no one else would.
fn pod_status(pod: &Value) -> Value {
    let spec = &pod["spec"];
    let mut status = json!({"phase": "Pending", "qosClass": qos::class(spec)});
    if !list_at(spec, "schedulingGates").is_empty() {
        status["conditions"] = json!([{
            "type": "PodScheduled", "status": "False", "reason": "SchedulingGated", "observedGeneration": 1,
            "message": "Scheduling is blocked due to non-empty scheduling gates",
        }]);
    }
    status
}

fn stored(definition: &Value) -> Vec<&str> {
    let versions = definition["spec"]["versions"].as_array();
    let is_stored = |version: &&Value| bool_at(version, "storage");
    versions.into_iter().flatten().filter(is_stored).map(|version| str_at(version, "name")).collect()
}

/// Puts the initial status in place, and what else belongs to creation: the finalizer of a namespace, and the selector
/// of a job with the labels that it selects. Drops the status of a custom resource that has a status subresource.
/// Expects defaults, a name and a uid.
pub fn prepare_create(resource: &Resource, object: &mut Value) {
    if resource.custom().is_some_and(|custom| custom.status)
        && let Some(fields) = object.as_object_mut()
    {
        fields.remove("status");
    }
    if let Some(status) = initial_status(resource, object) {
        put(object, "status", status);
    }
    match resource.built_in_kind() {
        ("", "Namespace") => {
            if let Some(spec) = ensure(object, "spec") {
                fill(spec, "finalizers", json!(["kubernetes"]));
            }
        }
        ("batch", "Job") if !bool_at(&object["spec"], "manualSelector") => select_own_pods(object),
        _ => {}
    }
}

/// Takes back what an update of the object itself may not touch: the status, where that is a subresource, the
/// finalizers of a namespace, and what a Service has been given.
pub fn prepare_update(resource: &Resource, object: &mut Value, old: &Value) {
    if resource.subresource("status").is_some() {
        keep(object, old, "status");
    }
    match resource.built_in_kind() {
        ("", "Namespace") => {
            if let Some(spec) = ensure(object, "spec") {
                keep(spec, &old["spec"], "finalizers");
            }
        }
        // What was asked for is what is signed.
        ("certificates.k8s.io", _) => keep(object, old, "spec"),
        ("", "Service") => {
            if let Some(spec) = child(object, "spec") {
                service::keep_what_was_given(spec, &old["spec"]);
            }
        }
        _ => {}
    }
}

/// Takes back what an update of the status may not touch: everything but the status and, of the metadata, what a
/// status update may change along with it (managed fields, and for built-in kinds labels and annotations; a Deployment's
/// labels stay).
pub fn prepare_status_update(resource: &Resource, object: &mut Value, old: &Value) {
    let status = object.get("status").cloned();
    let metadata = object.get("metadata").cloned();
    *object = old.clone();
    match status {
        Some(status) => put(object, "status", status),
        None => keep(object, &Value::Null, "status"),
    }
    let may_change: &[&str] = match (resource.custom(), resource.kind.as_str()) {
        (Some(_), _) => &["managedFields"],
        (None, "Deployment") => &["managedFields", "annotations"],
        (None, _) => &["managedFields", "labels", "annotations"],
    };
    if let (Some(new), Some(kept)) = (metadata, child(object, "metadata")) {
        for field in may_change {
            keep(kept, &new, field);
        }
    }
}

/// Makes a field what it is in another value, missing included.
fn keep(value: &mut Value, from: &Value, field: &str) {
    match (from.get(field), value.as_object_mut()) {
        (Some(kept), _) => put(value, field, kept.clone()),
        (None, Some(fields)) => drop(fields.remove(field)),
        (None, None) => {}
    }
}

/// A job finds its pods by its own uid, so that two jobs of one template never count each other's.
fn select_own_pods(job: &mut Value) {
    let metadata = &job["metadata"];
    let (name, uid) = (str_at(metadata, "name").to_owned(), str_at(metadata, "uid").to_owned());
    let Some(spec) = child(job, "spec") else { return };
    let labels = ensure(spec, "template")
        .and_then(|template| ensure(template, "metadata"))
        .and_then(|metadata| ensure(metadata, "labels"));
    if let Some(labels) = labels {
        for prefix in ["", "batch.kubernetes.io/"] {
            fill(labels, &format!("{prefix}job-name"), name.clone());
            fill(labels, &format!("{prefix}controller-uid"), uid.clone());
        }
    }
    if let Some(selector) = ensure(spec, "selector").and_then(|selector| ensure(selector, "matchLabels")) {
        fill(selector, "batch.kubernetes.io/controller-uid", uid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resource::find;

    #[test]
    fn a_job_selects_the_pods_that_carry_its_uid() {
        let mut job = json!({"metadata": {"name": "sync", "uid": "u-1"}, "spec": {"template": {"spec": {}}}});
        prepare_create(find("batch", "v1", "jobs").unwrap(), &mut job);
        assert_eq!(job["spec"]["selector"], json!({"matchLabels": {"batch.kubernetes.io/controller-uid": "u-1"}}));
        assert_eq!(
            job["spec"]["template"]["metadata"]["labels"],
            json!({
                "controller-uid": "u-1", "batch.kubernetes.io/controller-uid": "u-1",
                "job-name": "sync", "batch.kubernetes.io/job-name": "sync",
            })
        );
    }

    #[test]
    fn the_status_that_a_creator_writes_is_not_kept() {
        let mut pod = json!({"spec": {"containers": []}, "status": {"phase": "Running"}});
        prepare_create(find("", "v1", "pods").unwrap(), &mut pod);
        assert_eq!(pod["status"], json!({"phase": "Pending", "qosClass": "BestEffort"}));
    }

    #[test]
    fn a_pod_that_is_held_back_says_so_from_the_beginning() {
        let mut pod = json!({"spec": {"containers": [], "schedulingGates": [{"name": "example.com/quota"}]}});
        prepare_create(find("", "v1", "pods").unwrap(), &mut pod);
        let condition = &pod["status"]["conditions"][0];
        assert_eq!((&condition["type"], &condition["reason"]), (&json!("PodScheduled"), &json!("SchedulingGated")));
        assert_eq!(condition["observedGeneration"], 1);
    }

    #[test]
    fn the_object_and_its_status_are_written_apart() {
        let old = json!({"metadata": {"name": "a", "labels": {"x": "1"}}, "spec": {"n": 1}, "status": {"s": 1}});
        let new = json!({"metadata": {"name": "a", "labels": {"x": "2"}}, "spec": {"n": 2}, "status": {"s": 2}});
        let deployments = find("apps", "v1", "deployments").unwrap();
        let mut object = new.clone();
        prepare_update(deployments, &mut object, &old);
        assert_eq!((&object["spec"]["n"], &object["status"]["s"]), (&json!(2), &json!(1)));
        let mut object = new.clone();
        prepare_status_update(deployments, &mut object, &old);
        assert_eq!((&object["spec"]["n"], &object["status"]["s"]), (&json!(1), &json!(2)));
        assert_eq!(object["metadata"]["labels"]["x"], "1", "a deployment's labels are not its status's");
        let mut object = new.clone();
        prepare_status_update(find("apps", "v1", "replicasets").unwrap(), &mut object, &old);
        assert_eq!(object["metadata"]["labels"]["x"], "2");
        let maps = find("", "v1", "configmaps").unwrap();
        let mut object = new.clone();
        prepare_update(maps, &mut object, &old);
        assert_eq!(object, new, "a kind without a status subresource is written as a whole");
    }

    #[test]
    fn a_new_namespace_is_active_and_held_by_its_finalizer() {
        let mut namespace = json!({"metadata": {"name": "grove"}});
        prepare_create(find("", "v1", "namespaces").unwrap(), &mut namespace);
        assert_eq!(namespace["spec"], json!({"finalizers": ["kubernetes"]}));
        assert_eq!(namespace["status"], json!({"phase": "Active"}));
    }
}
