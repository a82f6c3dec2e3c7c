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
    if let Some(bound) = old["spec"]["nodeName"].as_str().filter(|bound| !bound.is_empty()) {
        let why = format!("pod {} is already assigned to node {bound:?}", meta(&old, "name"));
        return Err(ApiError::conflict(&call.served.resource, meta(&old, "name"), &why));
    }
    let mut new = old.clone();
    new["spec"]["nodeName"] = node.into();
    set_condition(&mut new, "PodScheduled", "True", "", "");
    update::store(call, &entry, &old, new).await?;
    let object = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201});
    Ok(Done { code: StatusCode::CREATED, object, warnings: Vec::new() })
}
