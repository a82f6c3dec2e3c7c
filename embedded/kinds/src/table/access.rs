//! The rows of role bindings.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::format::{age, name};
use crate::read::{list_at, str_at};

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

#[cfg(test)]
mod tests {
    use super::super::tests::row;
    use super::*;

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
