//! Who owns what, read from an object.

use c5c3_fields::{Element, FieldSet};
use serde_json::{Value, json};

/// Every owner's fields: `manager/Operation` and the set.
pub fn ownership(object: &Value) -> Vec<(String, FieldSet)> {
    let entries = object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    let read = |entry: &Value| {
        let name = format!("{}/{}", entry["manager"].as_str().unwrap(), entry["operation"].as_str().unwrap());
        (name, FieldSet::from_fields_v1(&entry["fieldsV1"]).unwrap())
    };
    entries.iter().map(read).collect()
}

/// What is at a path, reading keys of list-map items as the generator's schemas do.
pub fn value_at<'v>(object: &'v Value, path: &[Element]) -> Option<&'v Value> {
    path.iter().try_fold(object, |value, element| match element {
        Element::Field(name) => value.get(name.as_ref()),
        Element::Key(keys) => value
            .as_array()?
            .iter()
            .find(|item| keys.iter().all(|(name, key)| item.get(name.as_ref()).unwrap_or(&json!("z")) == key)),
        Element::Item(wanted) => value.as_array()?.iter().find(|item| *item == wanted.as_ref()),
        Element::Index(_) => None,
    })
}

/// Whether an owner of the field owns every list item and map entry on the way to it. Without that, the field goes when
/// whoever brought the item takes it away, here as upstream.
pub fn is_anchored(schema: &Value, set: &FieldSet, path: &[Element]) -> bool {
    let mut schema = schema;
    (1..path.len()).all(|n| {
        let (below, declared) = match &path[n - 1] {
            Element::Field(name) if schema["properties"][name.as_ref()].is_object() => {
                (&schema["properties"][name.as_ref()], true)
            }
            Element::Field(_) => (&schema["additionalProperties"], false),
            _ => (&schema["items"], false),
        };
        schema = below;
        declared || set.contains(&path[..n])
    })
}

/// Whether a value says what another says, which no one empties by saying nothing.
pub fn holds(is: Option<&Value>, says: Option<&Value>) -> bool {
    match (is, says) {
        (Some(Value::Object(is)), Some(Value::Object(says))) => says.iter().all(|(k, v)| holds(is.get(k), Some(v))),
        (Some(Value::Array(_)), Some(Value::Array(says))) if says.is_empty() => true,
        _ => is == says,
    }
}
