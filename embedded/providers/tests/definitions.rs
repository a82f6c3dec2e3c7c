//! Every slim definition held against the one that its project ships: the same names and columns, and never stricter.

use std::path::{Path, PathBuf};

use c5c3_harness::TestCluster;
use c5c3_providers::{all_definitions, definitions};
use serde_json::{Map, Value};

/// Keywords that may only be in a slim schema as the genuine one has them.
const SAME: &[&str] = &["type", "format", "default", "enum", "maxLength", "minItems", "minimum", "maximum", "pattern"];

/// The folders of the projects whose kinds are provided.
const PROJECTS: &[&str] = &[
    "cert-manager",
    "external-secrets",
    "mariadb-operator",
    "rabbitmq-cluster-operator",
    "rabbitmq-messaging-topology-operator",
    "valkey-operator",
];

/// The definition of that group and plural, as its project ships it.
fn genuine(group: &str, plural: &str) -> Value {
    let shared = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/crds");
    let files =
        PROJECTS.iter().flat_map(|project| std::fs::read_dir(shared.join(project)).expect("the CRDs are there"));
    let files = files.map(|file| file.expect("a file").path());
    let file = format!("{plural}.yaml");
    let candidates = files.filter(|path: &PathBuf| path.to_str().is_some_and(|path| path.ends_with(&file)));
    candidates
        .map(|path| {
            let text = std::fs::read_to_string(&path).expect("a CRD can be read");
            serde_saphyr::from_str::<Value>(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
        })
        .find(|crd| crd["spec"]["group"] == group && crd["spec"]["names"]["plural"] == plural)
        .unwrap_or_else(|| panic!("no project ships {plural}.{group}"))
}

fn object(value: &Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap_or_default()
}

/// Whether two values of a keyword are the same; a typed definition writes 0 as 0.0.
fn same(one: &Value, other: &Value) -> bool {
    one == other || one.as_f64().is_some_and(|number| other.as_f64() == Some(number))
}

/// Says where a slim schema asks for something that the genuine one does not.
fn stricter(path: &str, slim: &Value, genuine: &Value, found: &mut Vec<String>) {
    for keyword in SAME {
        if let Some(asked) = slim.get(keyword).filter(|asked| !genuine.get(keyword).is_some_and(|had| same(asked, had)))
        {
            found.push(format!("{path}: {keyword} is {asked}, not {:?}", genuine.get(keyword)));
        }
    }
    for field in slim["required"].as_array().into_iter().flatten() {
        if !genuine["required"].as_array().is_some_and(|required| required.contains(field)) {
            found.push(format!("{path}: {field} is not required"));
        }
    }
    for (name, slim) in object(&slim["properties"]) {
        match genuine["properties"].get(&name) {
            Some(genuine) => stricter(&format!("{path}.{name}"), &slim, genuine, found),
            None => found.push(format!("{path}.{name}: is not a field")),
        }
    }
    for inner in ["items", "additionalProperties"] {
        if let Some(slim) = slim.get(inner) {
            stricter(&format!("{path}[]"), slim, &genuine[inner], found);
        }
    }
}

#[test]
fn a_slim_definition_has_the_names_and_columns_of_the_genuine_one() {
    for slim in all_definitions() {
        let slim = serde_json::to_value(slim).expect("a definition is JSON");
        let names = &slim["spec"]["names"];
        let group = slim["spec"]["group"].as_str().expect("a group");
        let genuine = genuine(group, names["plural"].as_str().expect("a plural"));
        let sorted = |names: &Value, field: &str| {
            let mut list: Vec<String> = serde_json::from_value(names[field].clone()).unwrap_or_default();
            list.sort();
            list
        };
        let about = names["kind"].as_str().expect("a kind").to_owned();
        for field in ["kind", "listKind", "plural", "singular"] {
            assert_eq!(names[field], genuine["spec"]["names"][field], "{about}");
        }
        for field in ["shortNames", "categories"] {
            assert_eq!(sorted(names, field), sorted(&genuine["spec"]["names"], field), "{about}");
        }
        assert_eq!(slim["spec"]["scope"], genuine["spec"]["scope"], "{about}");
        let (ours, theirs) = (version(&slim, &slim), version(&genuine, &slim));
        for field in ["additionalPrinterColumns", "subresources"] {
            assert_eq!(without_prose(&ours[field]), without_prose(&theirs[field]), "{about}: {field}");
        }
    }
}

/// The version of a definition that the slim one has.
fn version(definition: &Value, slim: &Value) -> Value {
    let versions = definition["spec"]["versions"].as_array().expect("versions");
    let name = &slim["spec"]["versions"][0]["name"];
    versions.iter().find(|version| version["name"] == *name).expect("the same version").clone()
}

/// Columns without their descriptions; none at all are as good as an empty list of them.
fn without_prose(columns: &Value) -> Value {
    let mut columns = if columns.is_null() { Value::Array(Vec::new()) } else { columns.clone() };
    for column in columns.as_array_mut().into_iter().flatten() {
        column.as_object_mut().expect("a column").remove("description");
    }
    columns
}

#[test]
fn a_slim_definition_is_never_stricter_than_the_genuine_one() {
    let mut found = Vec::new();
    for slim in all_definitions() {
        let slim = serde_json::to_value(slim).expect("a definition is JSON");
        let names = &slim["spec"]["names"];
        let group = slim["spec"]["group"].as_str().expect("a group");
        let genuine = version(&genuine(group, names["plural"].as_str().expect("a plural")), &slim);
        let schema = |version: &Value| version["schema"]["openAPIV3Schema"].clone();
        let about = names["kind"].as_str().expect("a kind");
        stricter(about, &schema(&version(&slim, &slim)), &schema(&genuine), &mut found);
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[tokio::test]
async fn the_definitions_are_served_and_installing_them_again_changes_nothing() {
    let cluster = TestCluster::in_process().await.expect("a cluster");
    let client = cluster.client();
    let crds =
        kube::Api::<k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition>::all(
            client.clone(),
        );
    definitions::install(&client, &all_definitions()).await.expect("they are installed");
    let versions = async || -> Vec<_> {
        let list = crds.list(&kube::api::ListParams::default()).await.expect("a list");
        list.into_iter().map(|crd| (crd.metadata.name, crd.metadata.generation)).collect()
    };
    let before = versions().await;
    definitions::install(&client, &all_definitions()).await.expect("they are there");
    assert_eq!(versions().await, before);
}
