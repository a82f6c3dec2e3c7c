//! Filling in JSON without ceremony: what is not an object or a list is left alone, for validation to report.

use serde_json::{Map, Value};

use crate::read::is_empty_at;

/// Sets `key`. Indexing would panic on a list.
pub(crate) fn put(value: &mut Value, key: &str, new: impl Into<Value>) {
    if let Some(fields) = value.as_object_mut() {
        fields.insert(key.to_owned(), new.into());
    }
}

/// Sets `key` if there is nothing at it: no value, null, or an empty string, list or map.
pub(crate) fn fill(value: &mut Value, key: &str, default: impl Into<Value>) {
    if is_empty_at(value, key) {
        put(value, key, default);
    }
}

/// The object at `key`, made if it is not there.
pub(crate) fn ensure<'v>(value: &'v mut Value, key: &str) -> Option<&'v mut Value> {
    fill(value, key, Map::new());
    child(value, key)
}

/// The object at `key`, if there is one.
pub(crate) fn child<'v>(value: &'v mut Value, key: &str) -> Option<&'v mut Value> {
    value.get_mut(key).filter(|child| child.is_object())
}

/// Does something with each item of the list at `key`.
pub(crate) fn each(value: &mut Value, key: &str, act: impl FnMut(&mut Value)) {
    value.get_mut(key).and_then(Value::as_array_mut).into_iter().flatten().for_each(act);
}
