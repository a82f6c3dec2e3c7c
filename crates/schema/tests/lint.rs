//! What Kubernetes would say to a schema before it ever sees an object.
#![expect(clippy::needless_pass_by_value, reason = "the helpers take JSON literals")]

use c5c3_schema::{ProblemKind, Problems, lint, lint_cost, lint_structure};
use serde_json::{Value, json};

/// The schema of a resource whose `spec` is `spec`.
fn resource(spec: Value) -> Value {
    json!({
        "type": "object",
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": spec,
        },
    })
}

/// The problems below `spec`, with the path from there.
fn of_spec(lint: fn(&Value) -> Problems, spec: &Value) -> Vec<String> {
    lint(&resource(spec.clone()))
        .iter()
        .map(|problem| problem.to_string().replacen("properties.spec.", "", 1))
        .collect()
}

fn check(cases: &[(Value, &[&str])]) {
    for (spec, expected) in cases {
        let found = of_spec(lint_structure, spec);
        assert_eq!(found.len(), expected.len(), "{spec}: {found:#?}");
        for (found, expected) in found.iter().zip(*expected) {
            assert!(found.starts_with(expected), "{spec}: {found:?} should start with {expected:?}");
        }
    }
}

fn string() -> Value {
    json!({"type": "string", "maxLength": 10})
}

#[test]
fn a_sound_schema_has_nothing_to_object_to() {
    let schema = resource(json!({
        "type": "object",
        "required": ["name"],
        "properties": {
            "name": {"type": "string", "maxLength": 63, "pattern": "^[a-z]+$"},
            "port": {"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]},
            "size": {
                "x-kubernetes-int-or-string": true,
                "allOf": [{"anyOf": [{"type": "integer"}, {"type": "string"}]}, {"pattern": "^1"}],
            },
            "mode": {"type": "string", "enum": ["a", "b"], "default": "a"},
            "any": {"x-kubernetes-preserve-unknown-fields": true},
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
            "cells": {
                "type": "array", "maxItems": 10,
                "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                "items": {
                    "type": "object", "required": ["name"],
                    "properties": {"name": string(), "host": string()},
                    "x-kubernetes-validations": [{"rule": "self.name == oldSelf.name && self.host.startsWith('a')"}],
                },
            },
        },
        "oneOf": [{"required": ["name"]}, {"properties": {"mode": {"enum": ["b"]}}}],
        "x-kubernetes-validations": [
            {"rule": "self.cells.all(c, !has(c.host) || c.host.contains('x'))", "message": "no; yes"},
            {"rule": "self.?name.orValue('') != 'x' && self.?name.optMap(n, n.size()).orValue(0) < 9", "fieldPath": ".name"},
            {"rule": "self.mode in ['a', 'b'] && type(self.port) == string", "reason": "FieldValueForbidden"},
            {"rule": "oldSelf.hasValue() || self.name == 'x'", "optionalOldSelf": true},
        ],
    }));
    assert_eq!(lint(&schema).to_string(), "");
}

#[test]
fn every_node_says_what_it_is() {
    check(&[
        (json!({}), &["type: is missing; say what the value is"]),
        (json!({"type": "text"}), &["type: \"text\" is not a type; use one of: array"]),
        (json!({"type": "null"}), &["type: null is not a type here; use nullable: true"]),
        (json!({"type": "array"}), &["items: is missing; say what the items are"]),
        (json!({"type": "array", "items": {}}), &["items.type: is missing"]),
        (json!({"type": "array", "items": [{"type": "string"}]}), &["items: is a list of schemas"]),
        (json!({"type": "object", "additionalProperties": {}}), &["additionalProperties.type: is missing"]),
        (json!({"type": "object", "additionalProperties": false}), &["additionalProperties: cannot be false"]),
        (
            json!({"type": "object", "properties": {"a": string()}, "additionalProperties": string()}),
            &["additionalProperties: cannot be used together with properties; keep one of the two"],
        ),
        (
            json!({"type": "string", "x-kubernetes-int-or-string": true}),
            &["type: contradicts x-kubernetes-int-or-string"],
        ),
        (
            json!({"x-kubernetes-int-or-string": true, "x-kubernetes-preserve-unknown-fields": true}),
            &["x-kubernetes-preserve-unknown-fields: contradicts"],
        ),
        (
            json!({"type": "object", "x-kubernetes-preserve-unknown-fields": false}),
            &["x-kubernetes-preserve-unknown-fields: is false"],
        ),
        (json!({"type": "string", "pattern": "("}), &["pattern: \"(\" is not a regular expression"]),
    ]);
}

#[test]
fn keywords_that_a_crd_may_not_use_are_refused_with_what_to_use_instead() {
    check(&[
        (
            json!({"type": "array", "items": string(), "uniqueItems": true}),
            &["uniqueItems: is not supported in a CRD; use x-kubernetes-list-type: set"],
        ),
        (json!({"type": "object", "$ref": "#/x"}), &["$ref: is not supported in a CRD; write the schema out"]),
        (json!({"type": "object", "definitions": {"a": {}}}), &["definitions: is not"]),
        (json!({"type": "object", "patternProperties": {"a": {}}}), &["patternProperties: is not"]),
        (json!({"type": "string", "readOnly": true}), &["readOnly: is not"]),
        (json!({"type": "string", "deprecated": true}), &["deprecated: is not"]),
    ]);
}

#[test]
fn the_root_and_its_metadata_are_kubernetes_own() {
    let root = |schema: Value| lint_structure(&schema).to_string();
    assert!(root(json!({"type": "string"})).starts_with("type: \"string\" cannot be the root's type"));
    assert!(
        root(json!({"type": "object", "additionalProperties": {"type": "string"}}))
            .starts_with("additionalProperties: cannot be used at the root")
    );
    assert!(
        root(json!({"type": "object", "properties": {"kind": {"type": "integer"}}}))
            .starts_with("properties.kind.type: is not of type string")
    );
    let metadata = |metadata: Value| root(json!({"type": "object", "properties": {"metadata": metadata}}));
    assert_eq!(metadata(json!({"type": "object", "properties": {"name": string()}})), "");
    assert!(
        metadata(json!({"type": "object", "properties": {"labels": {"type": "object"}}}))
            .starts_with("properties.metadata: restricts more")
    );
    assert!(
        metadata(json!({"type": "object", "required": ["name"]})).starts_with("properties.metadata: restricts more")
    );
    let defaulted = json!({"type": "object", "properties": {"name": {"type": "string", "default": "x"}}});
    assert!(metadata(defaulted).starts_with("properties.metadata.properties.name.default: cannot be set"));
}

#[test]
fn an_embedded_resource_is_a_whole_object() {
    check(&[
        (
            json!({"x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true}),
            &["type: is missing; set it to object"],
        ),
        (json!({"type": "object", "x-kubernetes-embedded-resource": true}), &["properties: are missing"]),
        (
            json!({"type": "object", "x-kubernetes-embedded-resource": true, "properties": {"metadata": {"type": "string"}}}),
            &["properties.metadata.type: is not of type object"],
        ),
    ]);
}

#[test]
fn a_junctor_restricts_values_and_adds_no_fields() {
    check(&[
        (
            json!({"type": "object", "anyOf": [{"type": "object", "description": "x", "nullable": true}]}),
            &["anyOf[0].type: cannot stand inside", "anyOf[0].description: cannot", "anyOf[0].nullable: cannot"],
        ),
        (
            json!({"type": "object", "not": {"properties": {"a": {"default": 1}}}}),
            &["not.properties.a: restricts a field that the schema does not have", "not.properties.a.default: cannot"],
        ),
        (
            json!({"type": "object", "allOf": [{"x-kubernetes-validations": [{"rule": "true"}]}]}),
            &["allOf[0].x-kubernetes-validations: cannot stand inside"],
        ),
        (
            json!({"type": "array", "items": {"type": "object"}, "oneOf": [{"items": {"properties": {"a": {}}}}]}),
            &["oneOf[0].items.properties.a: restricts a field"],
        ),
    ]);
}

#[test]
fn the_keys_of_a_list_map_are_fields_that_every_item_has() {
    let list = |keys: Value, items: Value| json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": keys, "items": items});
    let item = json!({"type": "object", "required": ["a"], "properties": {
        "a": string(), "free": string(), "object": {"type": "object"},
    }});
    check(&[
        (list(json!(["a"]), item.clone()), &[]),
        (list(json!([]), item.clone()), &["x-kubernetes-list-map-keys: is missing"]),
        (list(json!(["b"]), item.clone()), &["x-kubernetes-list-map-keys: \"b\" is not a field of the items"]),
        (list(json!(["a", "a"]), item.clone()), &["x-kubernetes-list-map-keys: names \"a\" twice"]),
        (list(json!(["free"]), item.clone()), &["items.properties.free.default: is missing for a key"]),
        (
            list(json!(["a", "object"]), item.clone()),
            &["items.properties.object.type: a key must be", "items.properties.object.default: is missing"],
        ),
        (list(json!(["a"]), string()), &["items.type: items of a map list are not of type object"]),
        (
            json!({"type": "array", "items": item, "x-kubernetes-list-map-keys": ["a"]}),
            &["x-kubernetes-list-type: is not map"],
        ),
        (
            json!({"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "set"}),
            &["items.x-kubernetes-map-type: items of a set"],
        ),
        (
            json!({"type": "array", "items": string(), "x-kubernetes-list-type": "bag"}),
            &["x-kubernetes-list-type: \"bag\" is not supported"],
        ),
        (json!({"type": "object", "x-kubernetes-list-type": "set"}), &["x-kubernetes-list-type: needs type array"]),
        (json!({"type": "string", "x-kubernetes-map-type": "atomic"}), &["x-kubernetes-map-type: needs type object"]),
    ]);
}

#[test]
fn a_default_is_valid_and_has_no_unknown_fields() {
    check(&[
        (
            json!({"type": "integer", "default": "x"}),
            &["default: the default \"x\" is not valid: \"x\" is a string, not an integer"],
        ),
        (
            json!({"type": "string", "enum": ["a"], "default": "b"}),
            &["default: the default \"b\" is not valid: \"b\" is not supported"],
        ),
        (
            json!({"type": "object", "default": {"a": 1}}),
            &["default.a: the default an object is not valid: is not a known field"],
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "array", "items": string()}}, "default": {"a": [1]}}),
            &["default.a[0]: the default an object is not valid: 1 is a number, not a string"],
        ),
        (
            json!({"type": "integer", "default": 1, "x-kubernetes-validations": [{"rule": "self > 1", "message": "small"}]}),
            &["default: the default 1 is not valid: small"],
        ),
    ]);
}

#[test]
fn rules_are_written_so_that_they_can_run() {
    let object = |rule: Value| json!({"type": "object", "properties": {"name": string(), "in": string()}, "x-kubernetes-validations": [rule]});
    let rule = |text: &str| object(json!({"rule": text, "message": "m"}));
    check(&[
        (object(json!({"message": "m"})), &["x-kubernetes-validations[0].rule: is missing"]),
        (object(json!({"rule": "true", "message": " "})), &["x-kubernetes-validations[0].message: is blank"]),
        (
            object(json!({"rule": "true", "message": "a\nb"})),
            &["x-kubernetes-validations[0].message: has a line break"],
        ),
        (
            object(json!({"rule": "true\n|| false"})),
            &["x-kubernetes-validations[0].message: is missing for a rule of several lines"],
        ),
        (
            object(json!({"rule": "true", "reason": "Because"})),
            &["x-kubernetes-validations[0].reason: \"Because\" is not supported"],
        ),
        (
            object(json!({"rule": "true", "fieldPath": ".nope"})),
            &["x-kubernetes-validations[0].fieldPath: \".nope\" does not lead"],
        ),
        (
            object(json!({"rule": "true", "optionalOldSelf": true})),
            &["x-kubernetes-validations[0].optionalOldSelf: is set"],
        ),
        (
            object(json!({"rule": "true", "messageExpression": "'a' +"})),
            &["x-kubernetes-validations[0].messageExpression: does not compile"],
        ),
        (rule("self.name =="), &["x-kubernetes-validations[0].rule: does not compile"]),
        (rule("a.B{c: 1} == 1"), &["x-kubernetes-validations[0].rule: does not compile: messages such as"]),
        (
            rule("self.nmae == ''"),
            &["x-kubernetes-validations[0].rule: undefined field 'nmae'; did you mean \"name\"?"],
        ),
        (rule("has(self.other)"), &["x-kubernetes-validations[0].rule: undefined field 'other'"]),
        (rule("self.?other.hasValue()"), &["x-kubernetes-validations[0].rule: undefined field 'other'"]),
        (rule("self.__in__ == ''"), &[]),
        (rule("snake_case(self.name)"), &["x-kubernetes-validations[0].rule: undeclared reference to 'snake_case'"]),
        (
            rule("object.name == ''"),
            &["x-kubernetes-validations[0].rule: undeclared reference to 'object'; use self or oldSelf"],
        ),
        (rule("nonsense(self.name)"), &["x-kubernetes-validations[0].rule: undeclared reference to 'nonsense'"]),
        (rule("['b', 'a'].sortBy(x, x)[0] == 'a' && ['a'].all(i, v, v == self.name)"), &[]),
        (rule("['a'].all(x, x != self.name) && ['a'].map(y, y + 'b').size() == 1"), &[]),
    ]);
}

#[test]
fn a_rule_at_the_root_sees_of_metadata_the_names_only() {
    let mut schema = resource(json!({"type": "object"}));
    schema["x-kubernetes-validations"] =
        json!([{"rule": "self.metadata.name != '' && self.metadata.labels.size() > 0"}]);
    assert!(lint_structure(&schema).to_string().contains("undefined field 'labels'"));
}

#[test]
fn a_transition_rule_needs_entries_with_an_identity() {
    let immutable = json!({"type": "string", "x-kubernetes-validations": [{"rule": "self == oldSelf"}]});
    let refused = "items.x-kubernetes-validations[0].rule: oldSelf cannot be used below \"properties.spec\"";
    check(&[
        (json!({"type": "array", "items": immutable}), &[refused]),
        (json!({"type": "array", "x-kubernetes-list-type": "set", "items": immutable}), &[refused]),
        (json!({"type": "object", "additionalProperties": immutable}), &[]),
        (
            json!({"type": "object", "x-kubernetes-map-type": "atomic", "properties": {"a": immutable}}),
            &["properties.a.x-kubernetes-validations[0].rule: oldSelf cannot be used"],
        ),
    ]);
}

#[test]
fn a_rule_that_costs_too_much_says_what_to_bound() {
    let with = |rule: &str, field: Value| json!({"type": "object", "properties": {"x": field}, "x-kubernetes-validations": [{"rule": rule}]});
    let text = || json!({"type": "string"});
    let matched = |length: u64| json!({"type": "string", "maxLength": length, "x-kubernetes-validations": [{"rule": "self.matches('^[a-z]+$')"}]});
    let texts = |items: u64| json!({"type": "array", "maxItems": items, "items": text()});
    let numbers = || json!({"type": "array", "items": {"type": "integer"}});
    let cases: &[(Value, &[&str])] = &[
        (with("self.x != 'a' && self.x.matches('^[a-z]+$')", text()), &[]),
        (with("self.x.all(s, s != '')", json!({"type": "array", "items": text()})), &[]),
        (
            with("self.x.all(n, n > 0 && n < 10)", numbers()),
            &["is estimated to cost 11010044, more than 10000000; \
            add maxItems to \"properties.spec.properties.x\""],
        ),
        (
            with(
                "self.x.all(n, n > 0 && n < 10)",
                json!({"type": "array", "maxItems": 1000, "items": {"type": "integer"}}),
            ),
            &[],
        ),
        (
            with("self.x.all(s, s.contains('a'))", texts(100)),
            &[
                "is estimated to cost 31457703, more than 10000000; add maxLength to \"properties.spec.properties.x.items\"",
            ],
        ),
        (json!({"type": "array", "maxItems": 1000, "items": matched(63)}), &[]),
        (
            json!({"type": "array", "items": matched(63)}),
            &[
                "is estimated to cost 55574528 (53 for each of 1048576), more than 10000000; add maxItems to \"properties.spec\"",
            ],
        ),
        (
            json!({"type": "object", "additionalProperties": {"type": "array", "maxItems": 5, "items": matched(63)}}),
            &[
                "is estimated to cost 55574528 (53 for each of 1048576), more than 10000000; add maxProperties to \"properties.spec\"",
            ],
        ),
        (
            with("'<' + string(self.x) + '>' == ''", json!({"type": "integer"})),
            &["is estimated to cost 3689348814741910"],
        ),
        // What filter() leaves has forgotten where it came from, and with that how long its texts are.
        (
            with(
                "self.x.filter(c, has(c.host)).all(c, c.host.contains('x'))",
                json!({"type": "array", "maxItems": 5, "items": {"type": "object", "properties": {"host": string()}}}),
            ),
            &[
                "is estimated to cost 9223372036854776429, more than 10000000; what functions, optionals and filter() give",
            ],
        ),
    ];
    for (spec, expected) in cases {
        // Too much for one is too much for all, which is reported at the root.
        let problems = lint_cost(&resource(spec.clone()));
        let problems: Vec<_> = problems.iter().filter(|problem| !problem.path.is_empty()).collect();
        assert_eq!(problems.len(), expected.len(), "{spec}: {problems:?}");
        for (problem, expected) in problems.iter().zip(*expected) {
            assert_eq!(problem.kind, ProblemKind::Forbidden);
            assert!(problem.message().starts_with(expected), "{spec}: {problem}");
        }
    }
}

#[test]
fn a_message_is_paid_for_once_and_rules_are_paid_for_together() {
    let message = json!({"rule": "self.size() > 1", "messageExpression": "self + ' is short'"});
    let item = json!({"type": "string", "x-kubernetes-validations": [message]});
    assert_eq!(lint_cost(&resource(json!({"type": "array", "maxItems": 1000, "items": item}))).to_string(), "");
    let rules: Vec<Value> = vec![json!({"rule": "self.all(n, n > 0)"}); 13];
    let spec = json!({"type": "array", "items": {"type": "integer"}, "x-kubernetes-validations": rules});
    let problems = lint_cost(&resource(spec));
    assert_eq!(problems.len(), 1, "{problems}");
    let expected = "all rules together are estimated to cost 102236121, more than 100000000; make the dearest cheaper: \
        properties.spec.x-kubernetes-validations[0].rule (7864317), ";
    assert!(problems.to_string().starts_with(expected), "{problems}");
}
