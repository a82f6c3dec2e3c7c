//! Putting a pod on a node.

use std::sync::Arc;

use c5c3_store::{Expect, WriteError};
use http::StatusCode;
use serde_json::Value;

use super::Done;
use crate::admission;
use crate::call::Call;
use crate::controllers::set_pod_condition;
use crate::object::{is_going, meta, of_entry, put};
use crate::status::{ApiError, Reason, done};

/// Puts a pod on a node, for good. The pod is the one that the path names, or else the binding.
pub(super) async fn bind(call: &Call<'_>) -> Result<Done, ApiError> {
    let binding = admission::mutate(call, "CREATE", call.object()?, None).await?;
    let pods = call.server.registry().find("", "v1", "pods").ok_or_else(ApiError::no_such_path)?;
    let name = call.target.name.as_deref().unwrap_or_else(|| meta(&binding, "name"));
    check(&binding, name)?;
    admission::admit(call, "CREATE", &binding, None).await?;
    let key = pods.key(call.target.namespace.as_deref(), name);
    loop {
        let entry = call.server.store().get(&key).ok_or_else(|| ApiError::not_found(&pods.resource, name))?;
        let mut pod = of_entry(&pods.resource, &entry)?;
        assign(&mut pod, &binding).map_err(|why| {
            let message = format!("Operation cannot be fulfilled on pods/binding \"{name}\": {why}");
            ApiError { message, ..ApiError::conflict(&pods.resource, name, "") }
        })?;
        let answer = Done { code: StatusCode::CREATED, ..Done::ok(done()) };
        if call.is_dry_run()? {
            return Ok(answer);
        }
        match put(call.server.store(), &pods, &key, Expect::Revision(entry.revision), &Arc::new(pod)).await {
            Ok(_) => return Ok(answer),
            Err(WriteError::Conflict { .. }) => {}
            Err(error) => return Err(ApiError::internal(error.to_string())),
        }
    }
}

fn check(binding: &Value, name: &str) -> Result<(), ApiError> {
    let invalid = |what: &str| {
        let message = format!("Binding \"{name}\" is invalid: {what}");
        Err(ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, Reason::Invalid, message))
    };
    if !meta(binding, "name").is_empty() && meta(binding, "name") != name {
        return Err(ApiError::bad_request("name in URL does not match name in Binding object"));
    }
    match (binding["target"]["kind"].as_str().unwrap_or_default(), binding["target"]["name"].as_str()) {
        ("" | "Node", Some(node)) if !node.is_empty() => Ok(()),
        ("" | "Node", _) => invalid("target.name: Required value"),
        (kind, _) => {
            invalid(&format!("target.kind: Unsupported value: {kind:?}: supported values: \"Node\", \"<empty>\""))
        }
    }
}

/// Writes the node into the pod, or says why not.
fn assign(pod: &mut Value, binding: &Value) -> Result<(), String> {
    let name = meta(pod, "name").to_owned();
    if let Some(uid) = binding["metadata"]["uid"].as_str().filter(|uid| !uid.is_empty() && *uid != meta(pod, "uid")) {
        return Err(format!(
            "Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
            meta(pod, "uid")
        ));
    }
    if is_going(pod) {
        return Err(format!("pod {name} is being deleted, cannot be assigned to a host"));
    }
    if let Some(node) = pod["spec"]["nodeName"].as_str().filter(|node| !node.is_empty()) {
        return Err(format!("pod {name} is already assigned to node {node:?}"));
    }
    if pod["spec"]["schedulingGates"].as_array().is_some_and(|gates| !gates.is_empty()) {
        return Err(format!("pod {name} has non-empty .spec.schedulingGates"));
    }
    pod["spec"]["nodeName"] = binding["target"]["name"].clone();
    for (key, value) in binding["metadata"]["annotations"].as_object().into_iter().flatten() {
        pod["metadata"]["annotations"][key] = value.clone();
    }
    set_pod_condition(pod, "PodScheduled", "True", "", "");
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pod_that_waits_or_goes_is_not_bound() {
        let binding = json!({"metadata": {"annotations": {"a": "b"}}, "target": {"name": "n"}});
        for (pod, why) in [
            (
                json!({"metadata": {"name": "p", "deletionTimestamp": "2026-01-31T12:00:00Z"}}),
                "pod p is being deleted, cannot be assigned to a host",
            ),
            (json!({"metadata": {"name": "p"}, "spec": {"nodeName": "m"}}), "pod p is already assigned to node \"m\""),
            (
                json!({"metadata": {"name": "p"}, "spec": {"schedulingGates": [{"name": "g"}]}}),
                "pod p has non-empty .spec.schedulingGates",
            ),
        ] {
            let mut pod = pod;
            assert_eq!(assign(&mut pod, &binding), Err(why.to_owned()));
        }
        let mut pod = json!({"metadata": {"name": "p", "generation": 3}, "spec": {}});
        assign(&mut pod, &binding).unwrap();
        assert_eq!((&pod["spec"]["nodeName"], &pod["metadata"]["annotations"]["a"]), (&json!("n"), &json!("b")));
        let condition = pod["status"]["conditions"][0].as_object().unwrap();
        assert_eq!((&condition["type"], condition.get("reason")), (&json!("PodScheduled"), None));
        assert_eq!((&condition["observedGeneration"], &pod["metadata"]["generation"]), (&json!(3), &json!(3)));
    }
}
