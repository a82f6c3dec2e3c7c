//! The rules of the operators, for `validate` and for admission webhooks: what an operator would call an invalid spec is said
//! before it gets one.

use c5c3_api::{Problem, Problems};
use c5c3_kit::Operator;
use serde_json::Value;

use crate::status::place_of;

/// What the operators would refuse of an object, whatever the cluster holds. Of a ControlPlane that includes what the operators of
/// its services would refuse of the objects that it makes for them.
pub(crate) fn review(operators: &[Operator], object: &Value) -> Problems {
    let mut problems: Vec<Problem> = operators.iter().flat_map(|operator| operator.review(object).into_vec()).collect();
    if problems.is_empty() && object["kind"] == "ControlPlane" {
        for service in c5c3_operator_controlplane::service_objects(object) {
            let wrong = operators.iter().flat_map(|operator| operator.review(&service).into_vec());
            problems.extend(wrong.map(|problem| origin(problem, object, &service)));
        }
    }
    problems.into()
}

/// A problem of a service's object as one of the ControlPlane that it is made from: with the field that the value comes from, if
/// there is one.
fn origin(problem: Problem, plane: &Value, service: &Value) -> Problem {
    let part = service["metadata"]["name"].as_str().unwrap_or_default();
    let written = &plane["spec"]["services"][part];
    let place =
        problem.path.strip_prefix("spec.").and_then(|path| place_of(written, &format!("spec.services.{part}"), path));
    match place {
        Some(path) => Problem { path, ..problem },
        None => Problem {
            path: format!("spec.services.{part}"),
            what: format!("{}: {}", problem.path, problem.what),
            ..problem
        },
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::operator;

    fn told(kind: &str, spec: &Value) -> String {
        let version = if kind == "Keystone" { "keystone.openstack.c5c3.io/v1alpha1" } else { "c5c3.io/v1alpha1" };
        let object = json!({"apiVersion": version, "kind": kind, "metadata": {"name": "lab", "namespace": "cellar"}, "spec": spec});
        review(&operator::all(true), &object).to_string()
    }

    #[test]
    fn what_the_operators_of_services_would_refuse_is_told_of_the_control_plane() {
        let rule = |rule: &str| {
            told(
                "ControlPlane",
                &json!({"services": {"keystone": {"policyOverrides": {"rules": {"identity:list_users": rule}}}}}),
            )
        };
        assert_eq!(rule("role:admin"), "");
        for wrong in ["role:admin or", "rule:nope"] {
            let told = rule(wrong);
            assert!(told.starts_with("spec.services.keystone.policyOverrides.rules.identity:list_users: "), "{told}");
        }
        let release = told("ControlPlane", &json!({"openStackRelease": "2024.1", "services": {"keystone": {}}}));
        assert!(release.starts_with("spec.openStackRelease: "), "{release}");
        let option = told(
            "ControlPlane",
            &json!({"services": {"keystone": {"template": {"extraConfig": {"token": {"expirations": "7200"}}}}}}),
        );
        assert!(option.starts_with("spec.services.keystone.template.extraConfig.token.expirations: "), "{option}");
    }

    #[test]
    fn options_and_middleware_of_a_service_are_known() {
        let option = told(
            "Keystone",
            &json!({"database": {"host": "db", "database": "keystone", "secretRef": {"name": "x"}},
            "cache": {"servers": ["c:11211"]}, "extraConfig": {"token": {"expirations": "7200"}}}),
        );
        assert!(option.starts_with("spec.extraConfig.token.expirations: "), "{option}");
    }
}
