//! Our CRDs and those of the operators that we depend on: each installs, serves and is described.

use c5c3_contracts::definitions;
use c5c3_kinds::{Resource, compiled, custom, default, find, openapi_v3, validate};

#[test]
fn definitions_of_ours_and_of_other_projects_are_valid_and_described() {
    let all = definitions("whether the definitions of other projects are valid as they ship them", true);
    assert!(all.len() > 50, "only {} definitions", all.len());
    let kind = find("apiextensions.k8s.io", "v1", "customresourcedefinitions").unwrap();
    for (file, mut object) in all {
        let schema = compiled(kind).unwrap();
        default(kind, &mut object);
        let unknown = schema.unknown_fields(&object);
        assert!(unknown.is_empty(), "{}: {unknown}", file.display());
        assert!(schema.validate(&object, None).is_empty(), "{}", file.display());
        let problems = validate(kind, &object, None);
        assert!(problems.is_empty(), "{}: {problems}", file.display());
        let resources = custom(&object);
        let all: Vec<&Resource> = resources.iter().collect();
        for resource in &resources {
            assert!(openapi_v3(&all, &resource.group, &resource.version, "v1.33.0").is_some());
        }
    }
}
