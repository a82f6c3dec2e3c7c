//! Which fields of a genuine schema a contract keeps.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

/// Text of other projects, and rules, which only a genuine CRD can check.
const LEFT_OUT: &[&str] = &["description", "title", "example", "externalDocs", "x-kubernetes-validations"];
/// An API server adds these to the schema of every kind.
const OF_EVERY_OBJECT: &[&str] = &["apiVersion", "kind", "metadata"];
/// Keywords that hold further schemas of the same value.
const JUNCTORS: &[&str] = &["allOf", "anyOf", "oneOf"];

/// The step of a path into the items of a list, and the one into the values of a map.
pub(crate) const ITEM: &str = "[]";
pub(crate) const VALUE: &str = "*";

/// A tree of fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Paths(BTreeMap<String, Paths>);

impl Paths {
    /// Adds every field that an object has. Fields that the schema does not know are left out: to find them is the
    /// work of [`crate::problems`].
    pub fn add_object(&mut self, object: &Value, schema: &Value) {
        match object {
            Value::Object(fields) => {
                for (name, value) in fields {
                    if let Some(inner) = schema["properties"].get(name) {
                        self.0.entry(name.clone()).or_default().add_object(value, inner);
                    } else if let Some(inner) = schema.get("additionalProperties").filter(|inner| inner.is_object()) {
                        self.0.entry(VALUE.into()).or_default().add_object(value, inner);
                    }
                }
            }
            Value::Array(items) => {
                for item in items {
                    self.0.entry(ITEM.into()).or_default().add_object(item, &schema["items"]);
                }
            }
            _ => {}
        }
    }

    /// Every field that a schema has.
    pub fn of_schema(schema: &Value) -> Self {
        let properties = schema["properties"].as_object().into_iter().flatten();
        let mut paths: BTreeMap<String, Self> =
            properties.map(|(name, inner)| (name.clone(), Self::of_schema(inner))).collect();
        for (step, keyword) in [(ITEM, "items"), (VALUE, "additionalProperties")] {
            if let Some(inner) = schema.get(keyword).filter(|inner| inner.is_object()) {
                paths.insert(step.into(), Self::of_schema(inner));
            }
        }
        Self(paths)
    }

    /// Adds all of another tree.
    pub fn merge(&mut self, other: Self) {
        for (step, paths) in other.0 {
            self.0.entry(step).or_default().merge(paths);
        }
    }
}

/// The part of a schema that a contract keeps: the fields that are wanted; fields that are required, since an object without
/// them is refused; and in items of lists fields with defaults, since an applied list that lacks them never settles.
pub(crate) fn select(schema: &Value, wanted: &Paths) -> Value {
    let mut kept = part(schema, wanted, false);
    if let Some(properties) = kept.get_mut("properties").and_then(Value::as_object_mut) {
        properties.retain(|name, _| !OF_EVERY_OBJECT.contains(&name.as_str()));
    }
    kept
}

fn part(schema: &Value, wanted: &Paths, in_list: bool) -> Value {
    let none = Paths::default();
    let mut kept = facts(schema);
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    let mentioned = mentioned(schema);
    let mut properties = Map::new();
    for (name, inner) in schema["properties"].as_object().into_iter().flatten() {
        let has_default = in_list && inner.get("default").is_some();
        let is_kept = required.contains(&json!(name)) || has_default || mentioned.contains(&name.as_str());
        if wanted.0.contains_key(name) || is_kept {
            properties.insert(name.clone(), part(inner, wanted.0.get(name).unwrap_or(&none), in_list));
        }
    }
    if !properties.is_empty() {
        kept.insert("properties".into(), properties.into());
    }
    for (step, keyword, in_list) in [(ITEM, "items", true), (VALUE, "additionalProperties", in_list)] {
        match schema.get(keyword) {
            Some(inner) if inner.is_object() => {
                kept.insert(keyword.into(), part(inner, wanted.0.get(step).unwrap_or(&none), in_list));
            }
            Some(any) => {
                kept.insert(keyword.into(), any.clone());
            }
            None => {}
        }
    }
    kept.into()
}

/// The keywords of a schema that say something about the value itself.
fn facts(schema: &Value) -> Map<String, Value> {
    let keywords = schema.as_object().into_iter().flatten();
    let inner = ["properties", "items", "additionalProperties"];
    keywords
        .filter(|(keyword, _)| !LEFT_OUT.contains(&keyword.as_str()) && !inner.contains(&keyword.as_str()))
        .map(|(keyword, value)| {
            (keyword.clone(), if JUNCTORS.contains(&keyword.as_str()) { bare(value) } else { value.clone() })
        })
        .collect()
}

/// Alternatives without their texts.
fn bare(value: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().map(bare).collect(),
        Value::Object(keywords) => {
            let kept =
                keywords.iter().filter(|(keyword, value)| !LEFT_OUT.contains(&keyword.as_str()) || value.is_object());
            kept.map(|(keyword, value)| (keyword.clone(), bare(value))).collect()
        }
        other => other.clone(),
    }
}

/// The fields whose values alternatives speak of: a structural schema has to have them.
fn mentioned(schema: &Value) -> Vec<&str> {
    let mut names = Vec::new();
    let alternatives = JUNCTORS.iter().filter_map(|junctor| schema[junctor].as_array()).flatten();
    for alternative in alternatives.chain(schema.get("not")) {
        names.extend(alternative["properties"].as_object().into_iter().flatten().map(|(name, _)| name.as_str()));
        names.extend(mentioned(alternative));
    }
    names
}
