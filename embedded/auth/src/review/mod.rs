//! Questions that clients put as objects: who is this token, who am I, may this user do that.
//!
//! Each function takes the object as sent and gives the object as answered. The caller has checked that the client may
//! ask at all.

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::authenticator::Authenticator;
use crate::rbac::{Attributes, Policy};
use crate::refusal::{Cause, Refusal, objects_only};
use crate::token::Lookup;
use crate::user::UserInfo;
use crate::wording::aggregated;

const AUTHENTICATION: &str = "authentication.k8s.io";
const AUTHORIZATION: &str = "authorization.k8s.io";

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct AccessSpec {
    resource_attributes: Option<ResourceAttributes>,
    non_resource_attributes: Option<PathAttributes>,
    user: String,
    groups: Option<Vec<String>>,
    uid: String,
    extra: Option<std::collections::BTreeMap<String, Vec<String>>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ResourceAttributes {
    namespace: String,
    verb: String,
    group: String,
    resource: String,
    subresource: String,
    name: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct PathAttributes {
    path: String,
    verb: String,
}

impl AccessSpec {
    fn attributes(&self) -> Attributes<'_> {
        if let Some(r) = &self.resource_attributes {
            Attributes::resource(&r.verb, &r.group, &r.resource)
                .with_subresource(&r.subresource)
                .named(&r.name)
                .in_namespace(&r.namespace)
        } else if let Some(p) = &self.non_resource_attributes {
            Attributes::path(&p.verb, &p.path)
        } else {
            Attributes::default()
        }
    }

    fn user(&self) -> UserInfo {
        UserInfo {
            name: self.user.clone(),
            uid: self.uid.clone(),
            groups: self.groups.clone().unwrap_or_default(),
            extra: self.extra.clone().unwrap_or_default(),
        }
    }
}

/// TokenReview: whose token is this, for these audiences.
pub fn token_review(
    review: &Value,
    authenticator: &Authenticator,
    lookup: &dyn Lookup,
    now: Timestamp,
) -> Result<Value, Refusal> {
    objects_only(review, &["metadata", "spec"])?;
    let token = review["spec"]["token"].as_str().unwrap_or_default();
    if token.is_empty() {
        return Err(Refusal::BadRequest("token is required for TokenReview in authentication".to_owned()));
    }
    let asked: Option<Vec<String>> = parse("TokenReview", &review["spec"]["audiences"])?;
    let audiences = match asked {
        Some(audiences) if !audiences.is_empty() => audiences,
        _ => authenticator.service_accounts().audiences().to_vec(),
    };
    let status = match authenticator.bearer_for(token, &audiences, lookup, now) {
        Ok(accepted) => json!({"authenticated": true, "user": accepted.user, "audiences": accepted.audiences}),
        Err(error) => {
            json!({"user": {}, "error": aggregated(vec!["invalid bearer token".to_owned(), error.to_string()])})
        }
    };
    Ok(answered(review, "TokenReview", AUTHENTICATION, status))
}

/// SelfSubjectReview: who am I.
pub fn self_subject_review(review: &Value, user: &UserInfo) -> Value {
    answered(review, "SelfSubjectReview", AUTHENTICATION, json!({"userInfo": user}))
}

/// SubjectAccessReview: may this user do that.
pub fn subject_access_review(review: &Value, policy: &Policy) -> Result<Value, Refusal> {
    const KIND: &str = "SubjectAccessReview";
    let spec: AccessSpec = spec(KIND, review)?;
    let causes = [attribute_causes(review, &spec), user_causes(&spec), metadata_causes(review, false)].concat();
    valid(KIND, causes)?;
    Ok(decided(review, KIND, policy, &spec.user(), &spec))
}

/// LocalSubjectAccessReview: the same within the one namespace that the request's path names.
pub fn local_subject_access_review(review: &Value, namespace: &str, policy: &Policy) -> Result<Value, Refusal> {
    const KIND: &str = "LocalSubjectAccessReview";
    objects_only(review, &["metadata", "spec"])?;
    let mut review = review.clone();
    match review["metadata"]["namespace"].as_str().unwrap_or_default() {
        "" => review["metadata"]["namespace"] = json!(namespace),
        own if own != namespace => {
            let wording = "the namespace of the provided object does not match the namespace sent on the request";
            return Err(Refusal::BadRequest(wording.to_owned()));
        }
        _ => {}
    }
    let spec: AccessSpec = spec(KIND, &review)?;
    let mut causes = [attribute_causes(&review, &spec), user_causes(&spec), metadata_causes(&review, true)].concat();
    if let Some(attributes) = spec.resource_attributes.as_ref().filter(|a| a.namespace != namespace) {
        let found = attributes.namespace.as_str();
        causes.push(Cause::new("spec.resourceAttributes.namespace", found, "must match metadata.namespace"));
    }
    if spec.non_resource_attributes.is_some() {
        let found = review["spec"]["nonResourceAttributes"].clone();
        causes.push(Cause::new("spec.nonResourceAttributes", found, "disallowed on this kind of request"));
    }
    valid(KIND, causes)?;
    Ok(decided(&review, KIND, policy, &spec.user(), &spec))
}

/// SelfSubjectAccessReview: may I do that.
pub fn self_subject_access_review(review: &Value, policy: &Policy, user: &UserInfo) -> Result<Value, Refusal> {
    const KIND: &str = "SelfSubjectAccessReview";
    let spec: AccessSpec = spec(KIND, review)?;
    valid(KIND, [attribute_causes(review, &spec), metadata_causes(review, false)].concat())?;
    Ok(decided(review, KIND, policy, user, &spec))
}

/// SelfSubjectRulesReview: what may I do in this namespace.
pub fn self_subject_rules_review(review: &Value, policy: &Policy, user: &UserInfo) -> Result<Value, Refusal> {
    let namespace = review["spec"]["namespace"].as_str().unwrap_or_default();
    if namespace.is_empty() {
        return Err(Refusal::BadRequest("no namespace on request".to_owned()));
    }
    let (on_resources, on_paths) = policy.rules_for(user, namespace);
    let problems = policy.rules_of(user, namespace).problems;
    let mut status =
        json!({"resourceRules": on_resources, "nonResourceRules": on_paths, "incomplete": !problems.is_empty()});
    if !problems.is_empty() {
        status["evaluationError"] = json!(aggregated(problems));
    }
    Ok(answered(review, "SelfSubjectRulesReview", AUTHORIZATION, status))
}

fn decided(review: &Value, kind: &str, policy: &Policy, user: &UserInfo, spec: &AccessSpec) -> Value {
    let decision = policy.authorize(user, &spec.attributes());
    let mut status = json!({"allowed": decision.allowed});
    if !decision.reason.is_empty() {
        status["reason"] = json!(decision.reason);
    }
    answered(review, kind, AUTHORIZATION, status)
}

fn answered(review: &Value, kind: &str, group: &str, status: Value) -> Value {
    let mut answer = review.clone();
    if !answer.is_object() {
        answer = json!({});
    }
    answer["kind"] = json!(kind);
    if !answer["apiVersion"].is_string() {
        answer["apiVersion"] = json!(format!("{group}/v1"));
    }
    if !answer["metadata"].is_object() {
        answer["metadata"] = json!({"creationTimestamp": null});
    }
    answer["status"] = status;
    answer
}

fn spec<T: serde::de::DeserializeOwned + Default>(kind: &str, review: &Value) -> Result<T, Refusal> {
    objects_only(review, &["metadata", "spec"])?;
    Ok(parse::<Option<T>>(kind, &review["spec"])?.unwrap_or_default())
}

fn parse<T: serde::de::DeserializeOwned>(kind: &str, value: &Value) -> Result<T, Refusal> {
    serde_json::from_value(value.clone())
        .map_err(|e| Refusal::BadRequest(format!("{kind} in version \"v1\" cannot be handled as a {kind}: {e}")))
}

fn attribute_causes(review: &Value, spec: &AccessSpec) -> Vec<Cause> {
    match (&spec.resource_attributes, &spec.non_resource_attributes) {
        (Some(_), Some(_)) => {
            let found = review["spec"]["nonResourceAttributes"].clone();
            let problem = "cannot be specified in combination with resourceAttributes";
            vec![Cause::new("spec.nonResourceAttributes", found, problem)]
        }
        (None, None) => {
            let problem = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
            vec![Cause::new("spec.resourceAttributes", Value::Null, problem)]
        }
        _ => Vec::new(),
    }
}

fn user_causes(spec: &AccessSpec) -> Vec<Cause> {
    if spec.user.is_empty() && spec.groups.as_ref().is_none_or(Vec::is_empty) {
        vec![Cause::new("spec.user", "", "at least one of user or group must be specified")]
    } else {
        Vec::new()
    }
}

fn metadata_causes(review: &Value, namespace_allowed: bool) -> Vec<Cause> {
    let nothing = |value: &Value| match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    };
    let ignored = |key: &str| key == "managedFields" || (namespace_allowed && key == "namespace");
    let set = review["metadata"].as_object().into_iter().flatten().any(|(key, value)| !ignored(key) && !nothing(value));
    if !set {
        return Vec::new();
    }
    let problem = if namespace_allowed { "must be empty except for namespace" } else { "must be empty" };
    vec![Cause::new("metadata", review["metadata"].clone(), problem)]
}

fn valid(kind: &str, causes: Vec<Cause>) -> Result<(), Refusal> {
    if causes.is_empty() {
        return Ok(());
    }
    Err(Refusal::Invalid { group: AUTHORIZATION.to_owned(), kind: kind.to_owned(), name: String::new(), causes })
}

#[cfg(test)]
mod tests;
