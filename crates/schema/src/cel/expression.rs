//! Expressions that are not rules of a schema: match conditions of webhooks, admission policies.

use std::collections::HashMap;
use std::sync::Arc;

use kube_cel::cel::common::ast::IdedExpr;
use kube_cel::cel::objects::{Key, Map};
use kube_cel::cel::{ExecutionError, Value as Cel};
use serde_json::Value;

use super::run::Run;
use super::{context, explain, parse, value};

/// A CEL expression, parsed once.
#[derive(Debug)]
pub struct Expression(IdedExpr);

/// The variables of an expression.
#[derive(Clone, Debug, Default)]
pub struct Variables(Vec<(String, Cel)>);

/// What an expression comes to.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome(Cel);

/// Why an expression comes to nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EvaluationError {
    /// It costs more than it may; so would the next one.
    #[error("operation cancelled: actual cost limit exceeded")]
    TooDear,
    /// It cannot be evaluated.
    #[error("{0}")]
    Failed(String),
}

/// What may still be spent on several evaluations together.
#[derive(Clone, Copy, Debug)]
pub struct Budget(u64);

impl Budget {
    /// So much.
    pub fn new(cost: u64) -> Self {
        Self(cost)
    }
}

impl Variables {
    /// Sets a variable to a JSON value.
    pub fn json(&mut self, name: &str, value: &Value) {
        self.0.push((name.to_owned(), value::plain(value)));
    }

    /// Sets a variable to a map of what other expressions came to.
    pub fn map<'a>(&mut self, name: &str, entries: impl IntoIterator<Item = (&'a str, &'a Outcome)>) {
        let entries =
            entries.into_iter().map(|(key, outcome)| (Key::String(Arc::new(key.to_owned())), outcome.0.clone()));
        let map = Map { map: Arc::new(entries.collect::<HashMap<_, _>>()) };
        self.0.retain(|(known, _)| known != name);
        self.0.push((name.to_owned(), Cel::Map(map)));
    }
}

impl Outcome {
    /// The truth, if it is one.
    pub fn as_bool(&self) -> Option<bool> {
        match self.0 {
            Cel::Bool(bool) => Some(bool),
            _ => None,
        }
    }

    /// The text, if it is one.
    pub fn as_str(&self) -> Option<&str> {
        match &self.0 {
            Cel::String(text) => Some(text),
            _ => None,
        }
    }

    /// As JSON; none for what JSON has no form for.
    pub fn to_json(&self) -> Option<Value> {
        value::to_json(&self.0)
    }

    /// Whether it is nothing.
    pub fn is_null(&self) -> bool {
        matches!(self.0, Cel::Null)
    }
}

impl Expression {
    /// Parses an expression.
    pub fn parse(source: &str) -> Result<Self, String> {
        parse::parse(source).map(Self)
    }

    /// Parses an expression of a mutation, which may make an object (`Object{...}`) or a patch (`JSONPatch{...}`).
    pub fn parse_mutation(source: &str) -> Result<Self, String> {
        parse::parse_mutation(source).map(Self)
    }

    /// Evaluates it, within the budget and the limit for one evaluation.
    pub fn evaluate(&self, variables: &Variables, budget: &mut Budget) -> Result<Outcome, EvaluationError> {
        context::with(|functions| {
            let mut run = Run::new(functions, &variables.0, budget.0);
            let answer = run.evaluate(&self.0);
            let over = run.meter.is_over();
            budget.0 = budget.0.saturating_sub(run.meter.spent());
            match answer {
                _ if over => Err(EvaluationError::TooDear),
                Ok(value) => Ok(Outcome(value)),
                Err(ExecutionError::NoSuchKey(key)) => Err(EvaluationError::Failed(format!("no such key: {key}"))),
                Err(error) => Err(EvaluationError::Failed(explain(&error))),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn evaluated(source: &str) -> Result<Outcome, EvaluationError> {
        let mut variables = Variables::default();
        let many: Vec<u32> = (0..5_000).collect();
        variables.json("many", &json!(many));
        variables.json("text", &json!("x".repeat(10_000)));
        variables.json("object", &json!({"name": "oak", "tags": ["a", "b"], "nested": {"deep": 1}}));
        Expression::parse(source).unwrap().evaluate(&variables, &mut Budget::new(10_000_000))
    }

    #[test]
    fn expressions_come_to_what_they_say() {
        for source in [
            "object.name == 'oak' && size(object.tags) == 2",
            "object.tags.exists(t, t == 'b') && !object.tags.all(t, t == 'b')",
            "object.tags.map(t, t + t) == ['aa', 'bb'] && object.tags.filter(t, t != 'a') == ['b']",
            "'a' in object.tags && 'name' in object && !('c' in object.tags)",
            "has(object.nested.deep) && !has(object.nested.none)",
            "object.?none.orValue('else') == 'else' && object[?'name'].value() == 'oak'",
            "object.?name.optMap(n, n + '!').orValue('') == 'oak!' && !object.?none.optMap(n, n).hasValue()",
            "cel.bind(n, object.name, n + n) == 'oakoak'",
            "object.none == 1 || true",
            "[0, 2].exists(n, 4 / n == 2)",
            "{'a': 1}['a'] == 1 && [1, 2][1] == 2 && [?object.?none, 3] == [3]",
            "object.tags.exists_one(t, t == 'a') && -(1) < 0 && 1 < 2 && 2.0 >= 1.5",
            "quantity('1Gi').isGreaterThan(quantity('1Mi')) && 'abc'.matches('^a.c$')",
            "type(object.name) == string && dyn(1) == 1 && math.greatest(1, 3) == 3",
            "object.nested.all(k, k == 'deep') && many.map(n, n).size() == 5000",
        ] {
            assert_eq!(evaluated(source).map(|outcome| outcome.as_bool()), Ok(Some(true)), "{source}");
        }
        for source in ["object.none", "1 / 0", "object.tags[9]", "nobody", "'a' < 1", "object.name.substring()"] {
            assert!(matches!(evaluated(source), Err(EvaluationError::Failed(_))), "{source}: {:?}", evaluated(source));
        }
    }

    #[test]
    fn a_mutation_makes_objects_and_patches() {
        let made = |source: &str| {
            let mut variables = Variables::default();
            variables.json("object", &json!({"spec": {"replicas": 2}}));
            let mutation = Expression::parse_mutation(source)?;
            let outcome = mutation.evaluate(&variables, &mut Budget::new(10_000)).map_err(|error| error.to_string())?;
            Ok::<_, String>(outcome.to_json())
        };
        let object = made(
            "Object{metadata: Object.metadata{annotations: {'a/b': 'c'}}, spec: Object.spec{replicas: object.spec.replicas + 1}}",
        );
        assert_eq!(object, Ok(Some(json!({"metadata": {"annotations": {"a/b": "c"}}, "spec": {"replicas": 3}}))));
        let patch = made("[JSONPatch{op: 'add', path: '/spec/paused', value: true}] + ([] == [] ? [] : [])");
        assert_eq!(patch, Ok(Some(json!([{"op": "add", "path": "/spec/paused", "value": true}]))));
        assert!(made("Other{a: 1}").is_err() && Expression::parse("Object{}").is_err());
    }

    #[test]
    fn bombs_do_not_go_off() {
        let doubled = (0..30).fold("text".to_owned(), |inner, n| format!("cel.bind(s{n}, {inner}, s{n} + s{n})"));
        let chained = (0..30).fold("object.?name".to_owned(), |inner, n| format!("{inner}.optMap(n{n}, n{n} + n{n})"));
        for source in [
            "many.all(a, many.all(b, many.all(c, many.all(d, a + b + c + d >= 0))))",
            "many.all(a, many.map(b, b).size() == 5000)",
            "many.map(a, many).size() > 0 && many.all(a, many == many.map(x, x))",
            "many.map(a, text + text).size() == 5000",
            "many.all(a, !text.matches('(x+x+)+y'))",
            "many.all(a, text.find('x{500}').size() > 0)",
            "many.all(a, text.matches('x{' + string(a) + '}'))",
            "many.all(a, text.replace('', text).size() > 0)",
            "lists.range(100000000).size() == 0",
            "many.all(a, many.distinct().size() == 5000)",
            "many.all(a, many.all(b, many.all(c, c < 0))) || many.all(a, many.all(b, a + b >= 0))",
            &doubled,
            &chained,
        ] {
            assert_eq!(evaluated(source), Err(EvaluationError::TooDear), "{source}");
        }
    }
}
