//! Equality and order of JSON values as field ownership sees them: 1 and 1.0 are the same number.

use std::cmp::Ordering;

use serde_json::{Map, Number, Value};

/// Whether two values are equal, numbers by what they count and not by how they are written.
pub(crate) fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => compare_numbers(a, b) == Ordering::Equal,
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| same(a, b)))
        }
        _ => a == b,
    }
}

/// A total order over values of any kind: numbers, strings, booleans, lists, objects, null.
pub(crate) fn compare(a: &Value, b: &Value) -> Ordering {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => compare_numbers(a, b),
        (Value::String(a), Value::String(b)) => a.cmp(b),
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        (Value::Array(a), Value::Array(b)) => compare_all(a.iter(), b.iter()),
        (Value::Object(a), Value::Object(b)) => compare_objects(a, b),
        _ => rank(a).cmp(&rank(b)),
    }
}

fn rank(value: &Value) -> u8 {
    match value {
        Value::Number(_) => 0,
        Value::String(_) => 1,
        Value::Bool(_) => 2,
        Value::Array(_) => 3,
        Value::Object(_) => 4,
        Value::Null => 5,
    }
}

fn compare_numbers(a: &Number, b: &Number) -> Ordering {
    match (a.as_i64(), b.as_i64()) {
        (Some(a), Some(b)) => a.cmp(&b),
        _ => a.as_f64().unwrap_or(f64::NAN).total_cmp(&b.as_f64().unwrap_or(f64::NAN)),
    }
}

fn compare_all<'a>(
    a: impl ExactSizeIterator<Item = &'a Value>,
    b: impl ExactSizeIterator<Item = &'a Value>,
) -> Ordering {
    let lengths = a.len().cmp(&b.len());
    a.zip(b).map(|(a, b)| compare(a, b)).find(|order| order.is_ne()).unwrap_or(lengths)
}

fn compare_objects(a: &Map<String, Value>, b: &Map<String, Value>) -> Ordering {
    let sorted = |map: &Map<String, Value>| {
        let mut keys: Vec<String> = map.keys().cloned().collect();
        keys.sort();
        keys
    };
    let (a_keys, b_keys) = (sorted(a), sorted(b));
    a_keys.cmp(&b_keys).then_with(|| {
        let (a, b): (Vec<_>, Vec<_>) = (a_keys.iter().map(|k| &a[k]).collect(), b_keys.iter().map(|k| &b[k]).collect());
        compare_all(a.into_iter(), b.into_iter())
    })
}
