//! TokenRequest: `POST .../serviceaccounts/<name>/token`.

use jiff::{SignedDuration, Timestamp};
use secrecy::ExposeSecret;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Binding, Claims, Found, Kind, Lookup, Reference, ServiceAccountTokens};
use crate::pki::random;
use crate::refusal::{Cause, Refusal, objects_only};
use crate::user::service_account_user;

const DEFAULT_SECONDS: i64 = 60 * 60;
const MIN_SECONDS: i64 = 10 * 60;
const MAX_SECONDS: i64 = 1 << 32;

/// The life that every injected token volume asks for. Seven seconds over an hour are how it is recognised: clients too
/// old to read their token again get one that lasts a year, and `warnafter` says when they should have read it.
const INJECTED_SECONDS: i64 = 60 * 60 + 7;
const EXTENDED_SECONDS: i64 = 365 * 24 * 60 * 60;

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    audiences: Option<Vec<String>>,
    expiration_seconds: Option<i64>,
    bound_object_ref: Option<ObjectRef>,
}

#[derive(Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ObjectRef {
    kind: String,
    api_version: String,
    name: String,
    uid: String,
}

impl ServiceAccountTokens {
    /// Answers a TokenRequest for the service account `namespace/name`: the request with its defaults and its status.
    pub fn token_request(
        &self,
        request: &Value,
        namespace: &str,
        name: &str,
        lookup: &dyn Lookup,
        now: Timestamp,
    ) -> Result<Value, Refusal> {
        objects_only(request, &["metadata", "spec"])?;
        names_agree(request, namespace, name)?;
        let spec: Option<Spec> = serde_json::from_value(request["spec"].clone())
            .map_err(|e| Refusal::BadRequest(format!("TokenRequest in version \"v1\" cannot be handled: {e}")))?;
        let spec = spec.unwrap_or_default();
        let seconds = checked_life(spec.expiration_seconds.unwrap_or(DEFAULT_SECONDS), name)?;
        let owner =
            lookup.find(Kind::ServiceAccount, namespace, name).ok_or_else(|| not_found("serviceaccounts", name))?;
        let mut binding = Binding {
            namespace: namespace.to_owned(),
            node: None,
            pod: None,
            secret: None,
            serviceaccount: Reference { name: name.to_owned(), uid: owner.uid },
            warnafter: None,
        };
        if let Some(target) = &spec.bound_object_ref {
            bind(&mut binding, target, lookup)?;
        }
        let audiences = spec.audiences.filter(|a| !a.is_empty()).unwrap_or_else(|| self.audiences.clone());
        let for_the_api = audiences.iter().all(|a| self.audiences.contains(a));
        let extended = seconds == INJECTED_SECONDS && binding.pod.is_some() && for_the_api;
        binding.warnafter = extended.then(|| now.as_second() + seconds);
        let claims = Claims {
            aud: audiences.clone(),
            exp: now.as_second() + if extended { EXTENDED_SECONDS } else { seconds },
            iat: now.as_second(),
            iss: self.issuer.clone(),
            jti: new_id()?,
            kubernetes: binding,
            nbf: now.as_second(),
            sub: service_account_user(namespace, name),
        };
        let token = self.sign(&claims).map_err(|e| Refusal::Internal(format!("failed to generate token: {e}")))?;
        let mut answer = request.clone();
        answer["kind"] = json!("TokenRequest");
        answer["apiVersion"] = json!("authentication.k8s.io/v1");
        answer["metadata"] = json!({"name": name, "namespace": namespace, "creationTimestamp": rfc3339(now)});
        answer["spec"]["audiences"] = json!(audiences);
        answer["spec"]["expirationSeconds"] = json!(seconds);
        answer["spec"]["boundObjectRef"] = request["spec"]["boundObjectRef"].clone();
        answer["status"] = json!({
            "token": token.expose_secret(),
            "expirationTimestamp": rfc3339(now + SignedDuration::from_secs(seconds)),
        });
        Ok(answer)
    }
}

/// The object may repeat what the path says, not contradict it.
fn names_agree(request: &Value, namespace: &str, name: &str) -> Result<(), Refusal> {
    let metadata = &request["metadata"];
    for (field, in_path) in [("name", name), ("namespace", namespace)] {
        let in_object = metadata[field].as_str().unwrap_or_default();
        if !in_object.is_empty() && in_object != in_path {
            let wording =
                format!("metadata.{field}: must match the {field} on the request: {in_object:?} is not {in_path:?}");
            return Err(Refusal::BadRequest(wording));
        }
    }
    Ok(())
}

fn checked_life(seconds: i64, name: &str) -> Result<i64, Refusal> {
    let problem = match seconds {
        MIN_SECONDS..=MAX_SECONDS => return Ok(seconds),
        ..MIN_SECONDS => "may not specify a duration less than 10 minutes",
        _ => "may not specify a duration larger than 2^32 seconds",
    };
    Err(Refusal::Invalid {
        group: "authentication.k8s.io".to_owned(),
        kind: "TokenRequest".to_owned(),
        name: name.to_owned(),
        causes: vec![Cause::new("spec.expirationSeconds", seconds, problem)],
    })
}

fn bind(binding: &mut Binding, target: &ObjectRef, lookup: &dyn Lookup) -> Result<(), Refusal> {
    let (group, version) = target.api_version.split_once('/').unwrap_or(("", &target.api_version));
    let (kind, resource, namespace) = match (group, target.kind.as_str()) {
        ("", "Pod") => (Kind::Pod, "pods", binding.namespace.as_str()),
        ("", "Secret") => (Kind::Secret, "secrets", binding.namespace.as_str()),
        ("", "Node") => (Kind::Node, "nodes", ""),
        (group, kind) => {
            let wording = format!("cannot bind token to object of type {group}/{version}, Kind={kind}");
            return Err(Refusal::BadRequest(wording));
        }
    };
    let found = lookup.find(kind, namespace, &target.name).ok_or_else(|| not_found(resource, &target.name))?;
    let owner = &binding.serviceaccount.name;
    if kind == Kind::Pod && found.service_account.as_ref() != Some(owner) {
        let wording = format!(
            "cannot bind token for serviceaccount {owner:?} to pod running with different serviceaccount name."
        );
        return Err(Refusal::BadRequest(wording));
    }
    if !target.uid.is_empty() && target.uid != found.uid {
        return Err(Refusal::Conflict {
            resource: target.kind.clone(),
            name: target.name.clone(),
            reason: format!(
                "the UID in the bound object reference ({}) does not match the UID in record. The object might have been deleted and then recreated",
                target.uid
            ),
        });
    }
    let Found { uid, node, .. } = found;
    let reference = Reference { name: target.name.clone(), uid };
    match kind {
        Kind::Pod => {
            binding.node = node.map(|name| {
                let uid = lookup.find(Kind::Node, "", &name).map(|node| node.uid).unwrap_or_default();
                Reference { name, uid }
            });
            binding.pod = Some(reference);
        }
        Kind::Secret => binding.secret = Some(reference),
        Kind::Node | Kind::ServiceAccount => binding.node = Some(reference),
    }
    Ok(())
}

fn not_found(resource: &str, name: &str) -> Refusal {
    Refusal::NotFound { group: String::new(), resource: resource.to_owned(), name: name.to_owned() }
}

fn new_id() -> Result<String, Refusal> {
    let bytes = random().map_err(|e| Refusal::Internal(e.to_string()))?;
    Ok(uuid::Builder::from_random_bytes(bytes).into_uuid().to_string())
}

/// Kubernetes writes whole seconds.
fn rfc3339(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
