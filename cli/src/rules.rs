//! The rules of the operators, for `validate` and for admission webhooks: what an operator would call an invalid spec is said
//! before it gets one.

use c5c3_api::{Kind, Problem, Problems};
use c5c3_kit::Operator;
use serde_json::Value;

use crate::status::place_of;

/// What the operators would refuse of an object, whatever the cluster holds. Of a ControlPlane that includes what the operators of
/// its services would refuse of the objects that it makes for them.
pub(crate) fn review(operators: &[Operator], object: &Value) -> Problems {
    let mut problems: Vec<Problem> = operators.iter().flat_map(|operator| operator.review(object).into_vec()).collect();
    if object["kind"] == "ControlPlane" {
        // Objects are made of what is right, so that a mistake in one service hides none in another.
        let rest = without(object, &problems);
        for service in c5c3_operator_controlplane::service_objects(&rest) {
            let wrong = operators.iter().flat_map(|operator| operator.review(&service).into_vec());
            problems.extend(wrong.map(|problem| origin(problem, &rest, &service)));
        }
    }
    problems.into()
}

/// Everything that is wrong with an object, at once: what its kind refuses, and what operators would refuse of the rest of it.
pub(crate) fn all_problems(
    operators: &[Operator],
    kind: &Kind,
    object: &Value,
    before: Option<&Value>,
) -> Vec<Problem> {
    let mut problems = kind.check(object, before).into_vec();
    let rest = without(object, &problems);
    // A field that is missing cannot be taken away, and nothing can be said of an object without it.
    if problems.is_empty() || kind.check(&rest, None).is_empty() {
        problems.extend(review(operators, &rest).into_vec());
    }
    problems
}

/// An object without the fields that problems are about.
fn without(object: &Value, problems: &[Problem]) -> Value {
    let mut rest = object.clone();
    let mut paths: Vec<Vec<&str>> = problems.iter().map(|problem| keys(&problem.path)).collect();
    // Later items of a list first, because those behind one that is removed move up.
    paths.sort_by_key(|path| {
        std::cmp::Reverse(path.iter().map(|key| (key.parse::<usize>().ok(), *key)).collect::<Vec<_>>())
    });
    for path in paths {
        let Some((last, parents)) = path.split_last() else { continue };
        let parent = parents.iter().try_fold(&mut rest, |value, key| match value {
            Value::Object(fields) => fields.get_mut(*key),
            Value::Array(items) => items.get_mut(key.parse::<usize>().ok()?),
            _ => None,
        });
        match (parent, last.parse::<usize>()) {
            (Some(Value::Object(fields)), _) => drop(fields.remove(*last)),
            (Some(Value::Array(items)), Ok(index)) if index < items.len() => drop(items.remove(index)),
            _ => {}
        }
    }
    rest
}

/// The keys of a path: `spec.cells[0].name` has four.
fn keys(path: &str) -> Vec<&str> {
    path.split(['.', '[', ']']).filter(|key| !key.is_empty()).collect()
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
    fn items_of_lists_are_taken_away_from_the_end() {
        let object = json!({"spec": {"a": [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10], "b": {"c": 1, "d": 2}}});
        let wrong = ["spec.a[10]", "spec.a[9]", "spec.a[2]", "spec.b.c", "spec.none.such"];
        let wrong = wrong.map(|path| c5c3_api::problem(path, "is wrong", ""));
        assert_eq!(without(&object, &wrong), json!({"spec": {"a": [0, 1, 3, 4, 5, 6, 7, 8], "b": {"d": 2}}}));
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
