//! Schemas, objects that fit them, and patches that fit nothing.

use serde_json::{Map, Value, json};

use super::chance::Chance;

fn random_schema(chance: &mut Chance, depth: usize) -> Value {
    match chance.below(if depth == 0 { 2 } else { 9 }) {
        0 => json!({"type": "integer"}),
        1 => json!({"type": "string"}),
        2 => json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}),
        3 => json!({"type": "object", "additionalProperties": random_schema(chance, depth - 1)}),
        4 => json!({"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"}),
        5 => json!({"type": "array", "items": random_schema(chance, depth - 1)}),
        6 => {
            let mut items = random_object(chance, depth - 1);
            items["properties"]["id"] = json!({"type": "string"});
            items["properties"]["zone"] = json!({"type": "string", "default": "z"});
            json!({
                "type": "array", "items": items,
                "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["id", "zone"],
            })
        }
        _ => {
            let mut object = random_object(chance, depth - 1);
            if chance.below(6) == 0 {
                object["x-kubernetes-map-type"] = json!("atomic");
            }
            object
        }
    }
}

pub fn random_object(chance: &mut Chance, depth: usize) -> Value {
    let names = &["a", "b", "c", "d"][..=chance.below(4)];
    let fields: Map<String, Value> =
        names.iter().map(|name| ((*name).to_owned(), random_schema(chance, depth))).collect();
    json!({"type": "object", "properties": fields})
}

fn random_value(chance: &mut Chance, schema: &Value) -> Value {
    match schema["type"].as_str().unwrap() {
        "integer" => json!(chance.below(3)),
        "string" => json!(chance.pick(&["x", "y", "z"])),
        "array" if schema["x-kubernetes-list-type"] == "set" => {
            let all = ["p", "q", "r", "s"];
            let start = chance.below(all.len());
            let count = chance.below(all.len());
            (0..count).map(|i| all[(start + i) % all.len()]).collect()
        }
        "array" if schema["x-kubernetes-list-type"] == "map" => {
            let start = chance.below(4);
            let items = (0..chance.below(4)).map(|i| {
                let mut item = random_value(chance, &schema["items"]);
                item["id"] = json!(format!("i{}", (start + i) % 4));
                item.as_object_mut().unwrap().remove("zone");
                if chance.below(2) == 0 {
                    item["zone"] = json!("z");
                }
                item
            });
            items.collect()
        }
        "array" => (0..chance.below(3)).map(|_| random_value(chance, &schema["items"])).collect(),
        _ => random_fields(chance, schema),
    }
}

fn random_fields(chance: &mut Chance, schema: &Value) -> Value {
    let free = json!({"type": "object", "additionalProperties": {"type": "integer"}});
    let declared = schema["properties"].as_object().cloned().unwrap_or_default();
    let other = if schema["additionalProperties"].is_object() { &schema["additionalProperties"] } else { &free };
    let mut fields = Map::new();
    for name in ["a", "b", "c", "d", "id", "zone"] {
        let field = match declared.get(name) {
            Some(field) => field,
            None if declared.is_empty() && name.len() == 1 => other,
            None => continue,
        };
        if chance.below(2) == 0 {
            fields.insert(name.to_owned(), random_value(chance, field));
        }
    }
    Value::Object(fields)
}

pub fn config(chance: &mut Chance, schema: &Value) -> Value {
    json!({
        "apiVersion": "x/v1", "kind": "X", "metadata": {"name": "x"},
        "spec": random_value(chance, &schema["properties"]["spec"]),
    })
}

/// Any JSON at all, of the names that schemas and patches know.
pub fn anything(chance: &mut Chance, depth: usize) -> Value {
    const NAMES: [&str; 14] = [
        "a",
        "b",
        "id",
        "zone",
        "spec",
        "metadata",
        "name",
        "$patch",
        "$retainKeys",
        "$setElementOrder/a",
        "$deleteFromPrimitiveList/b",
        "managedFields",
        "",
        "a/b~",
    ];
    const TEXTS: [&str; 8] = ["x", "z", "i1", "replace", "merge", "delete", "", "-1"];
    match chance.below(if depth == 0 { 5 } else { 9 }) {
        0 => Value::Null,
        1 => json!(chance.below(3)),
        2 => json!(chance.below(2) == 0),
        3 | 4 => json!(chance.pick(&TEXTS)),
        5 | 6 => (0..chance.below(4)).map(|_| anything(chance, depth - 1)).collect(),
        _ => {
            let fields = (0..chance.below(5)).map(|_| ((*chance.pick(&NAMES)).to_owned(), anything(chance, depth - 1)));
            Value::Object(fields.collect())
        }
    }
}

/// Operations of a JSON patch, most of them wrong.
pub fn operations(chance: &mut Chance) -> Value {
    const OPERATIONS: [&str; 7] = ["add", "remove", "replace", "move", "copy", "test", "turn"];
    const PATHS: [&str; 12] = [
        "",
        "/",
        "/spec",
        "/spec/a",
        "/spec/a/0",
        "/spec/a/-",
        "/spec/b/id",
        "/spec/a/01",
        "/metadata/name",
        "/spec/a~1b~0",
        "spec",
        "/spec/a/99999999999999999999",
    ];
    let one = |chance: &mut Chance| {
        let mut operation = json!({"op": chance.pick(&OPERATIONS), "path": chance.pick(&PATHS)});
        if chance.below(2) == 0 {
            operation["value"] = anything(chance, 3);
        }
        if chance.below(2) == 0 {
            operation["from"] = json!(chance.pick(&PATHS));
        }
        operation
    };
    (0..chance.below(6)).map(|_| one(chance)).collect()
}
