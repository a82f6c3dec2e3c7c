//! Our kinds and those of the operators that c5c3 depends on: objects of every kind apply, twice, by two managers.
#![allow(clippy::unwrap_used, reason = "the readers fail the test that calls them")]

mod fixtures;

use c5c3_contracts::definitions;
use c5c3_fields::{Scope, Shape, Writer, apply, track_update};
use fixtures::{EARLY, LATER, owned, owners, stored};
use serde_json::{Map, Value, json};

/// The schema of every version of every definition, with a name for messages.
fn schemas() -> Vec<(String, Value)> {
    let crds = definitions("whether objects of all genuine kinds apply", true).into_iter().map(|(_, crd)| crd);
    crds.flat_map(|crd| {
        let kind = crd["spec"]["names"]["kind"].as_str().unwrap().to_owned();
        let versions = crd["spec"]["versions"].as_array().unwrap().clone();
        versions
            .into_iter()
            .map(move |version| (format!("{kind} {}", version["name"]), version["schema"]["openAPIV3Schema"].clone()))
    })
    .collect()
}

/// A value with every field that a schema declares, each list with one item.
fn sample(schema: &Value, text: &str) -> Value {
    if schema["x-kubernetes-int-or-string"] == true {
        return json!(7);
    }
    match schema["type"].as_str() {
        Some("object") => {
            let declared = schema["properties"].as_object().into_iter().flatten();
            let mut fields: Map<String, Value> =
                declared.map(|(name, schema)| (name.clone(), sample(schema, text))).collect();
            if fields.is_empty() {
                fields.insert(text.to_owned(), sample(&schema["additionalProperties"], text));
            }
            Value::Object(fields)
        }
        Some("array") => json!([sample(&schema["items"], text)]),
        Some("integer" | "number") => json!(1),
        Some("boolean") => json!(true),
        _ => json!(text),
    }
}

fn object(schema: &Value, text: &str) -> Value {
    let mut object = json!({"apiVersion": "x/v1", "kind": "X", "metadata": {"name": "x", "labels": {text: "yes"}}});
    object["spec"] = sample(&schema["properties"]["spec"], text);
    object
}

#[test]
fn two_managers_apply_objects_of_every_kind_and_a_second_apply_changes_nothing() {
    let schemas = schemas();
    assert!(schemas.len() > 50, "only {} schemas", schemas.len());
    let writer = |manager, now| Writer {
        manager,
        api_version: "x/v1",
        subresource: "",
        now,
        scope: Scope::Without(&["status"]),
    };
    for (name, schema) in schemas.iter().filter(|(_, schema)| !schema["properties"]["spec"].is_null()) {
        let shape = Shape::compile(schema);
        let config = object(schema, "one");
        let live =
            apply(&shape, None, &config, &writer("one", EARLY), false).unwrap_or_else(|why| panic!("{name}: {why}"));
        let live = stored(live);
        let again = apply(&shape, Some(&live), &config, &writer("one", LATER), false).unwrap();
        assert_eq!(again.to_string(), live.to_string(), "{name}");

        let both = apply(&shape, Some(&live), &config, &writer("two", LATER), false).unwrap();
        assert_eq!(owners(&both), ["one/Apply", "two/Apply"], "{name}");
        assert_eq!(owned(&both, "one"), owned(&both, "two"), "{name}");

        let nothing = json!({"apiVersion": "x/v1", "kind": "X", "metadata": {"name": "x"}});
        let left = apply(&shape, Some(&both), &nothing, &writer("one", LATER), false).unwrap();
        assert_eq!((&left["spec"], owners(&left)), (&config["spec"], vec!["two/Apply".to_owned()]), "{name}");

        let edited = track_update(&shape, Some(&left), object(schema, "two"), &writer("kubectl-edit", LATER));
        assert!(owned(&edited, "kubectl-edit").contains(".metadata.labels.two"), "{name}");
    }
}
