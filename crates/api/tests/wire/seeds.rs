//! The documents that define the system. Which fields their examples have is kept as facts, in `seed-fields.txt`, and
//! documents of ours have all of them: each is accepted as it stands, and nothing of it is lost.
//!
//! Where `C5C3_SEEDS` names the folder of the documents themselves, the same is tried with each of their examples.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::documents::{lost, parse, root};
use crate::typed::round_trip;

/// Names the folder of the documents.
const FOLDER: &str = "C5C3_SEEDS";

fn facts_file() -> PathBuf {
    root().join("crates/api/tests/wire/seed-fields.txt")
}

/// The fenced YAML blocks of a text, each with the line it starts on.
fn blocks(text: &str) -> Vec<(usize, String)> {
    let mut blocks = Vec::new();
    let mut open: Option<(usize, String)> = None;
    for (index, line) in text.lines().enumerate() {
        match (&mut open, line.trim_end()) {
            (None, "```yaml" | "```yml") => open = Some((index + 2, String::new())),
            (Some(_), "```") => blocks.extend(open.take()),
            (Some((_, block)), line) => {
                block.push_str(line);
                block.push('\n');
            }
            (None, _) => {}
        }
    }
    blocks
}

/// One example names an owner without the uid that every API server demands in an owner reference.
fn with_owner_uid(mut document: Value) -> Value {
    let owners = document["metadata"].get_mut("ownerReferences").and_then(Value::as_array_mut);
    for owner in owners.into_iter().flatten() {
        owner.as_object_mut().unwrap().entry("uid").or_insert(json!("8f6c5f1e-0000-4000-8000-000000000001"));
    }
    document
}

/// The YAML files of a folder and the folders in it.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<PathBuf> = entries
        .map(|entry| entry.unwrap().path())
        .flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] })
        .collect();
    files.sort();
    files
}

/// The fields of a document that have values, each as a line: kind, path, type. What users name freely is `*`.
fn fields(document: &Value) -> BTreeSet<String> {
    let text = |field: &str| document[field].as_str().unwrap_or_default();
    let kind = c5c3_api::find(text("apiVersion"), text("kind")).expect("a kind of ours");
    let definition = serde_json::to_value(kind.crd()).unwrap();
    let mut found = BTreeSet::new();
    walk(document, &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"], "", &mut found);
    found.into_iter().map(|(path, word)| format!("{} {path} {word}", kind.name())).collect()
}

fn walk(value: &Value, schema: &Value, path: &str, found: &mut BTreeSet<(String, &'static str)>) {
    let word = match value {
        Value::Object(_) if schema["x-kubernetes-preserve-unknown-fields"] == true => "map",
        Value::Object(fields) if !fields.is_empty() => {
            for (name, value) in fields {
                let (name, schema) = step(name, schema, path);
                walk(value, schema, &if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }, found);
            }
            return;
        }
        Value::Array(items) if !items.is_empty() => {
            for item in items {
                walk(item, &schema["items"], &format!("{path}[]"), found);
            }
            return;
        }
        Value::Object(_) => "map",
        Value::Array(_) => "list",
        Value::String(_) => "string",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::Bool(_) => "boolean",
        Value::Null => "null",
    };
    found.insert((path.to_owned(), word));
}

/// The name of a field in a path, and its schema. Metadata has none: every API server knows it.
fn step<'a>(name: &'a str, schema: &'a Value, path: &str) -> (&'a str, &'a Value) {
    if let Some(declared) = schema["properties"].get(name) {
        (name, declared)
    } else if schema["additionalProperties"].is_object() {
        ("*", &schema["additionalProperties"])
    } else if path == "metadata.labels" || path == "metadata.annotations" {
        ("*", &Value::Null)
    } else {
        (name, &Value::Null)
    }
}

/// Accepted as it stands, without a loss.
fn assert_taken(label: &str, document: &Value) {
    let text = |field: &str| document[field].as_str().unwrap_or_default();
    let kind = c5c3_api::find(text("apiVersion"), text("kind")).unwrap_or_else(|| panic!("{label}: no kind of ours"));
    let problems = kind.check(document, None);
    assert!(problems.is_empty(), "{label}:\n{problems}");
    assert_eq!(lost(document, &round_trip(document), ""), [""; 0], "{label}");
}

#[test]
fn documents_of_ours_have_every_field_of_the_examples_and_are_accepted_as_they_stand() {
    let mut covered = BTreeSet::new();
    for folder in ["examples", "crates/api/tests/wire/manifests"] {
        for file in files(&root().join(folder)) {
            for document in parse(&std::fs::read_to_string(&file).unwrap()) {
                assert_taken(&file.display().to_string(), &document);
                covered.extend(fields(&document));
            }
        }
    }
    let facts = std::fs::read_to_string(facts_file()).unwrap();
    let missing: Vec<&str> = facts.lines().filter(|line| !line.starts_with('#') && !covered.contains(*line)).collect();
    assert!(missing.is_empty(), "no document of ours has\n{}", missing.join("\n"));
    assert!(facts.lines().count() > 200, "only {} fields", facts.lines().count());
}

#[test]
fn every_example_of_a_kind_of_ours_is_accepted_as_it_stands_and_loses_nothing() {
    let Some(folder) = std::env::var_os(FOLDER).filter(|folder| !folder.is_empty()) else {
        eprintln!(
            "left out: the examples of the documents that define the system: {FOLDER} does not name their folder"
        );
        return;
    };
    let mut checked = Vec::new();
    let mut lines = BTreeSet::new();
    for file in files(Path::new(&folder)) {
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        for (line, block) in blocks(&std::fs::read_to_string(&file).unwrap()) {
            for document in parse(&block) {
                let text = |field: &str| document[field].as_str().unwrap_or_default().to_owned();
                if c5c3_api::find(&text("apiVersion"), &text("kind")).is_none() {
                    continue;
                }
                let document = with_owner_uid(document.clone());
                assert_taken(&format!("{name}:{line}"), &document);
                lines.extend(fields(&document));
                checked.push(text("kind"));
            }
        }
    }
    checked.sort();
    assert_eq!(
        checked,
        [
            "Cinder",
            "ControlPlane",
            "Cortex",
            "Glance",
            "Keystone",
            "Neutron",
            "Neutron",
            "Nova",
            "OVNChassis",
            "OVNCluster",
            "Placement",
            "Project",
            "Tempest"
        ]
    );
    let lines: Vec<String> = lines.into_iter().collect();
    let text = format!(
        "# Fields of the examples in the documents that define the system. See docs/contracts.md.\n{}\n",
        lines.join("\n")
    );
    if c5c3_contracts::is_recording() {
        std::fs::write(facts_file(), &text).unwrap();
    }
    assert_eq!(std::fs::read_to_string(facts_file()).unwrap(), text, "run `make contracts` with {FOLDER}");
}
