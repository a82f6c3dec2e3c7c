//! From definitions that refer to each other to one structural schema.

use serde_json::{Map, Value, json};

use super::definitions::{Definitions, REF_PREFIX, definitions_of};

/// The format that marks quantities. They are written as strings, integers or fractions, so no type describes them.
pub(crate) const QUANTITY: &str = "quantity";

/// The strings that a real API server insists on, and the values that it takes. They are not called `required` and
/// `enum` because breaking them is a matter of validation, with its own words and status, and not of decoding.
pub(crate) const REQUIRED: &str = "x-c5c3-required";
pub(crate) const ENUM: &str = "x-c5c3-enum";

/// The self-contained schema of a kind that has a generated type.
pub(super) fn inlined(group: &str, version: &str, kind: &str) -> Value {
    let Some((name, definitions)) = definitions_of(group, version, kind) else {
        return json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    };
    let mut walk = Walk { definitions: &definitions, open: Vec::new(), in_status: false };
    Value::Object(walk.definition(&name))
}

struct Walk<'d> {
    definitions: &'d Definitions,
    /// The definitions that the walk is inside of; meeting one of them again means recursion.
    open: Vec<String>,
    /// Nothing of a status is required: controllers write what they know.
    in_status: bool,
}

impl Walk<'_> {
    fn definition(&mut self, name: &str) -> Map<String, Value> {
        if name.ends_with(".Quantity") {
            return open(&[("format", json!(QUANTITY))]);
        }
        if self.open.iter().any(|outer| outer == name) {
            return open(&[]);
        }
        let Some(schema) = self.definitions.get(name).and_then(Value::as_object) else { return open(&[]) };
        self.open.push(name.to_owned());
        let inlined = self.schema(schema);
        self.open.pop();
        inlined
    }

    /// Replaces the reference by what it refers to; what stands beside it, such as a patch strategy, stays.
    fn schema(&mut self, schema: &Map<String, Value>) -> Map<String, Value> {
        let mut inlined = match schema.get("$ref").and_then(Value::as_str) {
            Some(target) => self.definition(target.strip_prefix(REF_PREFIX).unwrap_or(target)),
            None => Map::new(),
        };
        for (key, value) in schema {
            match (key.as_str(), value) {
                ("description" | "$ref" | "required", _) => {}
                ("properties", Value::Object(properties)) => {
                    inlined.insert(key.clone(), self.properties(properties));
                }
                ("items" | "additionalProperties", Value::Object(below)) => {
                    let below = self.schema(below);
                    inlined.insert(key.clone(), Value::Object(below));
                }
                ("enum", _) => {
                    inlined.insert(ENUM.to_owned(), value.clone());
                }
                _ => {
                    inlined.insert(key.clone(), value.clone());
                }
            }
        }
        if let Some(required) = self.required(schema) {
            inlined.insert(REQUIRED.to_owned(), required);
        }
        inlined
    }

    fn properties(&mut self, properties: &Map<String, Value>) -> Value {
        let depth = self.open.len();
        let mut inlined = Map::new();
        for (name, property) in properties {
            let Some(property) = property.as_object() else { continue };
            let outer = self.in_status;
            self.in_status |= depth == 1 && name == "status";
            inlined.insert(name.clone(), Value::Object(self.schema(property)));
            self.in_status = outer;
        }
        Value::Object(inlined)
    }

    fn required(&self, schema: &Map<String, Value>) -> Option<Value> {
        if self.in_status {
            return None;
        }
        // A header's or a sysctl's value may well be empty.
        let is_string = |field: &&Value| {
            let property = field.as_str().and_then(|field| schema.get("properties")?.get(field));
            property.is_some_and(|property| property["type"] == "string") && *field != "value"
        };
        let required: Vec<&Value> = schema.get("required")?.as_array()?.iter().filter(is_string).collect();
        (!required.is_empty()).then(|| json!(required))
    }
}

/// A schema that takes anything.
fn open(more: &[(&str, Value)]) -> Map<String, Value> {
    let mut schema: Map<String, Value> = more.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect();
    schema.insert("x-kubernetes-preserve-unknown-fields".to_owned(), json!(true));
    schema
}
