//! The rules of the operators, for `validate` and for admission webhooks: what an operator would call an invalid spec is said
//! before it gets one.

use c5c3_api::{Kind, Problem, Problems};
use c5c3_kit::Operator;
use serde_json::Value;

use crate::status::place_of;

/// How often a field is taken away until what is left is right. Around a field that is missing, one more is taken each time.
const ROUNDS: usize = 16;

/// What the operators would refuse of an object, whatever the cluster holds. Of a ControlPlane that includes what the operators of
/// its services would refuse of the objects that it makes for them.
pub(crate) fn review(operators: &[Operator], object: &Value) -> Problems {
    let judge = |object: &Value| -> Vec<Problem> {
        operators.iter().flat_map(|operator| operator.review(object).into_vec()).collect()
    };
    let problems = judge(object);
    if object["kind"] != "ControlPlane" {
        return problems.into();
    }
    also(problems, object, judge, |sound| {
        let services = c5c3_operator_controlplane::service_objects(sound);
        services
            .iter()
            .flat_map(|service| judge(service).into_iter().map(move |one| origin(one, sound, service)))
            .collect()
    })
    .into()
}

/// Everything that is wrong with an object, at once: what its kind refuses, and what operators would refuse of the rest of it.
pub(crate) fn all_problems(operators: &[Operator], kind: &Kind, object: &Value, before: Option<&Value>) -> Problems {
    let problems = kind.check(object, before).into_vec();
    let judge = |object: &Value| kind.check(object, None).into_vec();
    also(problems, object, judge, |sound| review(operators, sound).into_vec()).into()
}

/// The problems of an object, and those that `further` finds in the part of it that `judge` finds nothing wrong with. A mistake in
/// one service hides none in another: what has lost a field itself is not judged further, since the loss may be what is wrong.
fn also(
    mut problems: Vec<Problem>,
    object: &Value,
    judge: impl Fn(&Value) -> Vec<Problem>,
    further: impl Fn(&Value) -> Vec<Problem>,
) -> Vec<Problem> {
    let mut touched: Vec<String> = problems.iter().map(|problem| place(&problem.path)).collect();
    // Mistakes about the past, such as a name that was changed, are none of the object by itself.
    let mut rest = without(object, &problems);
    for _ in 0..ROUNDS {
        let Some(sound) = rest else { return problems };
        let wrong = judge(&sound);
        if wrong.is_empty() {
            let found = further(&sound).into_iter();
            problems.extend(found.filter(|problem| !touched.contains(&place(&problem.path))));
            return problems;
        }
        rest = without(&sound, &wrong);
        // Some rules are tried only on what has the right fields.
        let new: Vec<Problem> = wrong.into_iter().filter(|problem| !touched.contains(&place(&problem.path))).collect();
        touched.extend(new.iter().map(|problem| place(&problem.path)));
        problems.extend(new);
    }
    problems
}

/// What a field belongs to: `spec.services.nova` for all of Nova's fields.
fn place(path: &str) -> String {
    keys(path).into_iter().take(3).collect::<Vec<_>>().join(".")
}

/// An object without the fields that problems are about, or without what a field is missing from. None if all of it would go.
fn without(object: &Value, problems: &[Problem]) -> Option<Value> {
    let mut rest = object.clone();
    let mut paths: Vec<Vec<&str>> = problems.iter().map(|problem| existing(object, &problem.path)).collect();
    // Later items of a list first, because those behind one that is removed move up.
    paths.sort_by_key(|path| {
        std::cmp::Reverse(path.iter().map(|key| (key.parse::<usize>().ok(), *key)).collect::<Vec<_>>())
    });
    paths.dedup();
    for path in paths {
        let (last, parents) = path.split_last().filter(|(_, parents)| !parents.is_empty())?;
        let parent = parents.iter().try_fold(&mut rest, |value, key| match value {
            Value::Object(fields) => fields.get_mut(*key),
            Value::Array(items) => items.get_mut(key.parse::<usize>().ok()?),
            _ => None,
        });
        match (parent, last.parse::<usize>()) {
            (Some(Value::Object(fields)), _) => drop(fields.remove(*last)),
            (Some(Value::Array(items)), Ok(index)) if index < items.len() => drop(items.remove(index)),
            // What it was in has gone before.
            _ => {}
        }
    }
    Some(rest)
}

/// The keys of a path as far as an object has them.
fn existing<'p>(object: &Value, path: &'p str) -> Vec<&'p str> {
    let mut value = Some(object);
    let step = |key: &&str| {
        value = match value {
            Some(Value::Object(fields)) => fields.get(*key),
            Some(Value::Array(items)) => key.parse::<usize>().ok().and_then(|index| items.get(index)),
            _ => None,
        };
        value.is_some()
    };
    keys(path).into_iter().take_while(step).collect()
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
    fn items_of_lists_are_taken_away_from_the_end_and_what_lacks_a_field_as_a_whole() {
        let object = json!({"spec": {"a": [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10], "b": {"c": 1, "d": {}}}});
        let wrong = |paths: &[&str]| -> Vec<Problem> {
            paths.iter().map(|path| c5c3_api::problem(*path, "is wrong", "")).collect()
        };
        let rest = without(&object, &wrong(&["spec.a[10]", "spec.a[9]", "spec.a[2]", "spec.b.c", "spec.b.d.missing"]));
        assert_eq!(rest, Some(json!({"spec": {"a": [0, 1, 3, 4, 5, 6, 7, 8], "b": {}}})));
        assert_eq!(without(&object, &wrong(&["spec.missing"])), None, "nothing would be left");
    }

    /// Mistakes in five services, found by the rules of kinds and by the operators of the ControlPlane and of services.
    #[test]
    fn a_mistake_in_one_service_hides_none_in_another() {
        let object = json!({"apiVersion": "c5c3.io/v1alpha1", "kind": "ControlPlane",
        "metadata": {"name": "lab", "namespace": "cellar"}, "spec": {"services": {
            "keystone": {"policyOverrides": {"rules": {"identity:list_users": "role:admin or"}}},
            "glance": {"backend": {"type": "file"}, "template": {"storage": {"backend": "rbd"}}},
            "placement": {"template": {"extraConfig": {"placement": {"randomise_allocation_candidate": "true"}}}},
            "neutron": {"policyOverrides": {"rules": {"get_network": "rule:nope"}}},
            "nova": {"template": {"extraConfig": {"DEFAULT": {"cpu_alocation_ratio": "4"}}}},
        }}});
        let kind = c5c3_api::find("c5c3.io/v1alpha1", "ControlPlane").unwrap();
        let told = all_problems(&operator::all(true), kind, &object, None).to_string();
        for service in ["keystone", "glance", "placement", "neutron", "nova"] {
            let count = told.lines().filter(|line| line.starts_with(&format!("spec.services.{service}."))).count();
            assert_eq!(count, 1, "of {service}: {told}");
        }
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
