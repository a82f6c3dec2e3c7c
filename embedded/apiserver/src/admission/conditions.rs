//! Match conditions: CEL over `object`, `oldObject` and `request`.

use c5c3_schema::{Budget, Expression, Variables};
use serde_json::Value;

/// What the conditions of one webhook may cost together.
const BUDGET: u64 = 2_500_000;

/// Whether all conditions hold for the request of a review. One that does not hold outweighs those that fail.
pub(super) fn hold(conditions: &Value, request: &Value) -> Result<bool, String> {
    if conditions.as_array().is_none_or(Vec::is_empty) {
        return Ok(true);
    }
    all_hold(conditions, &variables(request), &mut Budget::new(BUDGET))
}

/// Whether all conditions hold, with these variables.
pub(super) fn all_hold(conditions: &Value, variables: &Variables, budget: &mut Budget) -> Result<bool, String> {
    let conditions = conditions.as_array().map(Vec::as_slice).unwrap_or_default();
    let mut failed = Vec::new();
    for condition in conditions {
        match evaluate(condition["expression"].as_str().unwrap_or_default(), variables, budget) {
            Ok(true) => {}
            Ok(false) => return Ok(false),
            Err(why) => failed.push(format!("match condition {} fails: {why}", condition["name"])),
        }
    }
    if failed.is_empty() { Ok(true) } else { Err(failed.join(", ")) }
}

/// What expressions see of the request of a review.
pub(super) fn variables(request: &Value) -> Variables {
    let mut about = request.clone();
    let mut take = |field: &str| about.as_object_mut().and_then(|about| about.remove(field)).unwrap_or_default();
    let (object, old) = (take("object"), take("oldObject"));
    let mut variables = Variables::default();
    for (name, value) in [("object", &object), ("oldObject", &old), ("request", &about)] {
        variables.json(name, value);
    }
    variables
}

fn evaluate(expression: &str, variables: &Variables, budget: &mut Budget) -> Result<bool, String> {
    let outcome = Expression::parse(expression)?.evaluate(variables, budget).map_err(|error| error.to_string())?;
    outcome.as_bool().ok_or_else(|| "it is neither true nor false".to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn holds(expressions: &[&str]) -> Result<bool, String> {
        let conditions: Vec<Value> =
            expressions.iter().map(|expression| json!({"name": "c", "expression": expression})).collect();
        let request = json!({
            "operation": "CREATE", "userInfo": {"username": "gardener", "groups": ["a"]},
            "object": {"metadata": {"name": "tree", "labels": {"a.b/c": "d"}}, "spec": {"replicas": 3}}, "oldObject": null,
        });
        hold(&json!(conditions), &request)
    }

    #[test]
    fn conditions_see_the_object_its_past_and_the_request() {
        for expression in [
            "object.metadata.name == 'tree'",
            "object.metadata.labels['a.b/c'] == 'd' && object.spec.replicas == 3",
            "oldObject == null",
            "!has(object.status)",
            "request.operation == 'CREATE' && 'a' in request.userInfo.groups",
            "!request.userInfo.username.startsWith('system:')",
        ] {
            assert_eq!(holds(&[expression]), Ok(true), "{expression}");
        }
        assert_eq!(hold(&Value::Null, &json!({})), Ok(true));
    }

    #[test]
    fn a_condition_that_would_take_for_ever_fails() {
        let inner = "[1,2,3,4,5,6,7,8,9,10]";
        let bomb = (0..9).fold("true".to_owned(), |bomb, depth| format!("{inner}.all(n{depth}, {bomb})"));
        let why = holds(&[&bomb]).unwrap_err();
        assert!(why.ends_with("operation cancelled: actual cost limit exceeded"), "{why}");
    }

    #[test]
    fn a_condition_that_does_not_hold_outweighs_one_that_fails() {
        assert_eq!(holds(&["object.absent == 1", "false"]), Ok(false));
        for failing in ["object.absent == 1", "(", "'text'", "authorizer.path('/').check('get').allowed()", "a.B{c: 1}"]
        {
            assert!(holds(&["true", failing]).is_err(), "{failing}");
        }
    }
}
