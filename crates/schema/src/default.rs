//! Defaults, applied as apiextensions-apiserver does: nulls first, then the defaults themselves.

use serde_json::Value;

use crate::node::{Child, Node};

pub(crate) fn default(node: &Node, object: &mut Value) {
    drop_nulls(node, object);
    fill(node, object);
}

/// A null where the schema is not nullable means "not given": dropped, unless a default is about to replace it.
fn drop_nulls(node: &Node, value: &mut Value) {
    match value {
        Value::Object(map) => map.retain(|key, value| match node.child(key) {
            Child::Field(child) | Child::Key(child) => {
                if value.is_null() && !child.nullable && child.default.is_none() {
                    return false;
                }
                drop_nulls(child, value);
                true
            }
            Child::Anything | Child::Unknown => true,
        }),
        Value::Array(items) => {
            if let Some(element) = node.items.as_deref() {
                for item in items {
                    drop_nulls(element, item);
                }
            }
        }
        _ => {}
    }
}

fn fill(node: &Node, value: &mut Value) {
    match value {
        Value::Object(map) => {
            for (name, child) in &node.properties {
                let Some(default) = &child.default else {
                    continue;
                };
                let absent = map.get(name).is_none_or(|value| value.is_null() && !child.nullable);
                if absent {
                    map.insert(name.clone(), default.clone());
                }
            }
            for (key, value) in map {
                match node.child(key) {
                    Child::Field(child) => fill(child, value),
                    Child::Key(child) => fill_entry(child, value),
                    Child::Anything | Child::Unknown => {}
                }
            }
        }
        Value::Array(items) => {
            if let Some(element) = node.items.as_deref() {
                for item in items {
                    fill_entry(element, item);
                }
            }
        }
        _ => {}
    }
}

/// An entry of a map or list is never added, but a null one takes the default of its schema.
fn fill_entry(node: &Node, value: &mut Value) {
    if value.is_null()
        && !node.nullable
        && let Some(default) = &node.default
    {
        *value = default.clone();
    }
    fill(node, value);
}
