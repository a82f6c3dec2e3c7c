//! How deep an object may nest. Everything here walks objects by recursion, so depth is checked before the first step.

use serde_json::Value;

/// The deepest nesting that is worked on. The JSON parser of a server stops far earlier, at 128.
pub const MAX_DEPTH: usize = 512;

/// Whether a value nests deeper than `limit` lists and objects. Looks no deeper than that itself.
pub(crate) fn deeper_than(value: &Value, limit: usize) -> bool {
    let deeper = |inner: &Value| match limit.checked_sub(1) {
        Some(left) => deeper_than(inner, left),
        None => true,
    };
    match value {
        Value::Array(items) => items.iter().any(deeper),
        Value::Object(fields) => fields.values().any(deeper),
        _ => false,
    }
}

/// Whether a value nests deeper than [`MAX_DEPTH`].
pub(crate) fn too_deep(value: &Value) -> bool {
    deeper_than(value, MAX_DEPTH)
}
