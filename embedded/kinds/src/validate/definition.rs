//! Validation of CustomResourceDefinitions.

use std::collections::HashSet;

use c5c3_schema::{Problem, lint_structure};
use serde_json::Value;

use super::names;
use super::report::Report;
use crate::jsonpath::JsonPath;
use crate::read::{bool_at, is_empty_at, list_at, str_at, strings_at};

const COLUMN_TYPES: &[&str] = &["boolean", "date", "integer", "number", "string"];

pub(super) fn definition(object: &Value, old: Option<&Value>, report: &mut Report) {
    let spec = &object["spec"];
    let (group, plural) = (str_at(spec, "group"), str_at(&spec["names"], "plural"));
    if str_at(&object["metadata"], "name") != format!("{plural}.{group}") {
        let why = r#"must be spec.names.plural+"."+spec.group"#;
        report.invalid("metadata.name", str_at(&object["metadata"], "name"), why);
    }
    if !group.is_empty() {
        report.name("spec.group", group, names::subdomain);
        if !group.contains('.') {
            report.invalid("spec.group", group, "should be a domain with at least one dot");
        }
    }
    kinds(&spec["names"], report);
    versions(spec, report);
    stored(object, report);
    if let Some(old) = old {
        update(object, old, report);
    }
}

fn kinds(kinds: &Value, report: &mut Report) {
    for field in ["plural", "singular"] {
        let name = str_at(kinds, field);
        if !name.is_empty() {
            report.name(format!("spec.names.{field}"), name, names::label_from_letter);
        }
    }
    for field in ["kind", "listKind"] {
        let name = str_at(kinds, field);
        if !name.is_empty()
            && let Some(why) = names::label_from_letter(&name.to_lowercase())
        {
            report.invalid(
                format!("spec.names.{field}"),
                name,
                format!("may have mixed case, but should otherwise match: {why}"),
            );
        }
    }
    for list in ["shortNames", "categories"] {
        for (at, name) in strings_at(kinds, list).into_iter().enumerate() {
            report.name(format!("spec.names.{list}[{at}]"), &name, names::label_from_letter);
        }
    }
    if !is_empty_at(kinds, "kind") && str_at(kinds, "kind") == str_at(kinds, "listKind") {
        report.invalid("spec.names.listKind", str_at(kinds, "listKind"), "kind and listKind may not be the same");
    }
}

fn versions(spec: &Value, report: &mut Report) {
    let versions = list_at(spec, "versions");
    if versions.is_empty() {
        report.required("spec.versions", "must have at least one version");
        return;
    }
    let mut seen = HashSet::new();
    for (at, version) in versions.iter().enumerate() {
        let (path, name) = (format!("spec.versions[{at}]"), str_at(version, "name"));
        if !name.is_empty() {
            report.name(format!("{path}.name"), name, names::label_from_letter);
            if !seen.insert(name) {
                report.duplicate(format!("{path}.name"), name);
            }
        }
        self::version(&path, version, bool_at(spec, "preserveUnknownFields"), report);
    }
    if versions.iter().filter(|version| bool_at(version, "storage")).count() != 1 {
        let names: Vec<&str> = versions.iter().map(|version| str_at(version, "name")).collect();
        report.invalid("spec.versions", names, "must have exactly one version marked as storage version");
    }
}

fn version(path: &str, version: &Value, unstructured: bool, report: &mut Report) {
    let schema_path = format!("{path}.schema.openAPIV3Schema");
    match version["schema"].get("openAPIV3Schema").filter(|schema| schema.is_object()) {
        None => report.required(schema_path, "schemas are required"),
        Some(_) if unstructured => {
            report.invalid("spec.preserveUnknownFields", true, "must be false in order to use structural schemas");
        }
        Some(schema) => {
            let within = |problem: Problem| Problem { path: format!("{schema_path}.{}", problem.path), ..problem };
            report.extend(lint_structure(schema).into_iter().map(within).collect());
        }
    }
    for (at, column) in list_at(version, "additionalPrinterColumns").iter().enumerate() {
        let path = format!("{path}.additionalPrinterColumns[{at}]");
        let kind = str_at(column, "type");
        if !kind.is_empty() && !COLUMN_TYPES.contains(&kind) {
            report.unsupported(format!("{path}.type"), kind, COLUMN_TYPES);
        }
        json_path(&format!("{path}.jsonPath"), str_at(column, "jsonPath"), report);
    }
    for (at, field) in list_at(version, "selectableFields").iter().enumerate() {
        json_path(&format!("{path}.selectableFields[{at}].jsonPath"), str_at(field, "jsonPath"), report);
    }
    if let Some(scale) = version["subresources"].get("scale").filter(|scale| scale.is_object()) {
        for (field, root) in [("specReplicasPath", ".spec."), ("statusReplicasPath", ".status.")] {
            let given = str_at(scale, field);
            if !given.starts_with(root) {
                let path = format!("{path}.subresources.scale.{field}");
                report.invalid(path, given, format!("should be a json path under {root}"));
            }
        }
    }
}

fn json_path(path: &str, given: &str, report: &mut Report) {
    if given.is_empty() {
        return;
    }
    if let Err(why) = JsonPath::parse(given) {
        report.invalid(path, given, why);
    }
}

/// A version in which objects may be stored cannot go away.
fn stored(object: &Value, report: &mut Report) {
    let versions = list_at(&object["spec"], "versions");
    for (at, stored) in strings_at(&object["status"], "storedVersions").into_iter().enumerate() {
        if !versions.iter().any(|version| str_at(version, "name") == stored) {
            let why = format!(
                "missing from spec.versions; {stored} was previously a storage version, and must remain in spec.versions \
                 until a storage migration removes it from status.storedVersions"
            );
            report.invalid(format!("status.storedVersions[{at}]"), stored, why);
        }
    }
}

fn update(object: &Value, old: &Value, report: &mut Report) {
    let (new, before) = (&object["spec"], &old["spec"]);
    report.immutable("spec.group", &new["group"], &before["group"]);
    report.immutable("spec.names.plural", &new["names"]["plural"], &before["names"]["plural"]);
    let established = list_at(&old["status"], "conditions")
        .iter()
        .any(|condition| str_at(condition, "type") == "Established" && str_at(condition, "status") == "True");
    if established {
        report.immutable("spec.scope", &new["scope"], &before["scope"]);
        report.immutable("spec.names.kind", &new["names"]["kind"], &before["names"]["kind"]);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::resource::find;

    fn widget() -> Value {
        json!({
            "metadata": {"name": "widgets.example.com"},
            "spec": {
                "group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
                "versions": [{
                    "name": "v1", "served": true, "storage": true,
                    "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object"}}}},
                }],
            },
        })
    }

    fn check(object: &Value, old: Option<&Value>) -> Vec<String> {
        let resource = find("apiextensions.k8s.io", "v1", "customresourcedefinitions").unwrap();
        let mut object = object.clone();
        crate::default(resource, &mut object);
        super::super::validate(resource, &object, old).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_sound_definition_passes() {
        assert_eq!(check(&widget(), None), Vec::<String>::new());
    }

    #[test]
    fn its_name_follows_from_its_plural_and_group() {
        let mut object = widget();
        object["metadata"]["name"] = json!("gadgets.example.com");
        assert_eq!(
            check(&object, None),
            [r#"metadata.name: Invalid value: "gadgets.example.com": must be spec.names.plural+"."+spec.group"#]
        );
    }

    #[test]
    fn one_version_is_stored_and_every_version_has_a_schema() {
        let mut object = widget();
        object["spec"]["versions"][0]["storage"] = json!(false);
        object["spec"]["versions"][0]["schema"] = json!({});
        let found = check(&object, None);
        assert_eq!(
            found,
            [
                "spec.versions[0].schema.openAPIV3Schema: Required value: schemas are required",
                r#"spec.versions: Invalid value: ["v1"]: must have exactly one version marked as storage version"#,
            ]
        );
    }

    #[test]
    fn its_schema_is_structural_and_its_paths_are_understood() {
        let mut object = widget();
        object["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"] = json!({"properties": {}});
        object["spec"]["versions"][0]["additionalPrinterColumns"] =
            json!([{"name": "A", "type": "text", "jsonPath": "..a"}]);
        let found = check(&object, None);
        assert!(found[0].starts_with("spec.versions[0].schema.openAPIV3Schema.properties.spec"), "{found:?}");
        assert!(found.iter().any(|p| p.starts_with("spec.versions[0].additionalPrinterColumns[0].jsonPath: Invalid")));
        assert!(found.iter().any(|p| p.starts_with("spec.versions[0].additionalPrinterColumns[0].type: Unsupported")));
    }

    #[test]
    fn what_is_established_keeps_its_scope_and_its_stored_versions() {
        let mut old = widget();
        old["status"] = json!({"conditions": [{"type": "Established", "status": "True"}]});
        let mut new = widget();
        new["spec"]["scope"] = json!("Cluster");
        assert_eq!(check(&new, Some(&old)), [r#"spec.scope: Invalid value: "Cluster": field is immutable"#]);
        let mut gone = widget();
        gone["status"] = json!({"storedVersions": ["v1alpha1", "v1"]});
        assert!(
            check(&gone, Some(&old))[0].starts_with(r#"status.storedVersions[0]: Invalid value: "v1alpha1": missing"#)
        );
    }
}
