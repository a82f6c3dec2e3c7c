//! The contracts themselves: each is a definition that an API server takes, and agrees with the genuine one.

use c5c3_contracts::{Contract, Genuine, Paths, compared_with_genuine, problems};
use c5c3_schema::Schema;
use serde_json::{Value, json};

#[test]
fn each_contract_is_read_as_it_is_written_and_has_a_schema_that_kubernetes_takes() {
    let contracts = Contract::all();
    assert!(contracts.len() >= 20, "only {} contracts", contracts.len());
    for contract in contracts {
        let file = contract.file();
        assert_eq!(std::fs::read_to_string(&file).expect("a file"), contract.to_text(), "{}", file.display());
        let found = c5c3_schema::lint(&contract.schema());
        assert!(found.is_empty(), "{}: {found}", file.display());
        Schema::compile(&contract.schema()).expect("a schema compiles");
    }
}

#[test]
fn no_contract_has_texts_of_other_projects() {
    for contract in Contract::all() {
        let text = contract.to_text();
        for keyword in ["description:", "validations:", "message:", "title:"] {
            let facts = text
                .lines()
                .filter(|line| line.contains(&format!("{{{keyword} \"")) || line.contains(&format!(", {keyword} \"")));
            assert_eq!(facts.collect::<Vec<_>>(), [""; 0], "{}", contract.file().display());
        }
    }
}

#[test]
fn each_contract_agrees_with_the_genuine_definition() {
    if !compared_with_genuine("whether contracts still agree with the kinds of other projects") {
        return;
    }
    let mut compared = 0;
    for contract in Contract::all() {
        let Some(genuine) = Genuine::find(&contract.group, &contract.plural) else {
            eprintln!("left out: {}.{}: the folder does not have it", contract.plural, contract.group);
            continue;
        };
        let made = Contract::made_of(&genuine.definition, &contract.version, &contract.paths());
        let made = made.unwrap_or_else(|| panic!("{} is gone", contract.version));
        let (ours, theirs) = (contract.to_text(), made.to_text());
        let changed: Vec<&str> = theirs.lines().filter(|line| !ours.lines().any(|known| known == *line)).collect();
        assert!(ours == theirs, "{}: run `make contracts`\n{}", contract.file().display(), changed.join("\n"));
        compared += 1;
    }
    eprintln!("{compared} contracts agree with the genuine definitions");
    assert!(compared > 0, "the folder has none of the kinds");
}

fn database(spec: &Value) -> Value {
    json!({"apiVersion": "k8s.mariadb.com/v1alpha1", "kind": "Database", "metadata": {"name": "heron"}, "spec": spec})
}

#[test]
fn a_field_that_a_contract_does_not_have_is_told() {
    assert_eq!(problems(&database(&json!({"mariaDbRef": {"name": "marsh"}}))), [""; 0]);
    let unknown = problems(&database(&json!({"mariaDbRef": {"name": "marsh"}, "characterset": "utf8"})));
    assert_eq!(unknown[0], "by its contract: spec.characterset: is not a known field; did you mean \"characterSet\"?");
    let missing = problems(&database(&json!({})));
    assert!(missing[0].starts_with("by its contract: spec.mariaDbRef: is missing"), "{missing:?}");
    let kind = problems(&json!({"apiVersion": "example.org/v1", "kind": "Heron", "metadata": {"name": "a"}}));
    assert!(kind[0].starts_with("example.org/v1 Heron has no contract"), "{kind:?}");
}

fn marsh() -> Value {
    let item = json!({"type": "object", "required": ["name"], "description": "no facts", "properties": {
        "name": {"type": "string"}, "wild": {"type": "boolean", "default": true}, "size": {"type": "integer"}}});
    json!({"spec": {"group": "example.org", "scope": "Namespaced",
        "names": {"kind": "Marsh", "plural": "marshes"}, "versions": [{"name": "v1", "served": true, "schema": {"openAPIV3Schema": {
        "type": "object", "properties": {"metadata": {"type": "object"}, "spec": {"type": "object", "required": ["depth"],
            "x-kubernetes-validations": [{"rule": "self.depth > 0", "message": "no facts either"}], "properties": {
            "depth": {"type": "integer", "minimum": 0}, "birds": {"type": "array", "items": item},
            "reeds": {"type": "object", "additionalProperties": {"type": "string"}}, "mud": {"type": "string", "default": "deep"}}}}}}}]}})
}

#[test]
fn a_contract_keeps_what_is_used_what_is_required_and_the_defaults_of_list_items() {
    let definition = marsh();
    let schema = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    let mut paths = Paths::default();
    paths.add_object(
        &json!({"metadata": {"name": "a"}, "spec": {"birds": [{"name": "b"}], "reeds": {"tall": "yes"}}}),
        schema,
    );
    let text = Contract::made_of(&definition, "v1", &paths).expect("a version").to_text();
    let fields: Vec<&str> = text.lines().skip_while(|line| *line != "fields:").skip(1).map(str::trim).collect();
    assert_eq!(
        fields,
        [
            ".: {type: object}",
            "spec: {required: [depth], type: object}",
            "spec.birds: {type: array}",
            "spec.birds[]: {required: [name], type: object}",
            "spec.birds[].name: {type: string}",
            "spec.birds[].wild: {default: true, type: boolean}",
            "spec.depth: {minimum: 0, type: integer}",
            "spec.reeds: {type: object}",
            "spec.reeds.*: {type: string}",
        ]
    );
}
