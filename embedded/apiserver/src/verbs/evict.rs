//! Asking a pod to leave its node, which disruption budgets may forbid for now.

use std::sync::Arc;

use c5c3_store::{Entry, Expect, WriteError};
use http::StatusCode;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::Done;
use super::delete::{Options, delete_object};
use super::get::live;
use crate::admission;
use crate::call::Call;
use crate::controllers::set_pod_condition;
use crate::object::{is_going, meta, of_entry, put, timestamp};
use crate::registry::Served;
use crate::selector::Labels;
use crate::status::{ApiError, Reason, done};

/// How often a budget or a pod that changes meanwhile is looked at again.
const TRIES: usize = 20;

/// How many pods may be on their way out before the budget's controller has taken note of them.
const MOST_DISRUPTED: usize = 2000;

/// Deletes a pod, unless a disruption budget says that it is needed.
pub(super) async fn evict(call: &Call<'_>) -> Result<Done, ApiError> {
    let eviction = admission::mutate(call, "CREATE", call.object()?, None).await?;
    let name = call.name()?;
    if meta(&eviction, "name") != name && !meta(&eviction, "name").is_empty() {
        return Err(ApiError::bad_request("name in URL does not match name in Eviction object"));
    }
    admission::admit(call, "CREATE", &eviction, None).await?;
    let options = Options::of(call, &eviction["deleteOptions"])?;
    let answer = Done { code: StatusCode::CREATED, ..Done::ok(done()) };
    for _ in 0..TRIES {
        let (entry, pod) = live(call).await?;
        let guarded =
            !matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed" | "Pending")) && !is_going(&pod);
        if guarded {
            spend_budget(call, &pod, options.dry_run).await?;
        }
        if options.dry_run {
            return Ok(answer);
        }
        match leave(call, &entry, pod, &options).await {
            Err(error) if error.reason == Reason::Conflict && options.resource_version.is_none() && !guarded => {}
            other => return other.map(|()| answer),
        }
    }
    Err(ApiError::modified(&call.served.resource, name))
}

/// Deletes the pod, after having said in its status why.
async fn leave(call: &Call<'_>, entry: &Entry, mut pod: Value, options: &Options) -> Result<(), ApiError> {
    let mut options = options.clone();
    let asked = options.resource_version.as_ref().is_none_or(|version| *version == meta(&pod, "resourceVersion"));
    if asked && !is_going(&pod) {
        set_pod_condition(&mut pod, "DisruptionTarget", "True", "EvictionByEvictionAPI", "Eviction API: evicting");
        let expect = Expect::Revision(entry.revision);
        match put(call.server.store(), &call.served, &entry.key, expect, &Arc::new(pod)).await {
            Ok(written) if options.resource_version.is_some() => {
                options.resource_version = Some(written.revision.to_string());
            }
            // Who changed the pod meanwhile changed nothing that matters to the eviction.
            Ok(_) | Err(WriteError::Conflict { .. }) => {}
            Err(error) => return Err(ApiError::internal(error.to_string())),
        }
    }
    delete_object(call.server, &call.served, &entry.key, &options).await.map(drop)
}

/// Takes one disruption off the budget that the pod is under, if there is one.
async fn spend_budget(call: &Call<'_>, pod: &Value, dry_run: bool) -> Result<(), ApiError> {
    let Some(served) = call.server.registry().find("policy", "v1", "poddisruptionbudgets") else { return Ok(()) };
    for _ in 0..TRIES {
        let mut budgets = budgets(call, &served, pod)?;
        if budgets.len() > 1 {
            let message =
                "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
            return Err(ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, Reason::Unknown, message));
        }
        let Some((entry, mut budget)) = budgets.pop() else { return Ok(()) };
        if is_unhealthy_and_may_go(pod, &budget) {
            return Ok(());
        }
        spend(&mut budget, meta(pod, "name"), Timestamp::now())?;
        if dry_run {
            return Ok(());
        }
        let expect = Expect::Revision(entry.revision);
        match put(call.server.store(), &served, &entry.key, expect, &Arc::new(budget)).await {
            Ok(_) => return Ok(()),
            Err(WriteError::Conflict { .. }) => {}
            Err(error) => return Err(ApiError::internal(error.to_string())),
        }
    }
    let message = "Timeout: couldn't update PodDisruptionBudget due to conflicts";
    Err(ApiError { retry_after: Some(10), ..ApiError::new(StatusCode::GATEWAY_TIMEOUT, Reason::Timeout, message) })
}

/// The budgets that the pod is under. An empty selector takes no pod.
fn budgets(call: &Call<'_>, served: &Served, pod: &Value) -> Result<Vec<(Entry, Value)>, ApiError> {
    let mut found = Vec::new();
    for entry in call.server.store().list(&served.prefix(call.namespace())).iter() {
        let budget = of_entry(&served.resource, entry)?;
        let Ok(selector) = Labels::from_object(&budget["spec"]["selector"]) else { continue };
        if !selector.is_empty() && selector.matches(&pod["metadata"]["labels"]) {
            found.push((entry.clone(), budget));
        }
    }
    Ok(found)
}

/// A pod that is not ready does not count as healthy, and its budget is none the worse when it goes.
fn is_unhealthy_and_may_go(pod: &Value, budget: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    let ready = conditions.into_iter().any(|condition| condition["type"] == "Ready" && condition["status"] == "True");
    let number = |field: &str| budget["status"][field].as_i64().unwrap_or(0);
    let enough = number("currentHealthy") >= number("desiredHealthy") && number("desiredHealthy") > 0;
    !ready && (budget["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow" || enough)
}

/// Takes one disruption off a budget, or says why it has none to give.
fn spend(budget: &mut Value, pod: &str, now: Timestamp) -> Result<(), ApiError> {
    let name = meta(budget, "name").to_owned();
    let forbidden = |why: &str| ApiError::forbidden(format!("poddisruptionbudget.policy {name:?} is forbidden: {why}"));
    let status = &budget["status"];
    let number = |field: &str| status[field].as_i64().unwrap_or(0);
    let left = number("disruptionsAllowed");
    if number("observedGeneration") < budget["metadata"]["generation"].as_i64().unwrap_or(0) {
        let why = format!("The disruption budget {name} is still being processed by the server.");
        return Err(ApiError { retry_after: Some(10), ..too_many(&why) });
    }
    if left < 0 {
        return Err(forbidden("pdb disruptions allowed is negative"));
    }
    if status["disruptedPods"].as_object().is_some_and(|pods| pods.len() > MOST_DISRUPTED) {
        return Err(forbidden("DisruptedPods map too big - too many evictions not confirmed by PDB controller"));
    }
    if left == 0 {
        let (healthy, needed) = (number("currentHealthy"), number("desiredHealthy"));
        return Err(too_many(&format!(
            "The disruption budget {name} needs {needed} healthy pods and has {healthy} currently"
        )));
    }
    budget["status"]["disruptionsAllowed"] = (left - 1).into();
    budget["status"]["disruptedPods"][pod] = timestamp(now).into();
    if left == 1 {
        set_pod_condition(budget, "DisruptionAllowed", "False", "InsufficientPods", "");
    }
    Ok(())
}

fn too_many(why: &str) -> ApiError {
    let message = "Cannot evict pod as it would violate the pod's disruption budget.";
    let details = json!({"causes": [{"reason": "DisruptionBudget", "message": why}]});
    ApiError { details, ..ApiError::new(StatusCode::TOO_MANY_REQUESTS, Reason::TooManyRequests, message) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget(status: &Value) -> Value {
        json!({"metadata": {"name": "b", "generation": 1}, "spec": {}, "status": status})
    }

    #[test]
    fn a_budget_is_spent_one_by_one() {
        let mut some = budget(&json!({"observedGeneration": 1, "disruptionsAllowed": 1}));
        spend(&mut some, "p", "2026-01-31T12:00:00Z".parse().unwrap()).unwrap();
        assert_eq!(some["status"]["disruptionsAllowed"], 0);
        assert_eq!(some["status"]["disruptedPods"], json!({"p": "2026-01-31T12:00:00Z"}));
        let none = spend(&mut some, "q", Timestamp::now()).unwrap_err();
        assert_eq!((none.code, none.retry_after), (StatusCode::TOO_MANY_REQUESTS, None));
        let unseen = spend(&mut budget(&json!({"disruptionsAllowed": 1})), "p", Timestamp::now()).unwrap_err();
        assert_eq!((unseen.code, unseen.retry_after), (StatusCode::TOO_MANY_REQUESTS, Some(10)));
    }

    #[test]
    fn a_pod_that_is_not_ready_may_go_when_enough_others_are() {
        let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
        let enough = budget(&json!({"currentHealthy": 2, "desiredHealthy": 2}));
        assert!(is_unhealthy_and_may_go(&json!({}), &enough) && !is_unhealthy_and_may_go(&ready, &enough));
        let mut few = budget(&json!({"currentHealthy": 1, "desiredHealthy": 2}));
        assert!(!is_unhealthy_and_may_go(&json!({}), &few));
        few["spec"]["unhealthyPodEvictionPolicy"] = json!("AlwaysAllow");
        assert!(is_unhealthy_and_may_go(&json!({}), &few));
    }
}
