//! JSON merge patch (RFC 7386): objects merge, null deletes, everything else replaces.

use serde_json::{Map, Value};

use super::PatchError;
use crate::depth::too_deep;

/// The object with a JSON merge patch applied.
pub fn merge_patch(target: &Value, patch: &Value) -> Result<Value, PatchError> {
    if too_deep(target) || too_deep(patch) {
        return Err(PatchError::TooDeep);
    }
    let mut result = target.clone();
    merge(&mut result, patch);
    Ok(result)
}

fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(changes) = patch else {
        target.clone_from(patch);
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(fields) = target else { return };
    for (name, change) in changes {
        if change.is_null() {
            fields.remove(name);
        } else {
            merge(fields.entry(name.as_str()).or_insert(Value::Null), change);
        }
    }
}
