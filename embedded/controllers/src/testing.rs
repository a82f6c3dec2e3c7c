//! What the tests of decisions are made of.

use serde::de::DeserializeOwned;
use serde_json::Value;

/// `base` with what `more` adds and replaces.
pub(crate) fn with(mut base: Value, more: Value) -> Value {
    let (Some(fields), Value::Object(more)) = (base.as_object_mut(), more) else { panic!("two objects") };
    fields.extend(more);
    base
}

/// An object from its JSON.
pub(crate) fn of<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("the object of a test is one of its kind")
}
