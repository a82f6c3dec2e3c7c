//! From an OpenAPI v3 schema to a shape.

use std::sync::{Arc, LazyLock};

use serde_json::{Value, json};

use super::{Field, KeyField, Kind, List, Map, Relation, Scalar, Shape, Strategy};

/// Deeper schemas are deduced from there on. A parser that stops at 128 levels reads 64 of these.
const MAX_SCHEMA_DEPTH: usize = 128;

impl Shape {
    /// The shape of the objects that a schema describes: of a built-in kind or a custom resource, `$ref`s inlined.
    ///
    /// `apiVersion`, `kind` and `metadata` need not be declared, here or in an embedded resource; a `metadata` without
    /// properties is the metadata of every object. Never fails: what a schema leaves open is deduced from values.
    pub fn compile(schema: &Value) -> Self {
        let root = Compiler { preserve: false, depth: 0 }.shape(schema);
        match root.0 {
            Kind::Map(map) => {
                let mut map = Arc::into_inner(map).unwrap_or_default();
                declare_type_and_metadata(&mut map);
                Self(Kind::Map(Arc::new(map)))
            }
            other => Self(other),
        }
    }
}

#[derive(Clone, Copy)]
struct Compiler {
    /// `x-kubernetes-preserve-unknown-fields`, which everything below inherits.
    preserve: bool,
    depth: usize,
}

impl Compiler {
    fn shape(self, schema: &Value) -> Shape {
        let schema = only_part(schema);
        if self.depth > MAX_SCHEMA_DEPTH {
            return Shape::deduced();
        }
        let preserve = self.preserve || says(schema, "x-kubernetes-preserve-unknown-fields");
        let below = Self { preserve, depth: self.depth + 1 };
        if says(schema, "x-kubernetes-int-or-string") {
            return Shape(Kind::Scalar(Scalar::Untyped));
        }
        let has_properties = schema["properties"].as_object().is_some_and(|fields| !fields.is_empty());
        match schema["type"].as_str() {
            Some("object") => below.map(schema),
            None if has_properties => below.map(schema),
            Some("array") => below.list(schema),
            Some("integer" | "number") => Shape(Kind::Scalar(Scalar::Number)),
            Some("boolean") => Shape(Kind::Scalar(Scalar::Bool)),
            Some("string") => Shape(Kind::Scalar(match schema["format"].as_str() {
                None | Some("" | "byte") => Scalar::Text,
                Some(_) => Scalar::Untyped,
            })),
            _ => Shape::deduced(),
        }
    }

    fn map(self, schema: &Value) -> Shape {
        let mut map = Map { atomic: schema["x-kubernetes-map-type"] == "atomic", ..Map::default() };
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            let field = Field { shape: self.shape(property), strategy: strategy(property) };
            map.fields.insert(name.as_str().into(), field);
        }
        map.others = match &schema["additionalProperties"] {
            Value::Null if self.preserve || map.fields.is_empty() => Some(Shape::deduced()),
            Value::Null | Value::Bool(false) => None,
            Value::Bool(true) => Some(Shape::deduced()),
            other => Some(self.shape(other)),
        };
        if says(schema, "x-kubernetes-embedded-resource") {
            declare_type_and_metadata(&mut map);
        }
        Shape(Kind::Map(Arc::new(map)))
    }

    fn list(self, schema: &Value) -> Shape {
        let items = self.shape(&schema["items"]);
        let relation = match schema["x-kubernetes-list-type"].as_str() {
            Some("set") => Relation::Set,
            Some("map") => Relation::Keys(key_fields(schema)),
            Some(_) => Relation::Atomic,
            None => relation_by_patch_strategy(schema),
        };
        Shape(Kind::List(Arc::new(List { items, relation })))
    }
}

/// Built-in kinds wrap a reference that carries a default or a description in `allOf`.
fn only_part(schema: &Value) -> &Value {
    match schema["allOf"].as_array().map(Vec::as_slice) {
        Some([part]) if schema["type"].is_null() && schema["properties"].is_null() => only_part(part),
        _ => schema,
    }
}

fn says(schema: &Value, extension: &str) -> bool {
    schema[extension] == true
}

fn key_fields(schema: &Value) -> Vec<KeyField> {
    let names = schema["x-kubernetes-list-map-keys"].as_array();
    names.into_iter().flatten().filter_map(Value::as_str).map(|name| key_field(schema, name)).collect()
}

fn key_field(schema: &Value, name: &str) -> KeyField {
    let default = &only_part(&schema["items"])["properties"][name]["default"];
    KeyField { name: name.into(), default: Some(default).filter(|default| !default.is_null()).cloned() }
}

/// Types without `x-kubernetes-list-type` say how their lists merge with the tags of strategic merge patch.
fn relation_by_patch_strategy(schema: &Value) -> Relation {
    let strategy = strategy(schema);
    match strategy.key {
        _ if !strategy.merge => Relation::Atomic,
        Some(key) => Relation::Keys(vec![key_field(schema, &key)]),
        None => Relation::Set,
    }
}

fn strategy(property: &Value) -> Strategy {
    let words = property["x-kubernetes-patch-strategy"].as_str().unwrap_or_default();
    Strategy {
        merge: words.split(',').any(|word| word == "merge"),
        replace: words.split(',').any(|word| word == "replace"),
        key: property["x-kubernetes-patch-merge-key"].as_str().map(Arc::from),
    }
}

fn declare_type_and_metadata(map: &mut Map) {
    for name in ["apiVersion", "kind"] {
        let text = Field { shape: Shape(Kind::Scalar(Scalar::Text)), strategy: Strategy::default() };
        map.fields.entry(name.into()).or_insert(text);
    }
    let described = map.fields.get("metadata").is_some_and(|field| match &field.shape.0 {
        Kind::Map(metadata) => metadata.fields.contains_key("labels"),
        _ => false,
    });
    if !described {
        let metadata = Field { shape: METADATA.clone(), strategy: Strategy::default() };
        map.fields.insert("metadata".into(), metadata);
    }
}

/// The metadata of every object, as `io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta` declares it.
static METADATA: LazyLock<Shape> = LazyLock::new(|| {
    let text = json!({"type": "string"});
    let texts = json!({"type": "object", "additionalProperties": text});
    let time = json!({"type": "string", "format": "date-time"});
    let number = json!({"type": "integer"});
    let flag = json!({"type": "boolean"});
    let owner = json!({"type": "object", "x-kubernetes-map-type": "atomic", "properties": {
        "apiVersion": text, "kind": text, "name": text, "uid": text, "controller": flag, "blockOwnerDeletion": flag,
    }});
    Compiler { preserve: false, depth: 0 }.shape(&json!({"type": "object", "properties": {
        "name": text, "generateName": text, "namespace": text, "selfLink": text, "uid": text, "resourceVersion": text,
        "clusterName": text, "generation": number, "creationTimestamp": time, "deletionTimestamp": time,
        "deletionGracePeriodSeconds": number, "labels": texts, "annotations": texts,
        "finalizers": {
            "type": "array", "items": text,
            "x-kubernetes-list-type": "set", "x-kubernetes-patch-strategy": "merge",
        },
        "ownerReferences": {
            "type": "array", "items": owner,
            "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["uid"],
            "x-kubernetes-patch-strategy": "merge", "x-kubernetes-patch-merge-key": "uid",
        },
        "managedFields": {
            "type": "array", "x-kubernetes-list-type": "atomic", "items": {"type": "object"},
        },
    }}))
});
