//! Reading JSON without ceremony: what is not there, or is of another type, reads as empty.

use serde_json::Value;

/// The string at `key`, or an empty one.
pub(crate) fn str_at<'v>(value: &'v Value, key: &str) -> &'v str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// The boolean at `key`, or false.
pub(crate) fn bool_at(value: &Value, key: &str) -> bool {
    value.get(key).and_then(Value::as_bool).unwrap_or_default()
}

/// The integer at `key`, or zero.
pub(crate) fn int_at(value: &Value, key: &str) -> i64 {
    value.get(key).and_then(Value::as_i64).unwrap_or_default()
}

/// The list at `key`, or an empty one.
pub(crate) fn list_at<'v>(value: &'v Value, key: &str) -> &'v [Value] {
    value.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The strings of the list at `key`.
pub(crate) fn strings_at(value: &Value, key: &str) -> Vec<String> {
    list_at(value, key).iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// The entries of the map at `key`.
pub(crate) fn entries_at<'v>(value: &'v Value, key: &str) -> impl Iterator<Item = (&'v String, &'v Value)> {
    value.get(key).and_then(Value::as_object).into_iter().flatten()
}

/// Whether there is nothing at `key`: no value, null, or an empty string, list or map.
pub(crate) fn is_empty_at(value: &Value, key: &str) -> bool {
    value.get(key).is_none_or(is_empty)
}

/// Whether the value is null, or an empty string, list or map.
pub(crate) fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(entries) => entries.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}
