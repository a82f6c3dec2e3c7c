//! Match conditions: CEL over `object`, `oldObject` and `request`.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use kube_cel::KubeCelExt;
use kube_cel::cel::objects::{Key, Map};
use kube_cel::cel::parser::Parser;
use kube_cel::cel::{Context, Value as Cel};
use serde_json::Value;

thread_local! {
    // Registering the functions is dearer than running a condition, and a context is not `Sync`.
    static CONTEXT: Context<'static> = Context::default().with_all();
}

/// Whether all conditions hold for the request of a review. One that does not hold outweighs those that fail.
pub(super) fn hold(conditions: &Value, request: &Value) -> Result<bool, String> {
    let conditions = conditions.as_array().map(Vec::as_slice).unwrap_or_default();
    if conditions.is_empty() {
        return Ok(true);
    }
    let mut about = request.clone();
    let mut take = |field: &str| about.as_object_mut().and_then(|about| about.remove(field)).unwrap_or_default();
    let (object, old) = (take("object"), take("oldObject"));
    CONTEXT.with(|context| {
        let mut context = context.new_inner_scope();
        for (name, value) in [("object", &object), ("oldObject", &old), ("request", &about)] {
            context.add_variable_from_value(name, to_cel(value));
        }
        let mut failed = Vec::new();
        for condition in conditions {
            match evaluate(&context, condition["expression"].as_str().unwrap_or_default()) {
                Ok(true) => {}
                Ok(false) => return Ok(false),
                Err(why) => failed.push(format!("match condition {} fails: {why}", condition["name"])),
            }
        }
        if failed.is_empty() { Ok(true) } else { Err(failed.join(", ")) }
    })
}

fn evaluate(context: &Context<'_>, expression: &str) -> Result<bool, String> {
    let parsed = Parser::new().enable_optional_syntax(true).parse(expression).map_err(|error| error.to_string())?;
    // The interpreter panics on what Kubernetes' type checker would have refused, such as `a.B{c: 1}`.
    match catch_unwind(AssertUnwindSafe(|| Cel::resolve(&parsed, context))) {
        Ok(Ok(Cel::Bool(holds))) => Ok(holds),
        Ok(Ok(_)) => Err("it is neither true nor false".to_owned()),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err("it cannot be evaluated".to_owned()),
    }
}

fn to_cel(value: &Value) -> Cel {
    match value {
        Value::Null => Cel::Null,
        Value::Bool(bool) => Cel::Bool(*bool),
        Value::Number(number) => {
            number.as_i64().map_or_else(|| Cel::Float(number.as_f64().unwrap_or(f64::NAN)), Cel::Int)
        }
        Value::String(text) => Cel::String(Arc::new(text.clone())),
        Value::Array(items) => Cel::List(Arc::new(items.iter().map(to_cel).collect())),
        Value::Object(fields) => {
            let fields = fields.iter().map(|(name, value)| (Key::String(Arc::new(name.clone())), to_cel(value)));
            Cel::Map(Map { map: Arc::new(fields.collect::<HashMap<_, _>>()) })
        }
    }
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
    fn a_condition_that_does_not_hold_outweighs_one_that_fails() {
        assert_eq!(holds(&["object.absent == 1", "false"]), Ok(false));
        for failing in ["object.absent == 1", "(", "'text'", "authorizer.path('/').check('get').allowed()", "a.B{c: 1}"]
        {
            assert!(holds(&["true", failing]).is_err(), "{failing}");
        }
    }
}
