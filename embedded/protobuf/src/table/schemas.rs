//! The table against the JSON schemas of the same kinds: two derivations of the same Go types, which must agree.

use std::collections::BTreeSet;

use c5c3_kinds::{builtin, schema, schema_of_kind};
use serde_json::Value;

use super::{Leaf, Message, Shape, TABLE, Type};

/// What the API server neither serves nor has a schema of: options have no version of their own.
const WITHOUT_SCHEMA: [&str; 5] = ["CreateOptions", "DeleteOptions", "PatchOptions", "Status", "UpdateOptions"];

fn schema_of(api_version: &str, kind: &str) -> Option<Value> {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let is_it = |row: &&c5c3_kinds::Resource| row.group == group && row.version == version && row.kind == kind;
    builtin().iter().find(is_it).map(|row| schema(row).into_owned()).or_else(|| schema_of_kind(group, version, kind))
}

/// The JSON names of a message, inlined ones included, each with how its values look.
fn names(message: &Message) -> Vec<(&'static str, Shape, Type)> {
    let inlined = |kind| match kind {
        Type::Message(place) => names(TABLE.message(place)),
        other => panic!("{other:?} is inlined"),
    };
    let of = |field: &super::Field| match field.name {
        Some(name) => vec![(name, field.shape, field.kind)],
        None => inlined(field.kind),
    };
    message.fields.iter().flat_map(of).collect()
}

fn compare(path: &str, message: &Message, schema: &Value, differences: &mut Vec<String>) {
    let names = names(message);
    if names.is_empty() && schema.get("properties").is_none() {
        // A message that says something by being there.
        return;
    }
    // Protobuf has them in the envelope; a reference to another object has them as plain fields, in both.
    let is_field = |name: &&str| !matches!(*name, "apiVersion" | "kind");
    let ours: BTreeSet<&str> = names.iter().map(|&(name, ..)| name).filter(is_field).collect();
    let properties = schema["properties"].as_object().unwrap_or_else(|| panic!("{path} has no properties: {schema}"));
    let theirs: BTreeSet<&str> = properties.keys().map(String::as_str).filter(is_field).collect();
    differences.extend(ours.symmetric_difference(&theirs).map(|name| format!("{path}.{name}")));
    for (name, shape, kind) in names {
        let Some(property) = properties.get(name) else { continue };
        let value = match shape {
            Shape::One => property,
            Shape::List => &property["items"],
            Shape::Map => &property["additionalProperties"],
        };
        let path = format!("{path}.{name}");
        match kind {
            // A schema within a schema, which the structural schema of the kind leaves open.
            Type::Message(_) | Type::Choice(_)
                if path.contains(".openAPIV3Schema.") && value.get("properties").is_none() => {}
            Type::Message(place) => compare(&path, TABLE.message(place), value, differences),
            Type::Leaf(Leaf::Json | Leaf::AnyValue) => {}
            kind if json_type(kind).contains(&value["type"].as_str().unwrap_or_default()) => {}
            kind => differences.push(format!("{path} is {kind:?}, and {value}")),
        }
    }
}

fn json_type(kind: Type) -> &'static [&'static str] {
    match kind {
        Type::Boolean => &["boolean"],
        Type::Integer => &["integer"],
        Type::Double => &["number"],
        Type::Message(_) | Type::Choice(_) | Type::Leaf(Leaf::Json | Leaf::AnyValue) => &["object"],
        Type::Leaf(Leaf::Text | Leaf::Bytes | Leaf::Time | Leaf::MicroTime) => &["string"],
        Type::Leaf(Leaf::Texts) => &["array"],
        // `x-kubernetes-int-or-string` stands instead of a type.
        Type::Leaf(Leaf::Quantity | Leaf::IntOrString) => &["string", ""],
    }
}

#[test]
fn every_name_and_type_is_that_of_the_json_schema_and_none_is_missing() {
    let (mut without_schema, mut differences) = (BTreeSet::new(), Vec::new());
    for (&(api_version, kind), &place) in &TABLE.kinds {
        match schema_of(api_version, kind) {
            Some(schema) => compare(kind, TABLE.message(place), &schema, &mut differences),
            None => {
                without_schema.insert(kind);
            }
        }
    }
    assert_eq!(differences, Vec::<String>::new());
    assert_eq!(without_schema, WITHOUT_SCHEMA.into());
}

#[test]
fn every_served_kind_but_apiservice_is_in_the_table() {
    let missing: BTreeSet<String> = builtin()
        .iter()
        .filter(|row| TABLE.kind(&row.api_version(), &row.kind).is_none())
        .map(|row| format!("{}/{}", row.group, row.kind))
        .collect();
    let expected = ["apiregistration.k8s.io/APIService"];
    assert_eq!(missing, expected.map(ToOwned::to_owned).into());
}
