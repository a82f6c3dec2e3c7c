//! CEL rules (`x-kubernetes-validations`): binding `self` and `oldSelf` at each node and running its rules.

mod context;
mod escape;
mod rewrite;
mod rule;
mod value;

pub(crate) use escape::escape;
pub(crate) use rule::{Rule, parse_plainly};

use kube_cel::cel::objects::OptionalValue;
use kube_cel::cel::{Context, ExecutionError, Value as Cel};
use serde_json::Value;
use std::sync::Arc;

use crate::node::{Child, Node};
use crate::path::Path;
use crate::problem::{Problem, ProblemKind, Problems};

/// Runs every rule of a schema that has a value to run on.
pub(crate) fn validate(node: &Node, object: &Value, old: Option<&Value>) -> Problems {
    let mut problems = Problems::new();
    if node.ruled {
        context::with(|context| {
            let mut walk = Walk { context, problems: &mut problems };
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
    context: &'c Context<'c>,
    problems: &'c mut Problems,
}

impl Walk<'_> {
    fn node(&mut self, node: &Node, value: &Value, old: Option<&Value>, path: &Path<'_>, place: Place) {
        // A rule sees no null: whether one is allowed is for the surrounding schema to say.
        if !node.ruled || value.is_null() {
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
                for (i, item) in items.iter().enumerate() {
                    let old = node.old_item(old, item);
                    self.node(element, item, old, &path.index(i), below);
                }
            }
            _ => {}
        }
    }

    fn rules(&mut self, node: &Node, value: &Value, old: Option<&Value>, path: &Path<'_>, place: Place) {
        let mut context = self.context.new_inner_scope();
        context.add_variable_from_value("self", value::to_cel(node, value, place.root));
        let uses_old = node.rules.iter().any(|rule| rule.uses_old);
        let before = old.filter(|_| uses_old).map(|old| {
            let old = value::aligned(node, old, value);
            value::to_cel(node, &old, place.root)
        });
        for rule in &node.rules {
            // An update is not blamed for what it left as it was; only rules about the change itself apply.
            if place.settled && !rule.uses_old {
                continue;
            }
            match (&before, rule.optional_old) {
                (None, false) if rule.uses_old => continue,
                (Some(before), false) => context.add_variable_from_value("oldSelf", before.clone()),
                (Some(before), true) => {
                    context.add_variable_from_value("oldSelf", optional(Some(before.clone())));
                }
                (None, true) => context.add_variable_from_value("oldSelf", optional(None)),
                (None, false) => {}
            }
            if let Some(problem) = run(rule, &context, path) {
                self.problems.push(problem);
            }
        }
    }
}

fn optional(value: Option<Cel>) -> Cel {
    Cel::Opaque(Arc::new(match value {
        Some(value) => OptionalValue::of(value),
        None => OptionalValue::none(),
    }))
}

fn run(rule: &Rule, context: &Context<'_>, path: &Path<'_>) -> Option<Problem> {
    match Cel::resolve(&rule.expression, context) {
        Ok(Cel::Bool(true)) => None,
        Ok(Cel::Bool(false)) => {
            let message = rule.message(context);
            let (what, fix) = message.split_once("; ").unwrap_or((&message, ""));
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
            Some(Problem::new(at, kind, what, fix))
        }
        Ok(_) => Some(broken(rule, path, "it is neither true nor false")),
        Err(error) => Some(broken(rule, path, &explain(&error))),
    }
}

/// A rule that cannot be evaluated refuses the object, as in the API server: better than letting through what it
/// was written to stop.
fn broken(rule: &Rule, path: &Path<'_>, why: &str) -> Problem {
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
