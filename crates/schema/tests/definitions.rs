//! Our CRDs and those of the operators that c5c3 depends on: every schema and rule compiles, and those of K-ORC's kinds behave.
#![expect(clippy::needless_pass_by_value, reason = "the helpers take JSON literals")]
#![expect(clippy::unwrap_used, reason = "the helpers fail the test that calls them")]

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::OnceLock;

use c5c3_contracts::definitions;
use c5c3_schema::{ProblemKind, Schema};
use serde_json::{Value, json};

/// One version of one CRD.
struct Version {
    file: PathBuf,
    kind: String,
    schema: Value,
}

/// Parsed once: it is by far the slowest part.
fn versions() -> &'static [Version] {
    static VERSIONS: OnceLock<Vec<Version>> = OnceLock::new();
    VERSIONS.get_or_init(read_versions)
}

fn read_versions() -> Vec<Version> {
    let crds = definitions("whether schemas compile as other projects ship them", false);
    let mut versions = Vec::new();
    for (file, crd) in crds {
        for version in crd["spec"]["versions"].as_array().unwrap() {
            versions.push(Version {
                file: file.clone(),
                kind: crd["spec"]["names"]["kind"].as_str().unwrap().to_owned(),
                schema: version["schema"]["openAPIV3Schema"].clone(),
            });
        }
    }
    versions
}

/// K-ORC's projects, by our CRD, and by the genuine one if that is at hand. Both have to behave alike.
fn projects() -> Vec<Schema> {
    let is_one = |version: &&Version| version.kind == "Project" && count_rules(&version.schema) > 0;
    let found: Vec<Schema> =
        versions().iter().filter(is_one).map(|version| Schema::compile(&version.schema).unwrap()).collect();
    assert!(!found.is_empty(), "there is no Project");
    found
}

fn count_rules(schema: &Value) -> usize {
    match schema {
        Value::Object(map) => map
            .iter()
            .map(|(key, value)| match (key.as_str(), value) {
                ("x-kubernetes-validations", Value::Array(rules)) => rules.len(),
                _ => count_rules(value),
            })
            .sum(),
        Value::Array(items) => items.iter().map(count_rules).sum(),
        _ => 0,
    }
}

#[test]
fn every_schema_and_every_rule_in_it_compiles() {
    let versions = versions();
    let mut rules = 0;
    for version in versions {
        if let Err(error) = Schema::compile(&version.schema) {
            panic!("{} {}: {error}", version.file.display(), version.kind);
        }
        rules += count_rules(&version.schema);
    }
    // Guards against a walk that finds nothing.
    assert!(versions.len() > 50, "only {} schemas", versions.len());
    assert!(rules > 100, "only {rules} rules");
}

#[test]
fn no_schema_is_refused_as_one_that_kubernetes_would_not_install() {
    let mut refused = BTreeMap::new();
    for version in versions() {
        let problems = c5c3_schema::lint(&version.schema);
        if !problems.is_empty() {
            refused.insert(&version.kind, problems.to_string());
        }
    }
    assert!(refused.is_empty(), "{refused:#?}");
}

/// Adds a number to every rule.
fn spoil(schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            for (key, value) in map {
                match value {
                    Value::Array(rules) if key == "x-kubernetes-validations" => {
                        for rule in rules {
                            rule["rule"] = json!(format!("({}) + 1 == 2", rule["rule"].as_str().unwrap().trim()));
                        }
                    }
                    other => spoil(other),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(spoil),
        _ => {}
    }
}

/// Guards the test above against a checker that lets everything through.
#[test]
fn no_rule_is_a_number_to_add_to() {
    for version in versions() {
        let mut schema = version.schema.clone();
        spoil(&mut schema);
        let problems = c5c3_schema::lint_structure(&schema);
        let found = problems.iter().filter(|problem| problem.what.contains("'_+_' applied to '(bool, int)'")).count();
        assert_eq!(found, count_rules(&schema), "{} {}", version.file.display(), version.kind);
    }
}

fn project(spec: Value) -> Value {
    json!({
        "apiVersion": "openstack.k-orc.cloud/v1alpha1",
        "kind": "Project",
        "metadata": {"name": "tenant-a", "namespace": "openstack"},
        "spec": spec,
    })
}

fn managed() -> Value {
    project(json!({
        "cloudCredentialsRef": {"secretName": "clouds", "cloudName": "openstack"},
        "managementPolicy": "managed",
        "resource": {"name": "tenant-a"},
    }))
}

#[test]
fn a_sound_managed_project_has_no_problems() {
    for schema in projects() {
        assert_eq!(schema.check(&managed(), None).to_string(), "");
    }
}

#[test]
fn a_managed_project_without_a_resource_is_refused_in_the_words_of_k_orc() {
    for schema in projects() {
        let mut object = managed();
        object["spec"].as_object_mut().unwrap().remove("resource");
        let problems = schema.check(&object, None);
        assert_eq!(problems.to_string(), "spec: resource must be specified when policy is managed",);
        assert_eq!(problems.as_slice()[0].kind, ProblemKind::Invalid);
    }
}

#[test]
fn k_orc_defaults_are_applied() {
    for schema in projects() {
        let mut object = managed();
        object["spec"].as_object_mut().unwrap().remove("managementPolicy");
        object["spec"]["managedOptions"] = json!({});
        schema.default(&mut object);
        assert_eq!(object["spec"]["managementPolicy"], "managed");
        assert_eq!(object["spec"]["managedOptions"]["onDelete"], "delete");
    }
}

#[test]
fn the_management_policy_of_a_project_cannot_be_changed() {
    for schema in projects() {
        let mut object = managed();
        object["spec"]["managementPolicy"] = json!("unmanaged");
        object["spec"].as_object_mut().unwrap().remove("resource");
        object["spec"]["import"] = json!({"id": "f81d4fae-7dec-41d0-a765-00a0c91e6bf6"});
        assert_eq!(schema.check(&object, None).to_string(), "");
        let problems = schema.check(&object, Some(&managed()));
        assert_eq!(problems.to_string(), "spec.managementPolicy: managementPolicy is immutable",);
    }
}

#[test]
fn an_import_by_something_that_is_no_uuid_is_refused() {
    for schema in projects() {
        let object = project(json!({
            "cloudCredentialsRef": {"secretName": "clouds", "cloudName": "openstack"},
            "managementPolicy": "unmanaged",
            "import": {"id": "not-a-uuid"},
        }));
        assert_eq!(
            schema.check(&object, None).to_string(),
            "spec.import.id: \"not-a-uuid\" is not a UUID; write it like f81d4fae-7dec-41d0-a765-00a0c91e6bf6",
        );
    }
}

#[test]
fn a_misspelt_field_of_a_project_is_found() {
    for schema in projects() {
        let mut object = managed();
        object["spec"]["resource"]["descripton"] = json!("x");
        assert_eq!(
            schema.check(&object, None).to_string(),
            "spec.resource.descripton: is not a known field; did you mean \"description\"?",
        );
        assert_eq!(schema.prune(&mut object), ["spec.resource.descripton"]);
        assert_eq!(object, managed());
    }
}

#[test]
fn what_a_schema_requires_is_explained_by_its_own_description() {
    for schema in projects() {
        let mut object = managed();
        object["spec"].as_object_mut().unwrap().remove("cloudCredentialsRef");
        let problems = schema.check(&object, None);
        assert!(problems.to_string().starts_with("spec.cloudCredentialsRef: is missing; add it: "), "{problems}");
    }
}
