//! CEL rules (`x-kubernetes-validations`): binding `self` and `oldSelf` at each node and running its rules.

mod context;
mod escape;
mod expression;
mod messages;
mod meter;
mod operators;
mod parse;
mod rewrite;
mod rule;
mod run;
mod value;

pub(crate) use escape::escape;
pub use expression::{Budget, EvaluationError, Expression, Outcome, Variables};
pub(crate) use parse::parse_plainly;
pub(crate) use rule::Rule;

use kube_cel::cel::common::ast::IdedExpr;
use kube_cel::cel::{Context, ExecutionError, Value as Cel};
use serde_json::Value;

use crate::node::{Child, Node};
use crate::path::Path;
use crate::problem::{Problem, ProblemKind, Problems};
use run::{Answer, Run};

/// Runs every rule of a schema that has a value to run on, until one of them or all of them have cost too much.
pub(crate) fn validate(node: &Node, object: &Value, old: Option<&Value>) -> Problems {
    let mut problems = Problems::new();
    if node.ruled {
        context::with(|functions| {
            let mut walk = Walk { functions, left: Some(meter::PER_OBJECT), problems: &mut problems };
            walk.node(node, object, old, &Path::ROOT, Place::root());
        });
    }
    problems
}

#[derive(Clone, Copy)]
struct Place {
    root: bool,
    /// The nearest ancestor that has an old counterpart is equal to it, so nothing here has changed.
    settled: bool,
}

impl Place {
    fn root() -> Self {
        Self { root: true, settled: false }
    }
}

struct Walk<'c> {
    functions: &'c Context<'c>,
    /// What may still be spent on this object; none when it is used up, and nothing else is looked at.
    left: Option<u64>,
    problems: &'c mut Problems,
}

impl Walk<'_> {
    fn node(&mut self, node: &Node, value: &Value, old: Option<&Value>, path: &Path<'_>, place: Place) {
        // A rule sees no null: whether one is allowed is for the surrounding schema to say.
        if !node.ruled || value.is_null() || self.left.is_none() {
            return;
        }
        let old = old.filter(|old| !old.is_null());
        let settled = old.map_or(place.settled, |old| old == value);
        if !node.rules.is_empty() {
            self.rules(node, value, old, path, Place { settled, ..place });
        }
        let below = Place { root: false, settled };
        match value {
            Value::Object(map) => {
                for (key, value) in map {
                    let (child, path) = match node.child(key) {
                        Child::Field(child) => (child, path.field(key)),
                        Child::Key(child) => (child, path.key(key)),
                        Child::Anything | Child::Unknown => continue,
                    };
                    self.node(child, value, node.old_value(old, key), &path, below);
                }
            }
            Value::Array(items) => {
                let Some(element) = node.items.as_deref() else {
                    return;
                };
                let before = node.old_items(old);
                for (i, item) in items.iter().enumerate() {
                    self.node(element, item, before.of(item), &path.index(i), below);
                }
            }
            _ => {}
        }
    }

    fn rules(&mut self, node: &Node, value: &Value, old: Option<&Value>, path: &Path<'_>, place: Place) {
        // An update is not blamed for what it left as it was; only rules about the change itself apply.
        let applies =
            |rule: &&Rule| (!place.settled || rule.uses_old) && (old.is_some() || rule.optional_old || !rule.uses_old);
        let rules: Vec<&Rule> = node.rules.iter().filter(applies).collect();
        if rules.is_empty() {
            return;
        }
        let now = value::to_cel(node, value, place.root);
        let before = old.filter(|_| rules.iter().any(|rule| rule.uses_old)).map(|old| {
            let old = value::aligned(node, old, value);
            value::to_cel(node, &old, place.root)
        });
        for rule in rules {
            let mut variables = vec![("self".to_owned(), now.clone())];
            if rule.optional_old {
                variables.push(("oldSelf".to_owned(), operators::optional(before.clone())));
            } else if let Some(before) = &before {
                variables.push(("oldSelf".to_owned(), before.clone()));
            }
            if let Some(problem) = self.run(rule, &variables, path) {
                self.problems.push(problem);
            }
            if self.left.is_none() {
                return;
            }
        }
    }

    fn run(&mut self, rule: &Rule, variables: &[(String, Cel)], path: &Path<'_>) -> Option<Problem> {
        match self.pay_for(&rule.expression, variables) {
            Ok(Ok(Cel::Bool(true))) => None,
            Ok(Ok(Cel::Bool(false))) => {
                let evaluated = rule.message_expression().map(|expression| self.pay_for(expression, variables));
                let message = rule.message(evaluated.and_then(Result::ok).and_then(Result::ok));
                Some(broken(rule, path, &message))
            }
            Ok(Ok(_)) => Some(unusable(rule, path, "it is neither true nor false")),
            Ok(Err(error)) => Some(unusable(rule, path, &explain(&error))),
            Err(why) => Some(Problem::new(path, ProblemKind::Invalid, why.replace("{rule}", rule.name()), "")),
        }
    }

    /// Evaluates an expression. The error says that it cost too much, and ends it all.
    fn pay_for(&mut self, expression: &IdedExpr, variables: &[(String, Cel)]) -> Result<Answer, &'static str> {
        let Some(left) = self.left else { return Err(OUT_OF_BUDGET) };
        let mut run = Run::new(self.functions, variables, meter::PER_EVALUATION);
        let answer = run.evaluate(expression);
        self.left = left.checked_sub(run.meter.spent());
        if run.meter.is_over() {
            self.left = None;
            return Err(TOO_DEAR);
        }
        if self.left.is_none() { Err(OUT_OF_BUDGET) } else { Ok(answer) }
    }
}

/// What a real API server says when all rules together cost too much.
const OUT_OF_BUDGET: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";

/// What it says when one rule does.
const TOO_DEAR: &str = "'operation cancelled: actual cost limit exceeded': no further validation rules will be run due to \
                        call cost exceeds limit for rule: {rule}";

fn broken(rule: &Rule, path: &Path<'_>, message: &str) -> Problem {
    let (what, fix) = message.split_once("; ").unwrap_or((message, ""));
    let kind = match rule.reason.as_deref() {
        Some("FieldValueForbidden") => ProblemKind::Forbidden,
        Some("FieldValueRequired") => ProblemKind::Required,
        Some("FieldValueDuplicate") => ProblemKind::Duplicate,
        _ => ProblemKind::Invalid,
    };
    let at = match &rule.field_path {
        Some(tail) => path.tail(tail).to_string(),
        None => path.to_string(),
    };
    Problem::new(at, kind, what, fix)
}

/// A rule that cannot be evaluated refuses the object, as in the API server: better than letting through what it
/// was written to stop.
fn unusable(rule: &Rule, path: &Path<'_>, why: &str) -> Problem {
    Problem::new(path, ProblemKind::Invalid, format!("cannot be checked against the rule {:?}: {why}", rule.name()), "")
}

/// Names keys and functions but no values: those may be long, or secret.
fn explain(error: &ExecutionError) -> String {
    match error {
        ExecutionError::NoSuchKey(key) => format!("no such key: {key}"),
        ExecutionError::UndeclaredReference(name) => format!("{name} is not known here"),
        ExecutionError::FunctionError { function, .. } => format!("{function}() failed"),
        ExecutionError::DivisionByZero(_) | ExecutionError::RemainderByZero(_) => "division by zero".to_owned(),
        ExecutionError::Overflow(..) => "a number grows too large".to_owned(),
        ExecutionError::IndexOutOfBounds(_) => "an index is beyond the end of its list".to_owned(),
        _ => "it uses a value as something that it is not".to_owned(),
    }
}
