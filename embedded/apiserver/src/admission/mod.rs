//! Admission: what is filled in from other objects, policies in CEL, and webhooks, which may change or refuse what is about to be written.
//!
//! [`mutate`] completes an object, applies the mutating policies and asks the mutating webhooks, one after the other, before an object is validated; [`admit`] asks the validating
//! ones, all at once, when it is known to be valid. Without configurations neither costs more than an empty list.
//!
//! Not done: match conditions have no `authorizer`.

mod builtin;
mod client;
mod conditions;
mod policies;
mod review;
mod rules;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use http::StatusCode;
use serde_json::Value;

use crate::call::Call;
use crate::object::of_entry;
use crate::registry::Served;
use crate::server::Server;
use crate::status::ApiError;
use crate::verbs;
use review::{Kind, Request, Verdict};

pub(crate) use client::post;

/// A webhook's configuration; those of one kind come in the order in which they are asked.
struct Webhook(Value);

impl Webhook {
    fn name(&self) -> &str {
        self.0["name"].as_str().unwrap_or_default()
    }

    fn timeout(&self) -> Duration {
        Duration::from_secs(self.0["timeoutSeconds"].as_u64().unwrap_or(10))
    }

    /// Whether a request goes on when the webhook cannot be asked.
    fn is_dispensable(&self) -> bool {
        self.0["failurePolicy"] == "Ignore"
    }

    fn wants_another_look(&self) -> bool {
        self.0["reinvocationPolicy"] == "IfNeeded"
    }

    fn allows_dry_run(&self) -> bool {
        matches!(self.0["sideEffects"].as_str(), Some("None" | "NoneOnDryRun"))
    }
}

/// The webhooks of a kind: by the names of their configurations, and then as these list them.
fn webhooks(server: &Server, kind: Kind) -> Vec<Webhook> {
    let Some(served) = server.registry().find("admissionregistration.k8s.io", "v1", kind.plural()) else {
        return Vec::new();
    };
    let configurations = server.store().list(&served.prefix(None));
    let mut hooks = Vec::new();
    for entry in configurations.iter() {
        match of_entry(&served.resource, entry) {
            Ok(mut configuration) => {
                if let Value::Array(list) = configuration["webhooks"].take() {
                    hooks.extend(list.into_iter().map(Webhook));
                }
            }
            Err(error) => tracing::error!(error = error.message, "a webhook configuration cannot be read"),
        }
    }
    hooks
}

/// No one may lock themselves out: what decides about webhooks is not decided by webhooks.
fn is_exempt(call: &Call<'_>) -> bool {
    call.served.resource.group == "admissionregistration.k8s.io"
}

/// What admission makes of an object that is about to be written. It is null for a deletion.
pub(crate) async fn mutate(
    call: &Call<'_>,
    operation: &str,
    mut object: Value,
    old: Option<&Value>,
) -> Result<Value, ApiError> {
    builtin::admit(call, operation, &mut object, old).await?;
    if is_exempt(call) {
        return Ok(object);
    }
    let request = Request::new(call, operation, &object, old)?;
    let (policies, hooks) = (policies::mutating(&request), webhooks(call.server, Kind::Mutating));
    if policies.is_empty() && hooks.is_empty() {
        return Ok(object);
    }
    let before = object.clone();
    let object = policies::change(&request, &policies, object)?;
    let object = ask_all(&request, &hooks, object).await?;
    if object == before {
        return Ok(object);
    }
    // What policies and webhooks have added, such as another container, is completed like the rest.
    let mut object = object;
    builtin::admit(call, operation, &mut object, old).await?;
    Ok(object)
}

/// What mutating webhooks make of an object.
async fn ask_all(request: &Request<'_>, hooks: &[Webhook], mut object: Value) -> Result<Value, ApiError> {
    let (mut asked, mut again) = (Vec::new(), BTreeSet::new());
    for (index, hook) in hooks.iter().enumerate() {
        let Some(new) = change(request, hook, &object).await? else { continue };
        if new != object {
            again.extend(asked.iter().copied());
            object = new;
        }
        if hook.wants_another_look() {
            asked.push(index);
        }
    }
    // One more round, for those who saw an object that others changed after them.
    for index in again {
        if let Some(new) = change(request, &hooks[index], &object).await? {
            object = new;
        }
    }
    Ok(object)
}

/// Asks policies and validating webhooks about what is about to be written, and refuses if any of them does.
pub(crate) async fn admit(
    call: &Call<'_>,
    operation: &str,
    object: &Value,
    old: Option<&Value>,
) -> Result<(), ApiError> {
    if is_exempt(call) {
        return Ok(());
    }
    builtin::judge(call, operation, object, old)?;
    let request = Request::new(call, operation, object, old)?;
    policies::admit(&request, object)?;
    let hooks = webhooks(call.server, Kind::Validating);
    if hooks.is_empty() {
        return Ok(());
    }
    let shown = request.shown(object);
    let answers = join_all(hooks.iter().map(|hook| ask(&request, Kind::Validating, hook, &shown))).await;
    let mut refusals = answers.into_iter().filter_map(Result::err);
    let Some(mut first) = refusals.next() else { return Ok(()) };
    for other in refusals {
        first.message = format!("{}; {}", first.message, other.message);
    }
    Err(first)
}

/// Asks whether a client may be connected to what it wants to be connected to. Mutating webhooks are asked too; what
/// they would change is let be, since the connection is made as the client asked for it.
pub(crate) async fn connect(call: &Call<'_>, options: &Value) -> Result<(), ApiError> {
    let request = Request::new(call, "CONNECT", options, None)?;
    for hook in webhooks(call.server, Kind::Mutating) {
        ask(&request, Kind::Mutating, &hook, options).await?;
    }
    admit(call, "CONNECT", options, None).await
}

/// What one mutating webhook makes of an object; none if it is not asked.
async fn change(request: &Request<'_>, hook: &Webhook, object: &Value) -> Result<Option<Value>, ApiError> {
    let shown = request.shown(object);
    let Some((seen_as, verdict)) = ask(request, Kind::Mutating, hook, &shown).await? else { return Ok(None) };
    let Some(patch) = verdict.patch else { return Ok(Some(object.clone())) };
    if object.is_null() {
        let why = "attempted to modify the object, which is not supported for this operation";
        return Err(ApiError::internal(format!("admission webhook {:?} {why}", hook.name())));
    }
    let patch: Value = serde_json::from_slice(&patch).map_err(|error| ApiError::internal(error.to_string()))?;
    let target = request.in_version(&seen_as.resource, &shown);
    let patched = c5c3_fields::json_patch(&target, &patch).map_err(|error| ApiError::internal(error.to_string()))?;
    let patched = request.in_version(&request.call.served.resource, &patched);
    verbs::mutated(request.call, object, request.old, patched).map(Some)
}

/// Asks one webhook, if it wants to be asked. None: it does not, or it could not be asked and may be done without.
async fn ask(
    request: &Request<'_>,
    kind: Kind,
    hook: &Webhook,
    shown: &Value,
) -> Result<Option<(Arc<Served>, Verdict)>, ApiError> {
    if !rules::selects(request, hook, shown)? {
        return Ok(None);
    }
    let Some(seen_as) = rules::resource(request, hook) else { return Ok(None) };
    let (uid, review) = request.review(&seen_as.resource, shown);
    if !is_wanted(request, hook, &review)? {
        return Ok(None);
    }
    if request.dry_run && !hook.allows_dry_run() {
        return Err(ApiError::bad_request(format!("admission webhook {:?} does not support dry run", hook.name())));
    }
    let answer = client::post(request.call.server, &hook.0["clientConfig"], hook.timeout(), &review).await;
    let verdict = answer
        .map_err(|why| format!("failed to call webhook: {why}"))
        .and_then(|answer| Verdict::parse(&answer, &uid, kind));
    match verdict {
        Ok(verdict) => {
            verdict.warnings.iter().for_each(|warning| request.call.warnings.add(warning));
            if verdict.allowed { Ok(Some((seen_as, verdict))) } else { Err(refusal(hook, &verdict.status)) }
        }
        Err(why) if hook.is_dispensable() => {
            tracing::warn!(webhook = hook.name(), why, "a webhook cannot be asked, and is done without");
            Ok(None)
        }
        Err(why) => Err(ApiError::internal(format!("failed calling webhook {:?}: {why}", hook.name()))),
    }
}

/// Whether the webhook's match conditions hold.
fn is_wanted(request: &Request<'_>, hook: &Webhook, review: &Value) -> Result<bool, ApiError> {
    match conditions::hold(&hook.0["matchConditions"], &review["request"]) {
        Ok(wanted) => Ok(wanted),
        Err(why) if hook.is_dispensable() => {
            tracing::warn!(webhook = hook.name(), why, "match conditions fail, and the webhook is not asked");
            Ok(false)
        }
        Err(why) => Err(ApiError::forbidden_object(&request.call.served.resource, &request.name, &why)),
    }
}

/// The answer to a request that a webhook refuses: its own status, which names it.
fn refusal(hook: &Webhook, status: &Value) -> ApiError {
    let text = |field: &str| status[field].as_str().filter(|text| !text.is_empty());
    let code = status["code"].as_u64().and_then(|code| u16::try_from(code).ok()).filter(|code| *code >= 400);
    let code = code.and_then(|code| StatusCode::from_u16(code).ok()).unwrap_or(StatusCode::BAD_REQUEST);
    let why = match text("message").or(text("reason")) {
        Some(why) => format!(": {why}"),
        None => " without explanation".to_owned(),
    };
    let message = format!("admission webhook {:?} denied the request{why}", hook.name());
    let reason = text("reason").unwrap_or_default();
    ApiError { details: status["details"].clone(), ..ApiError::new(code, reason, message) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_dry_run_is_only_for_webhooks_without_side_effects() {
        for (effects, allowed) in [("None", true), ("NoneOnDryRun", true), ("Some", false), ("Unknown", false)] {
            assert_eq!(Webhook(json!({"sideEffects": effects})).allows_dry_run(), allowed, "{effects}");
        }
        assert!(!Webhook(json!({})).allows_dry_run());
    }

    #[test]
    fn a_refusal_is_never_a_success() {
        let hook = Webhook(json!({"name": "a.example.com"}));
        let refused = refusal(&hook, &json!({"code": 200, "reason": "Frost"}));
        assert_eq!((refused.code, refused.reason), (StatusCode::BAD_REQUEST, "Frost".into()));
        assert_eq!(refused.message, "admission webhook \"a.example.com\" denied the request: Frost");
    }
}
