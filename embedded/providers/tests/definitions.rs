//! Every slim definition held against its contract and the one that its project ships: the same names and columns, and never stricter.

use c5c3_contracts::{Contract, Genuine, compared_with_genuine, without_prose};
use c5c3_harness::TestCluster;
use c5c3_providers::{all_definitions, definitions};
use serde_json::{Map, Value};

/// Keywords that may only be in a slim schema as the genuine one has them.
const SAME: &[&str] = &["type", "format", "default", "enum", "maxLength", "minItems", "minimum", "maximum", "pattern"];

/// Every slim definition beside the definitions of the same kind: by its contract and, if at hand, as its project ships it.
fn pairs() -> Vec<(Value, Value)> {
    let mut pairs = Vec::new();
    for slim in all_definitions() {
        let slim = serde_json::to_value(slim).expect("a definition is JSON");
        if c5c3_contracts::record(&slim) {
            continue;
        }
        let text = |value: &Value| value.as_str().expect("a name").to_owned();
        let (group, plural) = (text(&slim["spec"]["group"]), text(&slim["spec"]["names"]["plural"]));
        let contract = Contract::find(&group, &plural).unwrap_or_else(|| panic!("{plural}.{group} has no contract"));
        pairs.push((slim.clone(), contract.definition()));
        pairs.extend(Genuine::find(&group, &plural).map(|genuine| (slim, genuine.definition)));
    }
    compared_with_genuine("whether slim definitions ask for more than those of other projects");
    pairs
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
    for (slim, genuine) in pairs() {
        let names = &slim["spec"]["names"];
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
        let columns = |version: &Value| without_prose(&version["additionalPrinterColumns"]);
        assert_eq!(columns(&ours), columns(&theirs), "{about}");
        assert_eq!(object(&ours["subresources"]), object(&theirs["subresources"]), "{about}");
    }
}

/// The version of a definition that the slim one has.
fn version(definition: &Value, slim: &Value) -> Value {
    let versions = definition["spec"]["versions"].as_array().expect("versions");
    let name = &slim["spec"]["versions"][0]["name"];
    versions.iter().find(|version| version["name"] == *name).expect("the same version").clone()
}

#[test]
fn a_slim_definition_is_never_stricter_than_the_genuine_one() {
    let mut found = Vec::new();
    for (slim, genuine) in pairs() {
        let names = &slim["spec"]["names"];
        let genuine = version(&genuine, &slim);
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
