//! Whatever a client sends, every function of this crate returns: objects of every kind, with every field in turn
//! replaced by something of another shape.

use c5c3_kinds::{IncludeObject, Resource, builtin, convert, default, fields, prepare_create, schema, table, validate};
use serde_json::{Value, json};

/// An object with every field that a schema knows, lists and maps with one entry.
fn full(schema: &Value) -> Value {
    match schema["type"].as_str() {
        Some("object") => match schema["properties"].as_object() {
            Some(properties) => properties.iter().map(|(name, schema)| (name.clone(), full(schema))).collect(),
            None => json!({"key": full(&schema["additionalProperties"])}),
        },
        Some("array") => json!([full(&schema["items"])]),
        Some("integer" | "number") => json!(1),
        Some("boolean") => json!(true),
        _ => json!("1"),
    }
}

fn pointers(value: &Value, at: &str, found: &mut Vec<String>) {
    found.push(at.to_owned());
    match value {
        Value::Object(fields) => fields.iter().for_each(|(key, value)| {
            pointers(value, &format!("{at}/{}", key.replace('~', "~0").replace('/', "~1")), found);
        }),
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(index, value)| pointers(value, &format!("{at}/{index}"), found));
        }
        _ => {}
    }
}

fn exercise(resource: &Resource, object: &Value, old: &Value) {
    let mut object = object.clone();
    default(resource, &mut object);
    prepare_create(resource, &mut object);
    validate(resource, &object, Some(old));
    validate(resource, old, Some(&object));
    fields(resource, &object);
    table(resource, std::slice::from_ref(&object), IncludeObject::Object, jiff::Timestamp::UNIX_EPOCH);
    for version in ["v1", "events.k8s.io/v1", "autoscaling/v1", "autoscaling/v2"] {
        convert(resource, version, &mut object);
    }
}

#[test]
fn no_shape_of_an_object_makes_anything_panic() {
    for resource in builtin() {
        let whole = full(&schema(resource));
        let mut places = Vec::new();
        pointers(&whole, "", &mut places);
        // The large kinds share most of their fields through the pod template; a sample of each is enough.
        let step = places.len() / 60 + 1;
        let wrong = [json!(null), json!(-1), json!("x"), json!([[]]), json!({"a": {}}), json!([{}, 1])];
        for (at, place) in places.iter().enumerate().filter(|(at, _)| at % step == 0) {
            let mut object = whole.clone();
            *object.pointer_mut(place).unwrap() = wrong[at % wrong.len()].clone();
            exercise(resource, &object, &whole);
        }
    }
}
