//! The documents that define the system: every example of a kind of ours is accepted as it stands, and nothing is lost.

use serde_json::{Value, json};

use crate::documents::{lost, parse, root};
use crate::typed::round_trip;

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

/// The example of an OVNChassis names its Node without the uid that every API server demands in an owner reference.
fn with_owner_uid(mut document: Value) -> Value {
    let owners = document["metadata"].get_mut("ownerReferences").and_then(Value::as_array_mut);
    for owner in owners.into_iter().flatten() {
        owner.as_object_mut().unwrap().entry("uid").or_insert(json!("8f6c5f1e-0000-4000-8000-000000000001"));
    }
    document
}

#[test]
fn every_example_of_a_kind_of_ours_is_accepted_as_it_stands_and_loses_nothing() {
    let folder = root().join("../shared/seeds");
    let mut files: Vec<_> = std::fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("the seeds stand beside the checkout, in {}: {error}", folder.display()))
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    let mut checked = Vec::new();
    for file in files {
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        for (line, block) in blocks(&std::fs::read_to_string(&file).unwrap()) {
            for document in parse(&block) {
                let text = |field: &str| document[field].as_str().unwrap_or_default().to_owned();
                let Some(kind) = c5c3_api::find(&text("apiVersion"), &text("kind")) else { continue };
                let label = format!("{name}:{line} {} {}", text("kind"), document["metadata"]["name"]);
                let document = with_owner_uid(document.clone());
                let problems = kind.check(&document, None);
                assert!(problems.is_empty(), "{label}:\n{problems}");
                assert_eq!(lost(&document, &round_trip(&document), ""), [""; 0], "{label}");
                println!("{label}");
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
}
