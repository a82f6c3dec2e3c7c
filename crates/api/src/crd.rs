//! From a Rust type to the CRD that is installed: what the derive leaves undone for a real API server.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::Value;

use crate::alias::{self, Alias};

/// Fields whose schema comes from Kubernetes itself, with descriptions longer than the rest of a CRD.
pub const FOREIGN: &[&str] = &["affinity", "tolerations", "topologySpreadConstraints"];

/// Finishes a derived CRD: aliases in, artefacts of the derivation out.
pub(crate) fn finish(crd: &CustomResourceDefinition, aliases: &[Alias]) -> CustomResourceDefinition {
    let mut crd = serde_json::to_value(crd).expect("a CRD is JSON");
    let versions = crd["spec"]["versions"].as_array_mut().expect("a CRD has versions");
    for version in versions {
        let schema = &mut version["schema"]["openAPIV3Schema"];
        tidy(schema, false);
        if let Some(root) = schema.as_object_mut() {
            root.remove("title");
            root.insert("type".into(), "object".into());
            // The derive describes the object by its Rust type; what the spec says of itself tells more.
            let about = root
                .get("properties")
                .and_then(|properties| properties["spec"]["description"].as_str())
                .map(str::to_owned);
            root.insert("description".into(), about.unwrap_or_default().into());
        }
        let spec = &mut schema["properties"]["spec"];
        if spec.is_object() {
            alias::extend_schema(aliases, spec);
        }
    }
    serde_json::from_value(crd).expect("a finished CRD is a CRD")
}

fn tidy(schema: &mut Value, foreign: bool) {
    match schema {
        Value::Object(object) => {
            // An absent field and a null one mean the same to us; without `nullable` an API server drops the null.
            object.remove("nullable");
            if let Some(Value::Array(values)) = object.get_mut("enum") {
                values.retain(|value| !value.is_null());
            }
            // Kubernetes knows signed formats only, and warns of others on each write of the CRD.
            if object.get("format").and_then(Value::as_str).is_some_and(|format| format.starts_with("uint")) {
                object.remove("format");
            }
            // The structural rewriter empties the branches that say which two types an int-or-string has.
            if object.get("x-kubernetes-int-or-string") == Some(&Value::Bool(true)) {
                object.insert("anyOf".into(), serde_json::json!([{"type": "integer"}, {"type": "string"}]));
                object.remove("type");
                return;
            }
            if let Some(Value::String(description)) = object.get_mut("description") {
                *description = if foreign { first_sentence(description) } else { description.replace('\n', " ") };
            }
            for (name, child) in object {
                tidy(child, foreign || FOREIGN.contains(&name.as_str()));
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| tidy(item, foreign)),
        _ => {}
    }
}

fn first_sentence(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    line.split_once(". ").map_or_else(|| line.to_owned(), |(first, _)| format!("{first}."))
}
