//! Upstream's definitions, by upstream's names, for clients: described, and referring to each other.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use k8s_openapi::schemars::SchemaGenerator;
use k8s_openapi::schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::roots::{MACHINERY, ROOTS, root};
use super::{enums, merge};
use crate::resource::gvk;

/// How a definition refers to another in OpenAPI v3.
pub(crate) const REF_PREFIX: &str = "#/components/schemas/";

/// Definitions by name.
pub(crate) type Definitions = BTreeMap<String, Value>;

/// All definitions. Made on the first call, which only OpenAPI documents need.
pub(crate) fn definitions() -> &'static Definitions {
    static ALL: LazyLock<Definitions> = LazyLock::new(|| {
        let mut generator = generator();
        for add in ROOTS.iter().map(|row| row.add).chain(MACHINERY.iter().copied()) {
            add(&mut generator);
        }
        let mut definitions = finished(generator);
        for row in ROOTS {
            if let Some(schema) = definitions.get_mut(&*(row.name)()) {
                schema["x-kubernetes-group-version-kind"] = json!([gvk(row.group, row.version, row.kind)]);
            }
        }
        definitions
    });
    &ALL
}

/// The definitions that one kind needs, and its own name among them.
pub(super) fn definitions_of(group: &str, version: &str, kind: &str) -> Option<(String, Definitions)> {
    let row = root(group, version, kind)?;
    let mut generator = generator();
    (row.add)(&mut generator);
    Some(((row.name)().into_owned(), finished(generator)))
}

/// The definition's name of a built-in kind: `io.k8s.api.core.v1.Pod`.
pub(crate) fn definition_name(group: &str, version: &str, kind: &str) -> Option<String> {
    root(group, version, kind).map(|row| (row.name)().into_owned())
}

fn generator() -> SchemaGenerator {
    SchemaSettings::default()
        .with(|settings| {
            settings.definitions_path = "/components/schemas".into();
            settings.meta_schema = None;
            settings.transforms.clear();
        })
        .into_generator()
}

fn finished(mut generator: SchemaGenerator) -> Definitions {
    let definitions = generator.take_definitions(true);
    definitions.into_iter().map(|(name, schema)| (name.clone(), corrected(&name, schema))).collect()
}

/// The generated types are stricter or looser than upstream in a few places; their schemas are put right here.
fn corrected(name: &str, schema: Value) -> Value {
    let Value::Object(mut schema) = schema else { return schema };
    let short = name.rsplit('.').next().unwrap_or(name);
    match short {
        // They hold any JSON; the generated schemas call them objects, or alternatives that no structural schema has.
        "JSON" | "JSONSchemaPropsOrArray" | "JSONSchemaPropsOrBool" | "JSONSchemaPropsOrStringArray" => {
            let mut open = Map::new();
            if let Some(description) = schema.remove("description") {
                open.insert("description".to_owned(), description);
            }
            open.insert("x-kubernetes-preserve-unknown-fields".to_owned(), json!(true));
            return Value::Object(open);
        }
        "FieldsV1" | "RawExtension" => {
            schema.insert("x-kubernetes-preserve-unknown-fields".to_owned(), json!(true));
        }
        _ => {}
    }
    // Upstream never requires metadata; the generated types do so that Rust code need not unwrap it.
    if let Some(required) = schema.get_mut("required").and_then(Value::as_array_mut) {
        required.retain(|field| field != "metadata");
        if required.is_empty() {
            schema.remove("required");
        }
    }
    merge::annotate(name, &mut schema);
    enums::annotate(name, &mut schema);
    Value::Object(schema)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_have_the_names_that_clients_know() {
        for name in [
            "io.k8s.api.core.v1.Pod",
            "io.k8s.api.apps.v1.Deployment",
            "io.k8s.api.rbac.v1.ClusterRole",
            "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition",
            "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta",
            "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions",
        ] {
            assert!(definitions().contains_key(name), "{name}");
        }
    }

    #[test]
    fn every_reference_leads_somewhere() {
        fn walk(value: &Value, definitions: &Definitions) {
            match value {
                Value::Object(entries) => {
                    if let Some(target) = entries.get("$ref").and_then(Value::as_str) {
                        let name = target.strip_prefix(REF_PREFIX).unwrap();
                        assert!(definitions.contains_key(name), "{target}");
                    }
                    entries.values().for_each(|value| walk(value, definitions));
                }
                Value::Array(items) => items.iter().for_each(|value| walk(value, definitions)),
                _ => {}
            }
        }
        for schema in definitions().values() {
            walk(schema, definitions());
        }
    }
}
