//! JSON as CEL sees it through a schema: numbers of type `number` are doubles, dates are timestamps, field names are
//! escaped, and of `metadata` only the names show.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use kube_cel::cel::Value as Cel;
use kube_cel::cel::functions;
use kube_cel::cel::objects::{Key, Map};
use serde_json::Value;

use super::escape;
use crate::node::{Additional, Child, Kind, ListType, Node, identity};

/// Converts a value. A resource, the root or an embedded one, shows `apiVersion`, `kind` and of its metadata the names.
pub(super) fn to_cel(node: &Node, value: &Value, root: bool) -> Cel {
    match value {
        Value::Object(map) => {
            let named = matches!(node.additional, Additional::None);
            let resource = root || node.embedded;
            let entry = |(key, value): (&String, &Value)| {
                let value = if resource && key == "metadata" {
                    names_only(value)
                } else {
                    match node.child(key) {
                        Child::Field(child) | Child::Key(child) => to_cel(child, value, false),
                        Child::Anything | Child::Unknown => plain(value),
                    }
                };
                // Keys of a map are data. A name that cannot be escaped is out of a rule's reach, but counts in `==`.
                let key = match escape(key) {
                    Some(escaped) if named => escaped.into_owned(),
                    _ => key.clone(),
                };
                (Key::String(Arc::new(key)), value)
            };
            object(map.iter().map(entry).collect())
        }
        Value::Array(items) => {
            let item = |item: &Value| match node.items.as_deref() {
                Some(element) => to_cel(element, item, false),
                None => plain(item),
            };
            Cel::List(Arc::new(items.iter().map(item).collect()))
        }
        Value::String(text) => string(node, text),
        Value::Number(number) if node.kind == Some(Kind::Number) => Cel::Float(number.as_f64().unwrap_or(f64::NAN)),
        Value::Number(number) if node.kind == Some(Kind::Integer) => integer(number),
        other => plain(other),
    }
}

/// A value that no schema describes.
pub(super) fn plain(value: &Value) -> Cel {
    match value {
        Value::Null => Cel::Null,
        Value::Bool(bool) => Cel::Bool(*bool),
        Value::Number(number) => integer(number),
        Value::String(text) => Cel::String(Arc::new(text.clone())),
        Value::Array(items) => Cel::List(Arc::new(items.iter().map(plain).collect())),
        Value::Object(map) => {
            object(map.iter().map(|(key, value)| (Key::String(Arc::new(key.clone())), plain(value))).collect())
        }
    }
}

/// A value as JSON; none for what JSON has no form for.
pub(super) fn to_json(value: &Cel) -> Option<Value> {
    Some(match value {
        Cel::Null => Value::Null,
        Cel::Bool(bool) => (*bool).into(),
        Cel::Int(int) => (*int).into(),
        Cel::UInt(uint) => (*uint).into(),
        Cel::Float(float) => serde_json::Number::from_f64(*float)?.into(),
        Cel::String(text) => text.as_str().into(),
        Cel::List(items) => Value::Array(items.iter().map(to_json).collect::<Option<_>>()?),
        Cel::Map(map) => {
            let entry = |(key, value): (&Key, &Cel)| match key {
                Key::String(key) => Some((key.as_str().to_owned(), to_json(value)?)),
                _ => None,
            };
            Value::Object(map.map.iter().map(entry).collect::<Option<_>>()?)
        }
        _ => return None,
    })
}

fn object(map: HashMap<Key, Cel>) -> Cel {
    Cel::Map(Map { map: Arc::new(map) })
}

/// An integer may have been written `1.0`.
fn integer(number: &serde_json::Number) -> Cel {
    if let Some(int) = number.as_i64() {
        return Cel::Int(int);
    }
    let float = number.as_f64().unwrap_or(f64::NAN);
    // Below 2^53 every whole float is an exact integer.
    if float.fract() == 0.0 && float.abs() < 9_007_199_254_740_992.0 {
        #[expect(clippy::cast_possible_truncation, reason = "checked to be whole and small")]
        return Cel::Int(float as i64);
    }
    Cel::Float(float)
}

fn names_only(metadata: &Value) -> Cel {
    let names = ["name", "generateName"];
    let entry = |name: &str| {
        let value = plain(metadata.get(name)?);
        Some((Key::String(Arc::new(name.to_owned())), value))
    };
    object(names.into_iter().filter_map(entry).collect())
}

/// A string, or what its format makes of it. Text that is not of its format stays text; validation has said so.
fn string(node: &Node, text: &str) -> Cel {
    let plain = || Cel::String(Arc::new(text.to_owned()));
    let Some(format) = node.format.filter(|_| node.kind == Some(Kind::String)) else {
        return plain();
    };
    let converted = if format.is("datetime") {
        functions::timestamp(Arc::new(text.to_uppercase())).ok()
    } else if format.is("date") {
        functions::timestamp(Arc::new(format!("{text}T00:00:00Z"))).ok()
    } else if format.is("duration") {
        functions::duration(Arc::new(text.to_owned())).ok()
    } else if format.is("byte") {
        decode(text).map(|bytes| Cel::Bytes(Arc::new(bytes)))
    } else {
        None
    };
    converted.unwrap_or_else(plain)
}

/// Base64 of either alphabet.
fn decode(text: &str) -> Option<Vec<u8>> {
    let (mut bits, mut held) = (0_u32, 0);
    let mut bytes = Vec::with_capacity(text.len() * 3 / 4);
    for digit in text.trim_end_matches('=').bytes() {
        let six = match digit {
            b'A'..=b'Z' => digit - b'A',
            b'a'..=b'z' => digit - b'a' + 26,
            b'0'..=b'9' => digit - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            _ => return None,
        };
        bits = (bits << 6 | u32::from(six)) & 0xff_ffff;
        held += 6;
        if held >= 8 {
            held -= 8;
            bytes.push(u8::try_from(bits >> held & 0xff).ok()?);
        }
    }
    Some(bytes)
}

/// The old value with its sets and list maps in the order of the new one. To Kubernetes their order means nothing, so
/// `self == oldSelf` must hold when it is all that changed; CEL's lists compare by position.
pub(super) fn aligned<'v>(node: &Node, old: &'v Value, new: &Value) -> Cow<'v, Value> {
    if !node.keyed || old == new {
        return Cow::Borrowed(old);
    }
    match (old, new) {
        (Value::Object(before), Value::Object(after)) => {
            let entry = |(key, old): (&String, &Value)| {
                let value = match (node.child(key), after.get(key)) {
                    (Child::Field(child) | Child::Key(child), Some(new)) => aligned(child, old, new).into_owned(),
                    _ => old.clone(),
                };
                (key.clone(), value)
            };
            Cow::Owned(Value::Object(before.iter().map(entry).collect()))
        }
        (Value::Array(before), Value::Array(after)) => Cow::Owned(Value::Array(aligned_items(node, before, after))),
        _ => Cow::Borrowed(old),
    }
}

fn aligned_items(node: &Node, before: &[Value], after: &[Value]) -> Vec<Value> {
    let known_by = |item: &Value| match &node.list {
        ListType::Map(keys) => identity(keys, item),
        _ => item.to_string(),
    };
    if node.list == ListType::Atomic {
        return before.to_vec();
    }
    // By what each is known by, the places where it was, the first one last.
    let mut places = HashMap::<String, Vec<usize>>::new();
    for (place, item) in before.iter().enumerate().rev() {
        places.entry(known_by(item)).or_default().push(place);
    }
    let mut taken = vec![false; before.len()];
    let mut ordered = Vec::with_capacity(before.len());
    for new in after {
        if let Some(place) = places.get_mut(&known_by(new)).and_then(Vec::pop) {
            taken[place] = true;
            ordered.push(match node.items.as_deref() {
                Some(element) => aligned(element, &before[place], new).into_owned(),
                None => before[place].clone(),
            });
        }
    }
    ordered.extend(before.iter().zip(taken).filter(|(_, taken)| !taken).map(|(item, _)| item.clone()));
    ordered
}
