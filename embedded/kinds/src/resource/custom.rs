//! What a CustomResourceDefinition adds to the resource table: one resource for each version that it serves.

use std::sync::Arc;

use serde_json::Value;

use super::{NameRule, Origin, Resource, Subresource, VERBS, Verb, api_version};
use crate::read::{bool_at, list_at, str_at, strings_at};
use crate::table::Column;

const CHANGE: &[Verb] = &[Verb::Get, Verb::Patch, Verb::Update];

/// What a CustomResourceDefinition says of one of its versions, beyond what every resource has.
#[derive(Debug, PartialEq)]
pub struct Custom {
    /// Name of the definition: `widgets.example.com`.
    pub definition: String,
    /// The version's `openAPIV3Schema` as text: taken apart it is ten times as large, and rarely needed. Empty: none.
    schema: String,
    /// Its printer columns; with none, Age.
    pub columns: Vec<Column>,
    /// Paths that field selectors may use: `.spec.color`.
    pub selectable_fields: Vec<String>,
    /// Where its scale subresource looks, if it has one.
    pub scale: Option<ScalePaths>,
    /// Whether writes to the object leave its status alone, and the other way round.
    pub status: bool,
    /// Where the webhook is that makes one version of another: a `clientConfig`. None: versions differ in name only.
    pub conversion: Option<Value>,
    /// The warning for those who use this version, if it is deprecated.
    pub deprecation: Option<String>,
}

impl Custom {
    /// The version's `openAPIV3Schema`, as written.
    pub fn schema(&self) -> Option<Value> {
        serde_json::from_str(&self.schema).ok()
    }

    /// The same as text, which is the same as long as the schema is.
    pub(crate) fn schema_text(&self) -> &str {
        &self.schema
    }
}

/// Where a scale subresource looks: simple paths such as `.spec.replicas`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScalePaths {
    /// The wanted number.
    pub spec_replicas: String,
    /// The number there is.
    pub status_replicas: String,
    /// The selector in the form of a string, if the kind has one.
    pub label_selector: Option<String>,
}

/// The resources of a definition, one for each served version, in the definition's order. Names are the accepted ones
/// once the definition's status has them.
pub fn custom(definition: &Value) -> Vec<Resource> {
    let accepted = &definition["status"]["acceptedNames"];
    let names = if str_at(accepted, "plural").is_empty() { &definition["spec"]["names"] } else { accepted };
    let versions = list_at(&definition["spec"], "versions");
    let stored = versions.iter().find(|version| bool_at(version, "storage")).map_or("", |v| str_at(v, "name"));
    versions
        .iter()
        .filter(|version| bool_at(version, "served"))
        .map(|version| of_version(definition, names, version, stored))
        .collect()
}

fn of_version(definition: &Value, names: &Value, version: &Value, stored: &str) -> Resource {
    let spec = &definition["spec"];
    let (group, plural, kind) = (str_at(spec, "group"), str_at(names, "plural"), str_at(names, "kind"));
    let or = |key: &str, default: String| match str_at(names, key) {
        "" => default,
        given => given.to_owned(),
    };
    Resource {
        group: group.to_owned(),
        version: str_at(version, "name").to_owned(),
        kind: kind.to_owned(),
        list_kind: or("listKind", format!("{kind}List")),
        plural: plural.to_owned(),
        singular: or("singular", kind.to_lowercase()),
        short_names: strings_at(names, "shortNames"),
        categories: strings_at(names, "categories"),
        namespaced: str_at(spec, "scope") == "Namespaced",
        verbs: VERBS,
        subresources: subresources(group, str_at(version, "name"), kind, &version["subresources"]),
        name_rule: NameRule::DnsSubdomain,
        storage_prefix: format!("{group}/{plural}"),
        storage_version: api_version(group, stored),
        generation: true,
        origin: Origin::Custom(Arc::new(describe(definition, version, group, kind))),
    }
}

fn describe(definition: &Value, version: &Value, group: &str, kind: &str) -> Custom {
    let subresources = &version["subresources"];
    let scale = subresources.get("scale").map(|scale| ScalePaths {
        spec_replicas: str_at(scale, "specReplicasPath").to_owned(),
        status_replicas: str_at(scale, "statusReplicasPath").to_owned(),
        label_selector: scale.get("labelSelectorPath").and_then(Value::as_str).map(str::to_owned),
    });
    let warning = || match version["deprecationWarning"].as_str() {
        Some(warning) => warning.to_owned(),
        None => format!("{group}/{} {kind} is deprecated", str_at(version, "name")),
    };
    Custom {
        definition: str_at(&definition["metadata"], "name").to_owned(),
        schema: version["schema"]
            .get("openAPIV3Schema")
            .filter(|schema| schema.is_object())
            .map(Value::to_string)
            .unwrap_or_default(),
        columns: list_at(version, "additionalPrinterColumns").iter().map(Column::custom).collect(),
        selectable_fields: list_at(version, "selectableFields")
            .iter()
            .map(|field| str_at(field, "jsonPath").to_owned())
            .collect(),
        scale,
        status: subresources.get("status").is_some_and(|status| !status.is_null()),
        conversion: (str_at(&definition["spec"]["conversion"], "strategy") == "Webhook")
            .then(|| definition["spec"]["conversion"]["webhook"]["clientConfig"].clone()),
        deprecation: bool_at(version, "deprecated").then(warning),
    }
}

fn subresources(group: &str, version: &str, kind: &str, declared: &Value) -> Vec<Subresource> {
    let below = |name: &str, group: &str, version: &str, kind: &str| Subresource {
        name: name.to_owned(),
        group: group.to_owned(),
        version: version.to_owned(),
        kind: kind.to_owned(),
        verbs: CHANGE,
    };
    let has = |name: &str| declared.get(name).is_some_and(|value| !value.is_null());
    let mut found = Vec::new();
    if has("scale") {
        found.push(below("scale", "autoscaling", "v1", "Scale"));
    }
    if has("status") {
        found.push(below("status", group, version, kind));
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn definition() -> Value {
        json!({
            "metadata": {"name": "widgets.example.com"},
            "spec": {
                "group": "example.com",
                "scope": "Namespaced",
                "names": {"plural": "widgets", "kind": "Widget", "shortNames": ["wi"]},
                "versions": [
                    {"name": "v1", "served": true, "storage": true, "subresources": {
                        "status": {},
                        "scale": {"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n"},
                    }},
                    {"name": "v1beta1", "served": true, "storage": false, "deprecated": true},
                    {"name": "v1alpha1", "served": false, "storage": false},
                ],
            },
        })
    }

    #[test]
    fn each_served_version_becomes_a_resource_that_names_the_stored_one() {
        let resources = custom(&definition());
        let seen: Vec<_> = resources.iter().map(|r| (r.version.as_str(), r.storage_version.as_str())).collect();
        assert_eq!(seen, [("v1", "example.com/v1"), ("v1beta1", "example.com/v1")]);
        assert_eq!(resources[0].list_kind, "WidgetList");
        assert_eq!(resources[0].singular, "widget");
        assert!(resources[0].namespaced);
    }

    #[test]
    fn subresources_are_those_that_the_version_declares() {
        let resources = custom(&definition());
        let names = |r: &Resource| r.subresources.iter().map(|s| s.name.clone()).collect::<Vec<_>>();
        assert_eq!(names(&resources[0]), ["scale", "status"]);
        assert!(names(&resources[1]).is_empty());
        assert_eq!(resources[0].custom().unwrap().scale.as_ref().unwrap().spec_replicas, ".spec.n");
    }

    #[test]
    fn a_deprecated_version_carries_its_warning() {
        let resources = custom(&definition());
        assert_eq!(resources[0].custom().unwrap().deprecation, None);
        assert_eq!(
            resources[1].custom().unwrap().deprecation.as_deref(),
            Some("example.com/v1beta1 Widget is deprecated")
        );
    }
}
