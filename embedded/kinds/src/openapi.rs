//! OpenAPI documents: an index and one document per group and version in version 3, one document for all in version 2.
//! They say what is served, with which parameters, and what every kind looks like.
//!
//! Documents are made again at each call and are large (megabytes); a server keeps them until its resources change.

mod dialect;
mod operations;
mod parameters;
mod schemas;

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use serde_json::{Map, Value, json};

pub(crate) use dialect::Dialect;

use crate::resource::{Resource, api_version};
use dialect::Dialect::{V2, V3};

/// The index at `/openapi/v3`: where the document of each group and version is. The address changes whenever the
/// document does, so that clients can keep what they have.
pub fn openapi_v3_index(resources: &[&Resource]) -> Value {
    let mut paths = Map::new();
    for ((group, version), of_version) in by_version(resources) {
        let path = root(group, version);
        let hash = fingerprint(&of_version);
        let address = format!("/openapi/v3{path}?hash={hash:016X}");
        paths.insert(path.trim_start_matches('/').to_owned(), json!({"serverRelativeURL": address}));
    }
    json!({"paths": paths})
}

/// The document at `/openapi/v3/api/v1` or `/openapi/v3/apis/GROUP/VERSION`, if that is served.
pub fn openapi_v3(resources: &[&Resource], group: &str, version: &str, server_version: &str) -> Option<Value> {
    let of_version = by_version(resources).remove(&(group, version))?;
    let bearer = json!({
        "type": "apiKey", "in": "header", "name": "authorization", "description": "Bearer Token authentication",
    });
    Some(json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": server_version},
        "paths": operations::paths(V3, &of_version),
        "components": {
            "schemas": schemas::schemas(V3, &of_version),
            "securitySchemes": {"BearerToken": bearer},
        },
    }))
}

/// The document at `/openapi/v2`.
pub fn openapi_v2(resources: &[&Resource], server_version: &str) -> Value {
    let bearer = json!({
        "type": "apiKey", "in": "header", "name": "authorization", "description": "Bearer Token authentication",
    });
    json!({
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": server_version},
        "paths": operations::paths(V2, resources),
        "definitions": schemas::schemas(V2, resources),
        "securityDefinitions": {"BearerToken": bearer},
        "security": [{"BearerToken": []}],
    })
}

fn by_version<'r>(resources: &[&'r Resource]) -> BTreeMap<(&'r str, &'r str), Vec<&'r Resource>> {
    let mut versions: BTreeMap<_, Vec<&Resource>> = BTreeMap::new();
    for resource in resources {
        versions.entry((resource.group.as_str(), resource.version.as_str())).or_default().push(resource);
    }
    versions
}

/// `/api/v1`, `/apis/apps/v1`.
fn root(group: &str, version: &str) -> String {
    let prefix = if group.is_empty() { "/api" } else { "/apis" };
    format!("{prefix}/{}", api_version(group, version))
}

/// A number that is the same as long as the resources are, built-in ones as long as this crate is.
fn fingerprint(resources: &[&Resource]) -> u64 {
    let mut hasher = DefaultHasher::new();
    env!("CARGO_PKG_VERSION").hash(&mut hasher);
    for resource in resources {
        (&resource.plural, &resource.kind, &resource.list_kind, resource.namespaced).hash(&mut hasher);
        for subresource in &resource.subresources {
            (&subresource.name, &subresource.kind).hash(&mut hasher);
        }
        if let Some(custom) = resource.custom() {
            custom.schema_text().hash(&mut hasher);
        }
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resource::{builtin, custom};

    fn all() -> Vec<&'static Resource> {
        builtin().iter().collect()
    }

    fn widget(description: &str) -> Vec<Resource> {
        custom(&json!({"spec": {
            "group": "stable.example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "description": description, "properties": {"spec": {"type": "object", "properties": {
                    "port": {"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]},
                }}},
            }}}],
        }}))
    }

    /// Everything that a document refers to is in it.
    fn assert_closed(document: &Value) {
        fn walk(value: &Value, document: &Value) {
            match value {
                Value::Object(entries) => {
                    if let Some(target) = entries.get("$ref").and_then(Value::as_str) {
                        assert!(document.pointer(&target[1..]).is_some(), "{target}");
                    }
                    entries.values().for_each(|value| walk(value, document));
                }
                Value::Array(items) => items.iter().for_each(|value| walk(value, document)),
                _ => {}
            }
        }
        walk(document, document);
    }

    #[test]
    fn the_index_leads_to_a_document_for_each_version() {
        let index = openapi_v3_index(&all());
        let address = index["paths"]["apis/apps/v1"]["serverRelativeURL"].as_str().unwrap();
        assert!(address.starts_with("/openapi/v3/apis/apps/v1?hash="));
        for path in index["paths"].as_object().unwrap().keys() {
            let mut steps = path.split('/').skip(1);
            let (group, version) = match (steps.next(), steps.next()) {
                (Some(version), None) => ("", version),
                (Some(group), Some(version)) => (group, version),
                _ => panic!("{path}"),
            };
            assert_closed(&openapi_v3(&all(), group, version, "v1.33.0").unwrap());
        }
        assert!(openapi_v3(&all(), "nowhere", "v1", "").is_none());
    }

    #[test]
    fn the_address_of_a_document_changes_with_it() {
        let index = |resources: &[Resource]| openapi_v3_index(&resources.iter().collect::<Vec<_>>()).to_string();
        assert_eq!(index(&widget("a")), index(&widget("a")));
        assert_ne!(index(&widget("a")), index(&widget("b")));
    }

    #[test]
    fn version_two_has_everything_in_one_document() {
        let widgets = widget("a");
        let mut resources = all();
        resources.extend(widgets.iter());
        let document = openapi_v2(&resources, "v1.33.0");
        assert_closed(&document);
        assert!(document["definitions"]["io.k8s.api.core.v1.Pod"].is_object());
        assert!(document["paths"]["/api/v1/namespaces/{namespace}/pods/{name}"]["patch"].is_object());
        let widget = &document["definitions"]["com.example.stable.v1.Widget"];
        assert_eq!(widget["properties"]["spec"]["properties"]["port"], json!({"x-kubernetes-int-or-string": true}));
    }

    #[test]
    fn a_custom_kind_is_described_under_its_reversed_group() {
        let widgets = widget("A widget.");
        let document = openapi_v3(&[&widgets[0]], "stable.example.com", "v1", "v1.33.0").unwrap();
        assert_closed(&document);
        let schemas = &document["components"]["schemas"];
        let widget = &schemas["com.example.stable.v1.Widget"];
        assert_eq!(widget["description"], "A widget.");
        assert_eq!(
            widget["x-kubernetes-group-version-kind"],
            json!([{"group": "stable.example.com", "version": "v1", "kind": "Widget"}])
        );
        assert!(widget["properties"]["metadata"].is_object());
        assert!(schemas["com.example.stable.v1.WidgetList"].is_object());
        assert!(schemas.get("io.k8s.api.core.v1.Pod").is_none());
    }
}
