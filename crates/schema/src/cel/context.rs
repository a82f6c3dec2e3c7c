//! The functions and constants a rule can use: CEL's own, Kubernetes' libraries, and the few of the standard that the
//! crates lack.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use kube_cel::KubeCelExt;
use kube_cel::cel::extractors::{Arguments, This};
use kube_cel::cel::{Context, ExecutionError, Value};
use regex::Regex;

thread_local! {
    // Registering some hundred functions is far dearer than running a rule; a context is not `Sync`, so one a thread.
    static CONTEXT: Context<'static> = make();
}

pub(super) fn with<T>(body: impl FnOnce(&Context<'_>) -> T) -> T {
    CONTEXT.with(|context| body(context))
}

/// The names of CEL's types. `type(x) == string` is how a rule tells apart the two kinds of an int-or-string, and
/// comparing names does the same as comparing types.
const TYPES: [&str; 9] = ["bool", "bytes", "double", "int", "list", "map", "null_type", "string", "uint"];

fn make() -> Context<'static> {
    let mut context = Context::default().with_all();
    for name in TYPES {
        context.add_variable_from_value(name, type_named(name));
    }
    context.add_function("type", type_of);
    context.add_function("dyn", |value: Value| -> Result<Value, ExecutionError> { Ok(value) });
    context.add_function("bool", to_bool);
    context.add_function("matches", matches);
    context.add_function("find", find);
    context.add_function("findAll", find_all);
    context
}

/// Patterns are few and used often, and compiling one takes far longer than matching.
const MOST_PATTERNS: usize = 256;

thread_local! {
    static PATTERNS: RefCell<HashMap<String, Regex>> = RefCell::default();
}

/// Does something with a compiled pattern.
fn with_pattern<T>(pattern: &str, does: impl FnOnce(&Regex) -> T) -> Result<T, ExecutionError> {
    PATTERNS.with_borrow_mut(|patterns| {
        if let Some(known) = patterns.get(pattern) {
            return Ok(does(known));
        }
        let compiled = Regex::new(pattern).map_err(|error| ExecutionError::function_error("matches", error))?;
        let done = does(&compiled);
        if patterns.len() >= MOST_PATTERNS {
            patterns.clear();
        }
        patterns.insert(pattern.to_owned(), compiled);
        Ok(done)
    })
}

#[expect(clippy::needless_pass_by_value, reason = "the shape of a CEL function")]
fn matches(This(text): This<Arc<String>>, pattern: Arc<String>) -> Result<Value, ExecutionError> {
    with_pattern(&pattern, |pattern| Value::Bool(pattern.is_match(&text)))
}

#[expect(clippy::needless_pass_by_value, reason = "the shape of a CEL function")]
fn find(This(text): This<Arc<String>>, pattern: Arc<String>) -> Result<Value, ExecutionError> {
    with_pattern(&pattern, |pattern| {
        Value::String(Arc::new(pattern.find(&text).map_or("", |found| found.as_str()).to_owned()))
    })
}

/// All that match, or as many as are asked for.
fn find_all(This(text): This<Arc<String>>, Arguments(args): Arguments) -> Result<Value, ExecutionError> {
    let (pattern, most) = match args.as_slice() {
        [Value::String(pattern)] => (pattern, usize::MAX),
        [Value::String(pattern), Value::Int(most)] => (pattern, usize::try_from(*most).unwrap_or(usize::MAX)),
        _ => return Err(ExecutionError::NoSuchOverload),
    };
    with_pattern(pattern, |pattern| {
        let found = pattern.find_iter(&text).take(most).map(|found| Value::String(Arc::new(found.as_str().to_owned())));
        Value::List(Arc::new(found.collect()))
    })
}

fn type_named(name: &str) -> Value {
    Value::String(Arc::new(format!("type {name}")))
}

#[expect(clippy::needless_pass_by_value, clippy::unnecessary_wraps, reason = "the shape of a CEL function")]
fn type_of(value: Value) -> Result<Value, ExecutionError> {
    Ok(type_named(match value {
        Value::Bool(_) => "bool",
        Value::Bytes(_) => "bytes",
        Value::Float(_) => "double",
        Value::Int(_) => "int",
        Value::List(_) => "list",
        Value::Map(_) => "map",
        Value::Null => "null_type",
        Value::String(_) => "string",
        Value::UInt(_) => "uint",
        Value::Timestamp(_) => "google.protobuf.Timestamp",
        Value::Duration(_) => "google.protobuf.Duration",
        _ => "opaque",
    }))
}

fn to_bool(value: Value) -> Result<Value, ExecutionError> {
    match value {
        Value::Bool(_) => Ok(value),
        Value::String(text) => match text.as_str() {
            "true" | "True" | "TRUE" | "t" | "1" => Ok(Value::Bool(true)),
            "false" | "False" | "FALSE" | "f" | "0" => Ok(Value::Bool(false)),
            _ => Err(ExecutionError::function_error("bool", "not a boolean")),
        },
        _ => Err(ExecutionError::NoSuchOverload),
    }
}
