//! Whether an applied object is of its type at all: upstream refuses fields that the schema does not declare, values of
//! another type and items that share a key, in these words.

use serde_json::Value;

use crate::element::Element;
use crate::shape::{Kind, List, Map, Relation, Scalar, Shape};

/// Every violation, as `path: message`.
pub(crate) fn check(shape: &Shape, object: &Value) -> Vec<String> {
    let mut check = Check { found: Vec::new() };
    check.value(&Place::Root, shape, object);
    check.found
}

struct Check {
    found: Vec<String>,
}

/// A place in an object. Its path is only spelt out when something is wrong there.
enum Place<'p> {
    Root,
    Field(&'p Place<'p>, &'p str),
    Item(&'p Place<'p>, &'p Element),
}

impl Place<'_> {
    fn path(&self) -> String {
        match self {
            Self::Root => String::new(),
            Self::Field(parent, name) => format!("{}.{name}", parent.path()),
            Self::Item(parent, element) => format!("{}{element}", parent.path()),
        }
    }
}

impl Check {
    fn report(&mut self, place: &Place<'_>, message: &str) {
        let separator = if matches!(place, Place::Root) { "" } else { ": " };
        self.found.push(format!("{}{separator}{message}", place.path()));
    }

    fn value(&mut self, place: &Place<'_>, shape: &Shape, value: &Value) {
        match (&shape.0, value) {
            (Kind::Any, _) | (_, Value::Null) => {}
            (Kind::Scalar(kind), _) => self.scalar(place, *kind, value),
            (Kind::List(list), Value::Array(items)) => self.items(place, list, items),
            (Kind::List(_), other) => self.report(place, &format!("expected list, got &{{{}}}", go(other))),
            (Kind::Map(map), Value::Object(fields)) => self.fields(place, map, fields),
            (Kind::Map(_), other) => self.report(place, &format!("expected map, got &{{{}}}", go(other))),
        }
    }

    fn scalar(&mut self, place: &Place<'_>, kind: Scalar, value: &Value) {
        let message = match (kind, value) {
            (Scalar::Number, Value::Number(_)) | (Scalar::Text, Value::String(_)) | (Scalar::Bool, Value::Bool(_)) => {
                return;
            }
            (Scalar::Untyped, value) if !value.is_array() && !value.is_object() => return,
            (Scalar::Number, other) => format!("expected numeric (int or float), got {}", go_type(other)),
            (Scalar::Text, other) => {
                format!("expected string, got &value.valueUnstructured{{Value:{}}}", go_syntax(other))
            }
            (Scalar::Bool, other) => format!("expected boolean, got &{{{}}}", go(other)),
            (Scalar::Untyped, other) => format!("expected any scalar, got &{{{}}}", go(other)),
        };
        self.report(place, &message);
    }

    fn fields(&mut self, place: &Place<'_>, map: &Map, fields: &serde_json::Map<String, Value>) {
        for (name, value) in fields {
            let place = Place::Field(place, name);
            match map.field(name).shape {
                Some(shape) => self.value(&place, shape, value),
                None => return self.report(&place, "field not declared in schema"),
            }
        }
    }

    fn items(&mut self, place: &Place<'_>, list: &List, items: &[Value]) {
        if matches!(list.relation, Relation::Atomic) {
            for (i, item) in items.iter().enumerate() {
                let element = Element::Index(i64::try_from(i).unwrap_or(i64::MAX));
                self.value(&Place::Item(place, &element), &list.items, item);
            }
            return;
        }
        let mut seen = Vec::with_capacity(items.len());
        for (i, item) in items.iter().enumerate() {
            let element = match list.step(item) {
                Ok(element) => element,
                Err(why) => return self.report(place, &format!("element {i}: {why}")),
            };
            self.value(&Place::Item(place, &element), &list.items, item);
            seen.push(element);
        }
        seen.sort();
        for (_, twin) in seen.iter().zip(&seen[1.min(seen.len())..]).filter(|(a, b)| a == b) {
            self.report(place, &format!("duplicate entries for key {twin}"));
        }
    }
}

/// A value as Go's `%v` prints it.
fn go(value: &Value) -> String {
    let all = |items: Vec<String>| items.join(" ");
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) => format!("[{}]", all(items.iter().map(go).collect())),
        Value::Object(fields) => {
            format!("map[{}]", all(fields.iter().map(|(name, value)| format!("{name}:{}", go(value))).collect()))
        }
        scalar => scalar.to_string(),
    }
}

/// A value as Go's `%#v` prints it.
fn go_syntax(value: &Value) -> String {
    let all = |items: Vec<String>| items.join(", ");
    match value {
        Value::Null => "interface {}(nil)".to_owned(),
        Value::Array(items) => format!("[]interface {{}}{{{}}}", all(items.iter().map(go_syntax).collect())),
        Value::Object(fields) => {
            let pairs = fields.iter().map(|(name, value)| format!("{name:?}:{}", go_syntax(value)));
            format!("map[string]interface {{}}{{{}}}", all(pairs.collect()))
        }
        scalar => scalar.to_string(),
    }
}

/// A value's type as Go's `%T` prints it.
fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}
