//! What is done to a pod by way of a subresource: it is bound to a node, or asked to leave it.

use c5c3_store::{Expect, WriteError};
use http::StatusCode;
use serde_json::{Value, json};

use super::delete::{Options, delete_object};
use super::get::live;
use super::{Done, update};
use crate::call::Call;
use crate::controllers::set_condition;
use crate::object::{meta, of_entry, write};
use crate::selector::Labels;
use crate::status::ApiError;

/// Deletes a pod, unless a disruption budget says that it is needed.
pub(super) async fn evict(call: &Call<'_>) -> Result<Done, ApiError> {
    let eviction = call.object()?;
    let (_, pod) = live(call)?;
    let is_over = matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed" | "Pending"));
    let options = Options::of(call, &eviction["deleteOptions"])?;
    if !is_over && !options.dry_run {
        spend_budget(call, &pod).await?;
    }
    if !options.dry_run {
        delete_object(call.server, &call.served, &call.key(call.name()?), &options).await?;
    }
    let object = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201});
    Ok(Done { code: StatusCode::CREATED, object, warnings: Vec::new() })
}

/// Takes one disruption off the budget that the pod is under, if there is one.
async fn spend_budget(call: &Call<'_>, pod: &Value) -> Result<(), ApiError> {
    let Some(budgets) = call.server.registry().find("policy", "v1", "poddisruptionbudgets") else { return Ok(()) };
    for entry in call.server.store().list(&budgets.prefix(call.namespace())).iter() {
        let mut budget = of_entry(&budgets.resource, entry)?;
        let selector = Labels::from_object(&budget["spec"]["selector"]).map_err(ApiError::internal)?;
        if !selector.matches(&pod["metadata"]["labels"]) {
            continue;
        }
        let left = budget["status"]["disruptionsAllowed"].as_i64().unwrap_or(0);
        if left < 1 {
            return Err(refused(&budget));
        }
        budget["status"]["disruptionsAllowed"] = (left - 1).into();
        let stored = budgets.resource.clone();
        let written = call
            .server
            .store()
            .write(&entry.key, Expect::Revision(entry.revision), move |revision| Some(write(&stored, budget, revision)))
            .await;
        match written {
            Ok(_) => {}
            Err(WriteError::Conflict { .. }) => return Err(ApiError::modified(&budgets.resource, meta(pod, "name"))),
            Err(error) => return Err(ApiError::internal(error.to_string())),
        }
    }
    Ok(())
}

fn refused(budget: &Value) -> ApiError {
    let name = meta(budget, "name");
    let (healthy, needed) = (&budget["status"]["currentHealthy"], &budget["status"]["desiredHealthy"]);
    let why = format!("The disruption budget {name} needs {needed} healthy pods and has {healthy} currently");
    let message = "Cannot evict pod as it would violate the pod's disruption budget.";
    let details = json!({"causes": [{"reason": "DisruptionBudget", "message": why}]});
    ApiError { details, ..ApiError::new(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", message) }
}

/// Puts a pod on a node, for good.
pub(super) async fn bind(call: &Call<'_>) -> Result<Done, ApiError> {
    let binding = call.object()?;
    let (entry, old) = live(call)?;
    let node = binding["target"]["name"].as_str().filter(|node| !node.is_empty());
    let node = node.ok_or_else(|| ApiError::bad_request("target.name: Required value"))?;
    if let Some(why) = why_not_bound(&binding, &old) {
        return Err(ApiError::conflict(&call.served.resource, meta(&old, "name"), &why));
    }
    let mut new = old.clone();
    new["spec"]["nodeName"] = node.into();
    set_condition(&mut new, "PodScheduled", "True", "", "");
    update::store(call, &entry, &old, new).await?;
    let object = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201});
    Ok(Done { code: StatusCode::CREATED, object, warnings: Vec::new() })
}

/// Why a pod cannot be given a node, if it cannot.
fn why_not_bound(binding: &Value, pod: &Value) -> Option<String> {
    let name = meta(pod, "name");
    let (meant, uid) = (meta(binding, "uid"), meta(pod, "uid"));
    if !meant.is_empty() && meant != uid {
        return Some(format!("Precondition failed: UID in precondition: {meant}, UID in object meta: {uid}"));
    }
    if !meta(pod, "deletionTimestamp").is_empty() {
        return Some(format!("pod {name} is being deleted, cannot be assigned to a host"));
    }
    if let Some(node) = pod["spec"]["nodeName"].as_str().filter(|node| !node.is_empty()) {
        return Some(format!("pod {name} is already assigned to node {node:?}"));
    }
    let gates = pod["spec"]["schedulingGates"].as_array();
    gates.is_some_and(|gates| !gates.is_empty()).then(|| format!("pod {name} has non-empty .spec.schedulingGates"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_pod_that_is_meant_and_free_can_be_bound() {
        let why = |metadata: Value, spec: Value| {
            let pod = json!({"metadata": metadata, "spec": spec});
            why_not_bound(&json!({"metadata": {"uid": "u-1"}}), &pod).unwrap_or_default()
        };
        assert_eq!(why(json!({"name": "a", "uid": "u-1"}), json!({})), "");
        let other = why(json!({"name": "a", "uid": "u-2"}), json!({}));
        assert_eq!(other, "Precondition failed: UID in precondition: u-1, UID in object meta: u-2");
        let going = why(json!({"name": "a", "uid": "u-1", "deletionTimestamp": "2026-01-01T00:00:00Z"}), json!({}));
        assert_eq!(going, "pod a is being deleted, cannot be assigned to a host");
        let bound = why(json!({"name": "a", "uid": "u-1"}), json!({"nodeName": "oak"}));
        assert_eq!(bound, "pod a is already assigned to node \"oak\"");
        let gated = why(json!({"name": "a", "uid": "u-1"}), json!({"schedulingGates": [{"name": "g"}]}));
        assert_eq!(gated, "pod a has non-empty .spec.schedulingGates");
    }
}
