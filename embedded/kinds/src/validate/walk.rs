//! The rules that can be read off a kind's schema: strings that may not be missing, enumerated values, quantities.

use serde_json::Value;

use super::report::Report;
use crate::quantity::Quantity;
use crate::read::is_empty_at;
use crate::schema::{ENUM, QUANTITY, REQUIRED};

/// Checks an object but for its metadata, which has rules of its own.
pub(super) fn walk(schema: &Value, object: &Value, report: &mut Report) {
    required(schema, object, "", report);
    for (key, value) in object.as_object().into_iter().flatten().filter(|(key, _)| *key != "metadata") {
        value_at(&schema["properties"][key], value, key.clone(), report);
    }
}

fn value_at(schema: &Value, value: &Value, path: String, report: &mut Report) {
    match value {
        Value::Object(fields) => {
            required(schema, value, &path, report);
            for (key, field) in fields {
                match schema["properties"].get(key) {
                    Some(below) => value_at(below, field, format!("{path}.{key}"), report),
                    None => value_at(&schema["additionalProperties"], field, format!("{path}[{key}]"), report),
                }
            }
        }
        Value::Array(items) => {
            for (at, item) in items.iter().enumerate() {
                value_at(&schema["items"], item, format!("{path}[{at}]"), report);
            }
        }
        Value::String(_) | Value::Number(_) if schema["format"] == QUANTITY => quantity(value, path, report),
        Value::String(text) if !text.is_empty() => {
            if let Some(supported) = schema[ENUM].as_array().filter(|supported| !supported.contains(value)) {
                let supported: Vec<&str> = supported.iter().filter_map(Value::as_str).collect();
                report.unsupported(path, value.clone(), &supported);
            }
        }
        _ => {}
    }
}

fn quantity(value: &Value, path: String, report: &mut Report) {
    if Quantity::from_json(value).is_none() {
        report.invalid(path, value.clone(), "must be a quantity: a number and a suffix such as m, k, M, Ki or Mi");
    }
}

fn required(schema: &Value, value: &Value, path: &str, report: &mut Report) {
    for field in schema[REQUIRED].as_array().into_iter().flatten().filter_map(Value::as_str) {
        if is_empty_at(value, field) {
            let dot = if path.is_empty() { "" } else { "." };
            report.required(format!("{path}{dot}{field}"), "");
        }
    }
}
