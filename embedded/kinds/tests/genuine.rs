//! The genuine CRDs of the operators that we depend on, each installs, serves and is described.

use std::path::{Path, PathBuf};

use c5c3_kinds::{Resource, compiled, custom, default, find, openapi_v3, validate};
use serde_json::Value;

fn manifests(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            manifests(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "yaml") {
            found.push(path);
        }
    }
}

#[test]
fn genuine_definitions_are_valid_and_described() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/crds");
    let mut paths = Vec::new();
    manifests(&folder, &mut paths);
    assert!(!paths.is_empty(), "{} must be there", folder.display());
    let definitions = find("apiextensions.k8s.io", "v1", "customresourcedefinitions").unwrap();
    for path in paths {
        let text = std::fs::read_to_string(&path).unwrap();
        let mut object: Value = serde_saphyr::from_str(&text).unwrap();
        let schema = compiled(definitions).unwrap();
        default(definitions, &mut object);
        let unknown = schema.unknown_fields(&object);
        assert!(unknown.is_empty(), "{}: {unknown}", path.display());
        assert!(schema.validate(&object, None).is_empty(), "{}", path.display());
        let problems = validate(definitions, &object, None);
        assert!(problems.is_empty(), "{}: {problems}", path.display());
        let resources = custom(&object);
        let all: Vec<&Resource> = resources.iter().collect();
        for resource in &resources {
            assert!(openapi_v3(&all, &resource.group, &resource.version, "v1.33.0").is_some());
        }
    }
}
