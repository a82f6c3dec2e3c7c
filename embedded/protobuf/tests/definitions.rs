//! CustomResourceDefinitions as Go clients write them: schemas with any JSON in them, and messages that are one value.

mod pb;

use c5c3_protobuf::{DecodeError, decode};
use pb::{Pb, pb};
use serde_json::{Value, json};

const VERSION: &str = "apiextensions.k8s.io/v1";

/// The schema of a definition with one version.
fn read(schema: &Pb) -> Value {
    let version = pb().bytes(1, "v1").int(2, 1).int(3, 1).pb(4, &pb().pb(1, schema)).int(7, 0);
    let definition = pb().pb(2, &pb().bytes(1, "river.example").pb(7, &version));
    definition.read(VERSION, "CustomResourceDefinition")["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone()
}

/// A schema of a type, with the plain fields that Go always writes.
fn of_type(name: &str) -> Pb {
    pb().bytes(1, "").bytes(2, "").bytes(4, "").bytes(5, name).int(10, 0).int(12, 0).int(18, 0).int(37, 0).int(39, 0)
}

#[test]
fn a_definition_reads_as_the_json_that_it_stands_for() {
    let names = pb().bytes(1, "otters").bytes(2, "").bytes(3, "ot").bytes(4, "Otter").bytes(5, "");
    let column = pb().bytes(1, "Age").bytes(2, "date").bytes(3, "").bytes(4, "").int(5, 0).bytes(6, ".age");
    let scale = pb().bytes(1, ".spec.n").bytes(2, ".status.n");
    let version = pb()
        .bytes(1, "v1")
        .int(2, 1)
        .int(3, 0)
        .pb(5, &pb().pb(1, &pb()).pb(2, &scale))
        .pb(6, &column)
        .int(7, 0)
        .pb(9, &pb().bytes(1, ".spec.den"));
    let service = pb().bytes(1, "shop").bytes(2, "hook").int(4, 443);
    let client = pb().pb(1, &service).bytes(2, [0xff]);
    let conversion = pb().bytes(1, "Webhook").pb(2, &pb().pb(2, &client).bytes(3, "v1"));
    let spec = pb()
        .bytes(1, "river.example")
        .pb(3, &names)
        .bytes(4, "Namespaced")
        .pb(7, &version)
        .pb(9, &conversion)
        .int(10, 0);
    let definition = pb().pb(1, &pb().bytes(1, "otters.river.example")).pb(2, &spec).pb(3, &pb().pb(2, &names));
    let expected = json!({
        "apiVersion": VERSION, "kind": "CustomResourceDefinition", "metadata": {"name": "otters.river.example"},
        "spec": {
            "group": "river.example", "names": {"plural": "otters", "shortNames": ["ot"], "kind": "Otter"},
            "scope": "Namespaced",
            "versions": [{
                "name": "v1", "served": true, "storage": false,
                "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n"}},
                "additionalPrinterColumns": [{"name": "Age", "type": "date", "jsonPath": ".age"}],
                "selectableFields": [{"jsonPath": ".spec.den"}],
            }],
            "conversion": {"strategy": "Webhook", "webhook": {
                "clientConfig": {"service": {"namespace": "shop", "name": "hook", "port": 443}, "caBundle": "/w=="},
                "conversionReviewVersions": ["v1"],
            }},
        },
        "status": {"acceptedNames": {"plural": "otters", "shortNames": ["ot"], "kind": "Otter"}},
    });
    assert_eq!(definition.read(VERSION, "CustomResourceDefinition"), expected);
}

#[test]
fn schemas_nest_and_say_nothing_that_was_not_set() {
    let rule = pb().bytes(1, "self.weight > 0").bytes(2, "").bytes(3, "").bytes(5, ".weight").int(6, 0);
    let weight = of_type("number").double(9, 4.0).double(11, 0.5).double(19, 0.0);
    let schema = of_type("object")
        .map(29, "weight", &weight.0)
        .map(29, "tags", of_type("array").pb(24, &pb().pb(1, &of_type("string").int(14, 0))).0)
        .bytes(23, "weight")
        .int(38, 1)
        .bytes(43, "atomic")
        .pb(44, &rule);
    let expected = json!({
        "type": "object", "required": ["weight"],
        "properties": {
            "weight": {"type": "number", "maximum": 4, "minimum": 0.5, "multipleOf": 0},
            "tags": {"type": "array", "items": {"type": "string", "minLength": 0}},
        },
        "x-kubernetes-preserve-unknown-fields": true, "x-kubernetes-map-type": "atomic",
        "x-kubernetes-validations": [{"rule": "self.weight > 0", "fieldPath": ".weight", "optionalOldSelf": false}],
    });
    assert_eq!(read(&schema), expected);
}

#[test]
fn defaults_and_enums_are_any_json_and_null_stays_in_a_list() {
    let raw = |text: &str| pb().bytes(1, text);
    let schema = of_type("")
        .pb(8, &raw(r#"{"a":[1]}"#))
        .pb(20, &raw("\"x\""))
        .pb(20, &raw("2.5"))
        .pb(20, &pb())
        .pb(36, &raw("\"k8s\\u0000\""));
    let expected = json!({"default": {"a": [1]}, "enum": ["x", 2.5, null], "example": "k8s\0"});
    assert_eq!(read(&schema), expected);
}

#[test]
fn a_message_for_one_of_two_types_is_the_one_that_is_set() {
    let text = of_type("string");
    let items = |choice: &Pb| read(&of_type("array").pb(24, choice))["items"].clone();
    assert_eq!(items(&pb().pb(1, &text)), json!({"type": "string"}));
    assert_eq!(items(&pb().pb(2, &text).pb(2, &of_type("integer"))), json!([{"type": "string"}, {"type": "integer"}]));
    let additional = |choice: &Pb| read(&of_type("object").pb(30, choice))["additionalProperties"].clone();
    assert_eq!(additional(&pb().int(1, 1)), json!(true));
    assert_eq!(additional(&pb().int(1, 0)), json!(false));
    assert_eq!(additional(&pb()), json!(false));
    assert_eq!(additional(&pb().int(1, 1).pb(2, &text)), json!({"type": "string"}));
    let dependencies = |choice: &Pb| read(&of_type("object").map(32, "a", &choice.0))["dependencies"]["a"].clone();
    assert_eq!(dependencies(&pb().bytes(2, "b").bytes(2, "c")), json!(["b", "c"]));
    assert_eq!(dependencies(&pb().pb(1, &text)), json!({"type": "string"}));
}

#[test]
fn numbers_that_json_has_not_and_schemas_without_end_are_refused() {
    let refused = |schema: &Pb| {
        let version = pb().pb(4, &pb().pb(1, schema));
        let body = pb().pb(2, &pb().pb(7, &version)).body(VERSION, "CustomResourceDefinition");
        decode(&body).unwrap_err()
    };
    assert_eq!(refused(&of_type("number").double(9, f64::NAN)), DecodeError::Malformed("a number is not finite"));
    assert_eq!(refused(&of_type("number").int(9, 1)), DecodeError::WireType { field: 9, wire_type: 0 });
    let nested = (0..200).fold(of_type("string"), |inner, _| of_type("array").pb(24, &pb().pb(1, &inner)));
    assert_eq!(refused(&nested), DecodeError::TooDeep);
}
