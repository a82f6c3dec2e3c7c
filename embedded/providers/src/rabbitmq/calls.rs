//! The calls to a broker's management interface that make a virtual host, a user or a permission, or take it away.

use c5c3_api::ext::rabbitmq::{PermissionSpec, UserLimits, UserSpec, VhostSpec};
use http::{Method, StatusCode};
use serde::Serialize;
use serde_json::{Value, json};

use crate::http::{HttpError, Server, encoded};

/// One call. What it carries may be a password, and is not shown.
#[derive(Clone, PartialEq)]
pub(super) struct Call {
    method: Method,
    path: String,
    body: Option<Value>,
}

impl std::fmt::Debug for Call {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.method, self.path)
    }
}

impl Call {
    fn put(path: String, body: Value) -> Self {
        Self { method: Method::PUT, path, body: Some(body) }
    }

    fn delete(path: String) -> Self {
        Self { method: Method::DELETE, path, body: None }
    }
}

/// How a user proves itself.
#[derive(Clone)]
pub(super) enum Proof {
    /// By a password.
    Password(String),
    /// By a password of which only the hash is known; an empty one lets no one in by password.
    Hash(String),
}

/// Makes calls, one after the other. What is to be deleted and is gone already is no failure.
pub(super) async fn make(server: &Server, calls: &[Call]) -> Result<(), HttpError> {
    for call in calls {
        match server.send(call.method.clone(), &call.path, call.body.as_ref()).await {
            Err(HttpError::Refused { status: StatusCode::NOT_FOUND, .. }) if call.method == Method::DELETE => {}
            other => drop(other?),
        }
    }
    Ok(())
}

/// Makes a virtual host what it should be.
pub(super) fn vhost(spec: &VhostSpec) -> Vec<Call> {
    let name = encoded(&spec.name);
    let mut body = json!({});
    if let Some(queues) = spec.default_queue_type.as_ref().and_then(word) {
        body["default_queue_type"] = json!(queues);
    }
    let limits = spec.limits.unwrap_or_default();
    let limit = limits_of(format!("/api/vhost-limits/{name}"));
    [
        vec![Call::put(format!("/api/vhosts/{name}"), body)],
        vec![limit("max-connections", limits.connections), limit("max-queues", limits.queues)],
    ]
    .concat()
}

/// Takes a virtual host away, with everything that is in it.
pub(super) fn no_vhost(name: &str) -> Vec<Call> {
    vec![Call::delete(format!("/api/vhosts/{}", encoded(name)))]
}

/// Makes a user what it should be.
pub(super) fn user(name: &str, proof: &Proof, spec: &UserSpec) -> Vec<Call> {
    let tags: Vec<String> = spec.tags.iter().filter_map(word).collect();
    let mut body = json!({"tags": tags.join(",")});
    match proof {
        Proof::Password(password) => body["password"] = json!(password),
        Proof::Hash(hash) => body["password_hash"] = json!(hash),
    }
    let name = encoded(name);
    let limits: UserLimits = spec.limits.unwrap_or_default();
    let limit = limits_of(format!("/api/user-limits/{name}"));
    [
        vec![Call::put(format!("/api/users/{name}"), body)],
        vec![limit("max-connections", limits.connections), limit("max-channels", limits.channels)],
    ]
    .concat()
}

/// Takes a user away.
pub(super) fn no_user(name: &str) -> Vec<Call> {
    vec![Call::delete(format!("/api/users/{}", encoded(name)))]
}

/// Permits a user what it should be permitted in a virtual host.
pub(super) fn permission(user: &str, spec: &PermissionSpec) -> Vec<Call> {
    let given = &spec.permissions;
    // What is not given is permitted for no name at all.
    let part = |part: &Option<String>| part.clone().unwrap_or_default();
    let body = json!({
        "configure": part(&given.configure), "write": part(&given.write), "read": part(&given.read),
    });
    vec![Call::put(permission_path(user, &spec.vhost), body)]
}

/// Permits a user nothing in a virtual host.
pub(super) fn no_permission(user: &str, vhost: &str) -> Vec<Call> {
    vec![Call::delete(permission_path(user, vhost))]
}

fn permission_path(user: &str, vhost: &str) -> String {
    format!("/api/permissions/{}/{}", encoded(vhost), encoded(user))
}

/// A word of the API, if it is one that this version knows.
fn word(word: &impl Serialize) -> Option<String> {
    serde_json::to_value(word).ok()?.as_str().map(str::to_owned)
}

/// Calls that set a limit, or lift it.
fn limits_of(path: String) -> impl Fn(&str, Option<i32>) -> Call {
    move |name, value| match value {
        Some(value) => Call::put(format!("{path}/{name}"), json!({"value": value})),
        None => Call::delete(format!("{path}/{name}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(calls: &[Call]) -> String {
        let line = |call: &Call| format!("{call:?} {}", call.body.clone().unwrap_or_default());
        calls.iter().map(line).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn a_virtual_host_is_made_with_its_queue_type_and_limits() {
        let spec: VhostSpec = serde_json::from_value(json!({
            "name": "/carrots", "defaultQueueType": "quorum", "limits": {"queues": 7},
        }))
        .unwrap();
        insta::assert_snapshot!(text(&vhost(&spec)), @r#"
        PUT /api/vhosts/%2Fcarrots {"default_queue_type":"quorum"}
        DELETE /api/vhost-limits/%2Fcarrots/max-connections null
        PUT /api/vhost-limits/%2Fcarrots/max-queues {"value":7}
        "#);
    }

    #[test]
    fn a_user_is_made_with_a_password_or_its_hash() {
        let spec: UserSpec = serde_json::from_value(json!({"tags": ["management", "new in 2030"]})).unwrap();
        let by = |proof| text(&user("hare", &proof, &spec)[..1]);
        assert_eq!(by(Proof::Password("p".into())), r#"PUT /api/users/hare {"password":"p","tags":"management"}"#);
        assert_eq!(by(Proof::Hash(String::new())), r#"PUT /api/users/hare {"password_hash":"","tags":"management"}"#);
    }

    #[test]
    fn what_is_not_permitted_is_permitted_for_no_name() {
        let spec: PermissionSpec =
            serde_json::from_value(json!({"vhost": "/", "permissions": {"read": ".*"}})).unwrap();
        assert_eq!(
            text(&permission("hare", &spec)),
            r#"PUT /api/permissions/%2F/hare {"configure":"","read":".*","write":""}"#
        );
        assert_eq!(text(&no_permission("hare", "/")), "DELETE /api/permissions/%2F/hare null");
    }

    #[test]
    fn a_call_shows_no_password() {
        let spec = UserSpec::default();
        let calls = user("hare", &Proof::Password("hunter2".into()), &spec);
        assert!(!format!("{calls:?}").contains("hunter2"));
    }
}
