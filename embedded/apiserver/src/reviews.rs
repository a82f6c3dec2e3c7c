//! Objects that are answered instead of stored: reviews and token requests.

use c5c3_auth::{Kind, Lookup, Refusal, review};
use http::StatusCode;
use jiff::Timestamp;
use serde_json::Value;

use crate::access::{StoreLookup, refused};
use crate::admission;
use crate::call::Call;
use crate::status::ApiError;
use crate::verbs::Done;

/// The answer to a review; none for an object that is stored.
pub(crate) async fn review(call: &Call<'_>, object: &Value) -> Result<Option<Done>, ApiError> {
    let resource = &call.served.resource;
    let is_review = resource.custom().is_none()
        && ["authentication.k8s.io", "authorization.k8s.io"].contains(&resource.group.as_str());
    if !is_review {
        return Ok(None);
    }
    let object = admission::mutate(call, "CREATE", object.clone(), None).await?;
    admission::admit(call, "CREATE", &object, None).await?;
    answer(call, &object)
}

fn answer(call: &Call<'_>, object: &Value) -> Result<Option<Done>, ApiError> {
    let server = call.server;
    let with_policy = |decide: &dyn Fn(&c5c3_auth::rbac::Policy) -> Result<Value, Refusal>| server.with_policy(decide);
    let answered = match call.served.resource.kind.as_str() {
        "TokenReview" => review::token_review(object, server.authenticator(), &StoreLookup(server), Timestamp::now()),
        "SelfSubjectReview" => Ok(review::self_subject_review(object, &call.user)),
        "SubjectAccessReview" => with_policy(&|policy| review::subject_access_review(object, policy)),
        "LocalSubjectAccessReview" => {
            let namespace = call.target.namespace.as_deref().unwrap_or_default();
            with_policy(&|policy| review::local_subject_access_review(object, namespace, policy))
        }
        "SelfSubjectAccessReview" => {
            with_policy(&|policy| review::self_subject_access_review(object, policy, &call.user))
        }
        "SelfSubjectRulesReview" => {
            with_policy(&|policy| review::self_subject_rules_review(object, policy, &call.user))
        }
        _ => return Ok(None),
    };
    let object = answered.map_err(|refusal| refused(&refusal))?;
    Ok(Some(Done { code: StatusCode::CREATED, ..Done::ok(object) }))
}

/// A token for a service account.
pub(crate) async fn token(call: &Call<'_>) -> Result<Done, ApiError> {
    let request = admission::mutate(call, "CREATE", call.object()?, None).await?;
    admission::admit(call, "CREATE", &request, None).await?;
    let namespace = call.target.namespace.as_deref().unwrap_or_default();
    nodes_own_pods(call, namespace, &request)?;
    let tokens = call.server.authenticator().service_accounts();
    let object = tokens
        .token_request(&request, namespace, call.name()?, &StoreLookup(call.server), Timestamp::now())
        .map_err(|refusal| refused(&refusal))?;
    Ok(Done { code: StatusCode::CREATED, ..Done::ok(object) })
}

/// A node gets tokens for the pods that it runs, and no others: whoever takes over a node is no more than its pods are.
fn nodes_own_pods(call: &Call<'_>, namespace: &str, request: &Value) -> Result<(), ApiError> {
    let Some(node) = call.user.node() else { return Ok(()) };
    let bound = &request["spec"]["boundObjectRef"];
    let text = |field: &str| bound[field].as_str().unwrap_or_default();
    let why = if text("kind") != "Pod" || text("apiVersion") != "v1" || text("name").is_empty() {
        "node requested token not bound to a pod"
    } else if text("uid").is_empty() {
        "node requested token with a pod binding without a uid"
    } else {
        let pod = StoreLookup(call.server).find(Kind::Pod, namespace, text("name"));
        if pod.is_none_or(|pod| pod.node.as_deref() == Some(node)) {
            // One that is not there is refused by name when the token is made.
            return Ok(());
        }
        "node requested token bound to a pod scheduled on a different node"
    };
    Err(ApiError::forbidden_object(&call.served.resource, call.name()?, why))
}
