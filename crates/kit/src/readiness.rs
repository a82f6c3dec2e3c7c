//! Whether an object is what it should become, told from its status alone. A table, so that it can be read.

use c5c3_api::ext::{self, Ready};
use kube::api::DynamicObject;
use serde_json::Value;

use crate::object::{Ref, condition};
use crate::wait::Wait;

/// How a kind says that it is ready.
enum Says {
    /// By being there.
    Exists,
    /// By conditions that are true.
    Conditions(&'static [&'static str]),
    /// By all replicas being updated and available.
    Replicas,
    /// By having run to its end.
    Job,
    /// By being bound.
    Claim,
}

/// What is known of kinds that do not follow the rule "has a status with conditions: Ready is true". The kinds of other
/// projects are judged by [`c5c3_api::ext::readiness`], where what is known of them stands.
fn says(kind: &str, group: &str) -> Says {
    match (group, kind) {
        ("apps", "Deployment" | "StatefulSet" | "DaemonSet") => Says::Replicas,
        ("batch", "Job") => Says::Job,
        ("", "PersistentVolumeClaim") => Says::Claim,
        ("openstack.k-orc.cloud", _) => Says::Conditions(&["Available"]),
        // Kubernetes' own kinds have no dots in their groups, or end in k8s.io.
        ("" | "apps" | "batch" | "policy" | "autoscaling", _) => Says::Exists,
        (group, _) if group.ends_with(".k8s.io") => Says::Exists,
        _ => Says::Conditions(&["Ready"]),
    }
}

/// What is still waited for before `object` is ready; none when it is.
pub fn wait(reference: &Ref, object: &DynamicObject) -> Option<Wait> {
    if object.metadata.deletion_timestamp.is_some() {
        return Some(look(reference, "exists").now("is being deleted"));
    }
    let value = serde_json::to_value(object).unwrap_or(Value::Null);
    if let Some(ready) = ext::readiness(&reference.resource.group, &reference.resource.kind, &value) {
        return match ready {
            Ready::Yes => None,
            Ready::No { reason, message } => Some(look(reference, "Ready").now(format!("{reason}: {message}"))),
        };
    }
    let status = object.data.get("status").unwrap_or(&Value::Null);
    match says(&reference.resource.kind, &reference.resource.group) {
        Says::Exists => None,
        Says::Conditions(types) => types.iter().find_map(|condition_type| {
            stale(object, status)
                .map(|now| look(reference, condition_type).now(now))
                .or_else(|| untrue(reference, object, condition_type))
        }),
        Says::Replicas => replicas(reference, object, status),
        Says::Job => job(reference, object, status),
        Says::Claim => (status["phase"] != "Bound").then(|| {
            look(reference, "Bound").now(
                status["phase"].as_str().map_or("it has no phase yet".into(), |phase| format!("its phase is {phase}")),
            )
        }),
    }
}

fn look(reference: &Ref, condition: &str) -> Wait {
    let namespace = reference.namespace.as_ref().map(|namespace| format!(" -n {namespace}")).unwrap_or_default();
    let kind = match reference.resource.group.as_str() {
        "" => reference.resource.plural.clone(),
        // Several projects have a User: the group tells them apart.
        group => format!("{}.{group}", reference.resource.plural),
    };
    Wait::on(reference).condition(condition).look_at(format!("kubectl describe {kind} {}{namespace}", reference.name))
}

fn no_status(reference: &Ref) -> String {
    format!("it has no status yet; is the operator of {} running?", reference.resource.group)
}

/// Says so if the status is about an older generation of the object.
fn stale(object: &DynamicObject, status: &Value) -> Option<String> {
    let observed = status.get("observedGeneration")?.as_i64()?;
    let generation = object.metadata.generation?;
    (observed < generation).then(|| format!("its status is about generation {observed} of {generation}"))
}

fn untrue(reference: &Ref, object: &DynamicObject, condition_type: &str) -> Option<Wait> {
    let wait = look(reference, condition_type);
    let Some(found) = condition(object, condition_type) else {
        let has_status = object.data.get("status").is_some_and(|status| !status.is_null());
        return Some(wait.now(if has_status { "the condition is not set yet".into() } else { no_status(reference) }));
    };
    let observed = found["observedGeneration"].as_i64();
    if let (Some(observed), Some(generation)) = (observed, object.metadata.generation)
        && observed < generation
    {
        return Some(wait.now(format!("the condition is about generation {observed} of {generation}")));
    }
    if found["status"] == "True" {
        return None;
    }
    let text = |field: &str| found[field].as_str().filter(|text| !text.is_empty());
    let why = [text("reason"), text("message")].into_iter().flatten().collect::<Vec<_>>().join(": ");
    let status = found["status"].as_str().unwrap_or("Unknown");
    Some(wait.now(if why.is_empty() { format!("the condition is {status}") } else { why }))
}

fn replicas(reference: &Ref, object: &DynamicObject, status: &Value) -> Option<Wait> {
    let number = |field: &str| status.get(field).and_then(Value::as_i64).unwrap_or(0);
    let wait = look(reference, "Available");
    if let Some(now) = stale(object, status) {
        return Some(wait.now(now));
    }
    // A new DaemonSet has a status of zeros before its controller has looked at it.
    if status.get("observedGeneration").is_none() {
        return Some(wait.now("it has no status yet"));
    }
    let (wanted, updated, available) = if reference.resource.kind == "DaemonSet" {
        (number("desiredNumberScheduled"), number("updatedNumberScheduled"), number("numberAvailable"))
    } else {
        let wanted = object.data["spec"]["replicas"].as_i64().unwrap_or(1);
        (wanted, number("updatedReplicas"), number("availableReplicas"))
    };
    if let Some(progressing) = condition(object, "Progressing")
        && progressing["reason"] == "ProgressDeadlineExceeded"
    {
        let now = format!("has {available} of {wanted} replicas available and makes no progress");
        return Some(wait.now(now).failed("RolloutStuck"));
    }
    // A workload that is switched off has all replicas that it was asked for, and serves nothing.
    if wanted == 0 && reference.resource.kind != "DaemonSet" {
        return Some(wait.now("is scaled to 0 replicas, so it serves nothing").failed("ScaledToZero"));
    }
    let left_over = if reference.resource.kind == "Deployment" { number("replicas") - updated } else { 0 };
    match () {
        () if updated < wanted => Some(wait.now(format!("{updated} of {wanted} updated, {available} available"))),
        () if available < wanted => Some(wait.now(format!("{available} of {wanted} available"))),
        () if left_over > 0 => Some(wait.now(format!("{left_over} old replicas still running"))),
        () => None,
    }
}

fn job(reference: &Ref, object: &DynamicObject, status: &Value) -> Option<Wait> {
    let wait = look(reference, "Complete");
    if condition(object, "Complete").is_some_and(|c| c["status"] == "True") {
        return None;
    }
    if let Some(failed) = condition(object, "Failed").filter(|c| c["status"] == "True") {
        let why = failed["message"].as_str().or(failed["reason"].as_str()).unwrap_or("failed");
        let logs = format!(
            "kubectl logs job/{}{}",
            reference.name,
            reference.namespace.as_ref().map(|namespace| format!(" -n {namespace}")).unwrap_or_default()
        );
        return Some(wait.now(format!("failed: {why}")).look_at(logs).failed("JobFailed"));
    }
    let failures = status.get("failed").and_then(Value::as_i64).unwrap_or(0);
    Some(wait.now(if failures > 0 { format!("running, {failures} attempts failed") } else { "running".into() }))
}

#[cfg(test)]
mod tests {
    use kube::core::{ApiResource, GroupVersionKind};
    use serde_json::json;

    use super::*;

    /// What is waited for, of an object with that status.
    fn waits(api_version: &str, kind: &str, status: Value) -> Option<String> {
        let mut object = json!({"apiVersion": api_version, "kind": kind,
            "metadata": {"name": "x", "namespace": "orchard", "generation": 2}, "spec": {"replicas": 3}});
        if !status.is_null() {
            object["status"] = status;
        }
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        let reference = Ref { resource, namespace: Some("orchard".into()), name: "x".into() };
        wait(&reference, &serde_json::from_value(object).unwrap()).map(|wait| wait.now.unwrap_or_default())
    }

    #[test]
    fn a_workload_is_ready_when_its_own_controller_says_that_all_replicas_are() {
        let status = |updated: i64, available: i64| json!({"observedGeneration": 2, "replicas": 3, "updatedReplicas": updated, "availableReplicas": available});
        assert_eq!(waits("apps/v1", "Deployment", status(3, 3)), None);
        assert_eq!(waits("apps/v1", "Deployment", status(3, 2)).as_deref(), Some("2 of 3 available"));
        assert_eq!(waits("apps/v1", "StatefulSet", status(1, 3)).as_deref(), Some("1 of 3 updated, 3 available"));
        let old = json!({"observedGeneration": 1, "replicas": 3, "updatedReplicas": 3, "availableReplicas": 3});
        assert_eq!(waits("apps/v1", "Deployment", old).as_deref(), Some("its status is about generation 1 of 2"));
        let zeros = json!({"currentNumberScheduled": 0, "desiredNumberScheduled": 0, "numberReady": 0});
        assert_eq!(waits("apps/v1", "DaemonSet", zeros).as_deref(), Some("it has no status yet"));
    }

    #[test]
    fn a_workload_without_replicas_is_not_ready() {
        let off = |kind: &str| {
            let object = json!({"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "x", "generation": 2},
                "spec": {"replicas": 0}, "status": {"observedGeneration": 2}});
            let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("apps", "v1", kind));
            let reference = Ref { resource, namespace: None, name: "x".into() };
            wait(&reference, &serde_json::from_value(object).unwrap()).map(|wait| wait.reason())
        };
        assert_eq!(off("Deployment").as_deref(), Some("ScaledToZero"));
        assert_eq!(off("StatefulSet").as_deref(), Some("ScaledToZero"));
        assert_eq!(off("DaemonSet"), None, "no node asks for a pod");
    }

    #[test]
    fn a_job_is_ready_when_it_is_complete_and_stuck_when_it_failed() {
        let with = |kind: &str| json!({"conditions": [{"type": kind, "status": "True", "message": "too often"}]});
        assert_eq!(waits("batch/v1", "Job", with("Complete")), None);
        assert_eq!(waits("batch/v1", "Job", with("Failed")).as_deref(), Some("failed: too often"));
        assert_eq!(waits("batch/v1", "Job", json!({"failed": 2})).as_deref(), Some("running, 2 attempts failed"));
    }

    #[test]
    fn a_kind_of_ours_is_ready_by_its_condition_and_says_why_not() {
        let ready = |status: &str| json!({"conditions": [{"type": "Ready", "status": status, "reason": "Busy", "message": "wait", "observedGeneration": 2}]});
        assert_eq!(waits("keystone.openstack.c5c3.io/v1alpha1", "Keystone", ready("True")), None);
        assert_eq!(
            waits("keystone.openstack.c5c3.io/v1alpha1", "Keystone", ready("False")).as_deref(),
            Some("Busy: wait")
        );
        assert!(
            waits("keystone.openstack.c5c3.io/v1alpha1", "Keystone", Value::Null).unwrap().contains("is the operator")
        );
    }

    #[test]
    fn a_kind_of_another_project_is_judged_by_what_is_known_of_it() {
        let pending = json!({"state": "Processing", "observedGeneration": 2});
        assert!(waits("cache.cs.sap.com/v1alpha1", "Valkey", pending).unwrap().contains("Processing"));
        assert_eq!(waits("v1", "ConfigMap", Value::Null), None);
    }
}
