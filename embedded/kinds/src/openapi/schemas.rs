//! The definitions that a document needs: those of its kinds and their lists, and all that they refer to.

use serde_json::{Map, Value, json};

use super::Dialect;
use crate::resource::{Custom, Resource, gvk};
use crate::schema::{Definitions, REF_PREFIX, definition_name, definitions};

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";

/// The name of one of the definitions that requests and answers are made of.
pub(super) fn meta(kind: &str) -> String {
    format!("{META}.{kind}")
}

/// The name of a kind's definition: upstream's for built-in kinds, the reversed group before the version otherwise.
pub(super) fn name_of(group: &str, version: &str, kind: &str) -> String {
    definition_name(group, version, kind).unwrap_or_else(|| {
        let mut parts: Vec<&str> = group.split('.').filter(|part| !part.is_empty()).collect();
        parts.reverse();
        parts.extend([version, kind]);
        parts.join(".")
    })
}

/// The definitions for these resources, by name.
pub(super) fn schemas(dialect: Dialect, resources: &[&Resource]) -> Map<String, Value> {
    let mut found = Found { dialect, out: Map::new() };
    for name in ["DeleteOptions", "ListMeta", "ObjectMeta", "Patch", "Status"] {
        found.add(definitions(), &meta(name));
    }
    for resource in resources {
        let name = name_of(&resource.group, &resource.version, &resource.kind);
        match resource.custom() {
            None => found.add(definitions(), &name),
            Some(custom) => found.insert(&name, &complete(dialect, resource, custom)),
        }
        if !resource.list_kind.is_empty() {
            found.insert(&name_of_list(resource), &list(resource, &name));
        }
        for below in &resource.subresources {
            if let Some(name) = definition_name(&below.group, &below.version, &below.kind) {
                found.add(definitions(), &name);
            }
        }
    }
    found.out
}

/// The name of the definition of a kind's lists.
pub(super) fn name_of_list(resource: &Resource) -> String {
    let item = name_of(&resource.group, &resource.version, &resource.kind);
    let prefix = item.rsplit_once('.').map_or("", |(prefix, _)| prefix);
    format!("{prefix}.{}", resource.list_kind)
}

struct Found {
    dialect: Dialect,
    out: Map<String, Value>,
}

impl Found {
    /// Adds a definition and, once each, all that it refers to.
    fn add(&mut self, definitions: &Definitions, name: &str) {
        if self.out.contains_key(name) {
            return;
        }
        let Some(schema) = definitions.get(name) else { return };
        self.insert(name, schema);
        let mut targets = Vec::new();
        references(schema, &mut targets);
        for target in targets {
            self.add(definitions, target);
        }
    }

    fn insert(&mut self, name: &str, schema: &Value) {
        self.out.insert(name.to_owned(), self.dialect.definition(name, schema));
    }
}

fn references<'v>(schema: &'v Value, targets: &mut Vec<&'v str>) {
    match schema {
        Value::Object(fields) => {
            let target = fields.get("$ref").and_then(Value::as_str);
            targets.extend(target.and_then(|target| target.strip_prefix(REF_PREFIX)));
            fields.values().for_each(|value| references(value, targets));
        }
        Value::Array(items) => items.iter().for_each(|value| references(value, targets)),
        _ => {}
    }
}

/// A definition's schema with what every object has. One that lets any field through says nothing at all in version 2,
/// whose readers would take the fields that it names for the only ones.
fn complete(dialect: Dialect, resource: &Resource, custom: &Custom) -> Value {
    let anything = || json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let mut schema = custom.schema().unwrap_or_else(anything);
    if dialect == Dialect::V2 && schema["x-kubernetes-preserve-unknown-fields"] == true {
        return json!({"type": "object", "x-kubernetes-group-version-kind": [resource.gvk()]});
    }
    let pod = &definitions()["io.k8s.api.core.v1.Pod"]["properties"];
    if let Some(fields) = schema.as_object_mut() {
        let properties = fields.entry("properties").or_insert_with(|| json!({}));
        if let Some(properties) = properties.as_object_mut() {
            for shared in ["apiVersion", "kind", "metadata"] {
                properties.insert(shared.to_owned(), pod[shared].clone());
            }
        }
        fields.insert("x-kubernetes-group-version-kind".to_owned(), json!([resource.gvk()]));
    }
    schema
}

fn list(resource: &Resource, item: &str) -> Value {
    let pod = &definitions()["io.k8s.api.core.v1.Pod"]["properties"];
    json!({
        "description": format!("{} is a list of {}", resource.list_kind, resource.kind),
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": pod["apiVersion"],
            "kind": pod["kind"],
            "items": {"type": "array", "items": {"$ref": format!("{REF_PREFIX}{item}")}},
            "metadata": {"$ref": format!("{REF_PREFIX}{}", meta("ListMeta"))},
        },
        "x-kubernetes-group-version-kind": [gvk(&resource.group, &resource.version, &resource.list_kind)],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_named_as_upstream_names_them() {
        assert_eq!(name_of("", "v1", "Pod"), "io.k8s.api.core.v1.Pod");
        assert_eq!(name_of("rbac.authorization.k8s.io", "v1", "Role"), "io.k8s.api.rbac.v1.Role");
        assert_eq!(name_of("stable.example.com", "v1", "Tree"), "com.example.stable.v1.Tree");
    }
}
