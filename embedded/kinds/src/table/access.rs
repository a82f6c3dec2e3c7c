//! The rows of role bindings and of requests for certificates.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::duration::human_duration;
use super::format::{NONE, age, name};
use crate::read::{is_empty_at, list_at, str_at};

pub(super) fn binding(binding: &Value, now: Timestamp) -> Vec<Value> {
    let role = &binding["roleRef"];
    let subjects = |kind: &str| {
        let of_kind = list_at(binding, "subjects").iter().filter(|subject| str_at(subject, "kind") == kind);
        let names = of_kind.map(|subject| match str_at(subject, "namespace") {
            "" => str_at(subject, "name").to_owned(),
            namespace => format!("{namespace}/{}", str_at(subject, "name")),
        });
        json!(names.collect::<Vec<_>>().join(", "))
    };
    vec![
        name(binding),
        json!(format!("{}/{}", str_at(role, "kind"), str_at(role, "name"))),
        age(binding, now),
        subjects("User"),
        subjects("Group"),
        subjects("ServiceAccount"),
    ]
}

pub(super) fn signing_request(request: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (&request["spec"], &request["status"]);
    let asked =
        spec["expirationSeconds"].as_i64().map(|seconds| human_duration(jiff::SignedDuration::from_secs(seconds)));
    let has = |kind: &str| list_at(status, "conditions").iter().any(|condition| str_at(condition, "type") == kind);
    let issued = !is_empty_at(status, "certificate");
    let known =
        [("Approved", has("Approved")), ("Denied", has("Denied")), ("Failed", has("Failed")), ("Issued", issued)];
    let known: Vec<&str> = known.iter().filter(|(_, holds)| *holds).map(|(word, _)| *word).collect();
    vec![
        name(request),
        age(request, now),
        json!(str_at(spec, "signerName")),
        json!(str_at(spec, "username")),
        json!(asked.as_deref().unwrap_or(NONE)),
        json!(if known.is_empty() { "Pending".to_owned() } else { known.join(",") }),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::tests::row;
    use super::*;

    #[test]
    fn a_request_for_a_certificate_shows_what_became_of_it() {
        let mut object = json!({
            "metadata": {"name": "r"}, "spec": {"signerName": "example.com/s", "username": "rowan", "expirationSeconds": 3600},
        });
        let row = |object: &Value| row("certificates.k8s.io", "certificatesigningrequests", object);
        assert_eq!(row(&object), "r | <unknown> | example.com/s | rowan | 60m | Pending");
        object["status"] = json!({"conditions": [{"type": "Approved"}], "certificate": "LS0t"});
        assert!(row(&object).ends_with("| Approved,Issued"));
    }

    #[test]
    fn a_binding_shows_who_may_act_as_what() {
        let object = json!({
            "metadata": {"name": "b"}, "roleRef": {"kind": "ClusterRole", "name": "view"},
            "subjects": [
                {"kind": "User", "name": "rowan"}, {"kind": "ServiceAccount", "namespace": "grove", "name": "oak"},
                {"kind": "User", "name": "hazel"},
            ],
        });
        assert_eq!(
            row("rbac.authorization.k8s.io", "rolebindings", &object),
            "b | ClusterRole/view | <unknown> | rowan, hazel |  | grove/oak"
        );
    }
}
