//! The functions and constants a rule can use: CEL's own, Kubernetes' libraries, and the few of the standard that the
//! crates lack.

use std::sync::Arc;

use kube_cel::KubeCelExt;
use kube_cel::cel::{Context, ExecutionError, Value};

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
    context
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
