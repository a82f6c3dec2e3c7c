//! The examples: one small and one full document per kind, all of them accepted, none of them losing a field.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::Value;

use crate::documents::{lost, parse, root};
use crate::typed::round_trip;

fn examples(folder: &Path, found: &mut BTreeMap<String, Value>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            examples(&path, found);
        } else {
            let documents = parse(&std::fs::read_to_string(&path).unwrap());
            assert_eq!(documents.len(), 1, "{} holds one document", path.display());
            found.insert(path.file_stem().unwrap().to_string_lossy().into_owned(), documents[0].clone());
        }
    }
}

#[test]
fn every_kind_has_a_small_and_a_full_example_that_is_accepted_and_loses_nothing() {
    let mut found = BTreeMap::new();
    examples(&root().join("examples"), &mut found);
    for kind in c5c3_api::all() {
        let stem = kind.name().to_lowercase();
        // Those, and whatever more there is of the kind, such as what a page of the documentation starts with.
        let more = found.keys().filter_map(|name| name.strip_prefix(&format!("{stem}-"))).map(str::to_owned);
        let sizes: BTreeSet<String> = more.chain(["small".to_owned(), "full".to_owned()]).collect();
        for size in sizes {
            let name = format!("{stem}-{size}");
            let document = found.remove(&name).unwrap_or_else(|| panic!("examples/**/{name}.yaml is missing"));
            assert_eq!(document["kind"], kind.name(), "{name}");
            assert_eq!(document["apiVersion"], kind.api_version(), "{name}");
            let problems = kind.check(&document, None);
            assert!(problems.is_empty(), "{name}:\n{problems}");
            assert_eq!(lost(&document, &round_trip(&document), ""), [""; 0], "{name}");
        }
    }
    assert!(found.is_empty(), "examples of nothing: {:?}", found.keys());
}
