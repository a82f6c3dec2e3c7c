//! CEL rules: what they see, when they run, and what they say.
#![expect(clippy::needless_pass_by_value, reason = "the helpers take JSON literals")]

use c5c3_schema::{ProblemKind, Problems, Schema};
use serde_json::{Value, json};

fn compile(schema: Value) -> Schema {
    Schema::compile(&schema).unwrap_or_else(|error| panic!("{error}: {schema}"))
}

/// A schema with one rule at its root and these properties.
fn ruled(rule: &str, properties: Value) -> Schema {
    compile(json!({
        "type": "object",
        "properties": properties,
        "x-kubernetes-validations": [{"rule": rule, "message": "no"}],
    }))
}

fn holds(rule: &str, properties: &Value, object: &Value) -> Result<(), Problems> {
    ruled(rule, properties.clone()).validate(object, None).into_result()
}

#[test]
fn a_message_is_split_into_what_is_wrong_and_how_to_fix_it() {
    let schema = compile(json!({
        "type": "object",
        "properties": {"a": {"type": "integer"}},
        "x-kubernetes-validations": [
            {"rule": "self.a > 1", "message": "a is too small; use 2 or more; please"},
            {"rule": "self.a > 2", "message": "plain"},
            {"rule": "self.a > 3"},
            {"rule": "self.a > 4", "messageExpression": "'a is %d; use 5'.format([self.a])", "message": "unused"},
            {"rule": "self.a > 5", "messageExpression": "'line\\nbreak'", "message": "fallback"},
            {"rule": "self.a > 6", "messageExpression": "self.missing", "message": "fallback"},
        ],
    }));
    assert_eq!(
        schema.validate(&json!({"a": 1}), None).to_string(),
        "a is too small; use 2 or more; please\n\
         plain\n\
         failed rule: self.a > 3\n\
         a is 1; use 5\n\
         fallback\n\
         fallback",
    );
    let first = schema.validate(&json!({"a": 1}), None).into_vec().remove(0);
    assert_eq!((first.what.as_str(), first.fix.as_str()), ("a is too small", "use 2 or more; please"));
}

#[test]
fn a_reason_becomes_the_kind_and_a_field_path_the_path() {
    let schema = compile(json!({"type": "object", "properties": {"spec": {
        "type": "object",
        "properties": {"a": {"type": "string"}},
        "x-kubernetes-validations": [
            {"rule": "false", "message": "m", "reason": "FieldValueRequired", "fieldPath": ".a"},
            {"rule": "false", "message": "m", "reason": "FieldValueForbidden"},
            {"rule": "false", "message": "m", "reason": "FieldValueDuplicate"},
            {"rule": "false", "message": "m"},
        ],
    }}}));
    let found: Vec<_> =
        schema.validate(&json!({"spec": {}}), None).into_iter().map(|problem| (problem.path, problem.kind)).collect();
    let expected = [
        ("spec.a", ProblemKind::Required),
        ("spec", ProblemKind::Forbidden),
        ("spec", ProblemKind::Duplicate),
        ("spec", ProblemKind::Invalid),
    ];
    assert_eq!(found, expected.map(|(path, kind)| (path.to_owned(), kind)));
}

#[test]
fn rules_see_values_as_their_schema_describes_them() {
    let properties = json!({
        "ratio": {"type": "number"},
        "count": {"type": "integer"},
        "port": {"x-kubernetes-int-or-string": true},
        "since": {"type": "string", "format": "date-time"},
        "day": {"type": "string", "format": "date"},
        "every": {"type": "string", "format": "duration"},
        "blob": {"type": "string", "format": "byte"},
        "namespace": {"type": "string"},
        "dashed-name": {"type": "string"},
        "under_score": {"type": "string"},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "optional": {"type": "string"},
        "nested": {"type": "object", "properties": {"inner": {"type": "string"}}},
        "full": {"type": "object", "properties": {"inner": {"type": "string"}, "missing": {"type": "string"}}},
    });
    let object = json!({
        "ratio": 1, "count": 2.0, "port": "http", "since": "2026-01-01T00:00:00Z", "day": "2026-01-31",
        "every": "90m", "blob": "aGVsbG8=", "namespace": "n", "dashed-name": "d", "under_score": "u",
        "labels": {"a.b/c-d": "x", "namespace": "y"}, "full": {"inner": "x"},
    });
    let rules = [
        "self.ratio < 1.5",
        "self.ratio / 2.0 == 0.5",
        "self.count == 2",
        "self.count % 2 == 0",
        "type(self.port) == string",
        "type(self.port) == int ? self.port > 0 : self.port == 'http'",
        "self.since < timestamp('2026-02-01T00:00:00Z')",
        "self.day.getMonth() == 0",
        "self.every == duration('1h30m')",
        "size(self.blob) == 5",
        "self.__namespace__ == 'n'",
        "self.dashed__dash__name == 'd'",
        "self.under_score == 'u'",
        "self.labels['a.b/c-d'] == 'x' && 'namespace' in self.labels",
        "self.labels.all(key, self.labels[key] != '')",
        "!has(self.optional) || self.optional == 'x'",
        "self.?optional.orValue('none') == 'none'",
        "!self.?optional.hasValue()",
        "self.?nested.inner.orValue('none') == 'none'",
        "self.?full.inner.orValue('none') == 'x'",
        "self.full.?inner.orValue('none') == 'x' && self.?full.?inner.value() == 'x'",
        "self.?full.?missing.orValue('none') == 'none'",
        "!has(self.?nested.inner) && has(self.?full.inner) && !has(self.?full.missing)",
        "self.labels[?'absent'].orValue('') == ''",
        "cel.bind(total, self.count + 1, total * total == 9)",
        "['a', 'b'].exists(x, cel.bind(y, x + x, y == 'bb'))",
        "self.?full.optMap(f, f.inner + 'y').orValue('none') == 'xy'",
        "self.?nested.optMap(n, n.inner).orValue('none') == 'none'",
        "self.?full.optFlatMap(f, f.?missing).orValue('none') == 'none'",
        "dyn(self.count) == 2 && bool('true')",
        "quantity('1Gi').isGreaterThan(quantity('1Mi')) && url('https://a.b:1/c').getPort() == '1'",
        "isIP('10.0.0.1') && cidr('10.0.0.0/8').containsIP('10.1.2.3')",
        "self.port.matches('^[a-z]+$') && 'a,b'.split(',').size() == 2",
        "sets.contains(['a', 'b'], ['a']) && [1, 2].sum() == 3 && math.greatest(1, 2) == 2",
    ];
    for rule in rules {
        assert_eq!(holds(rule, &properties, &object), Ok(()), "{rule}");
        let negated = format!("!({rule})");
        assert!(holds(&negated, &properties, &object).is_err(), "{negated}");
    }
}

#[test]
fn of_a_resource_rules_see_its_type_and_names_only() {
    let object =
        json!({"apiVersion": "g/v1", "kind": "K", "metadata": {"name": "n", "namespace": "s", "labels": {"a": "b"}}});
    let none = json!({});
    assert_eq!(
        holds("self.metadata.name == 'n' && self.kind == 'K' && self.apiVersion == 'g/v1'", &none, &object),
        Ok(())
    );
    assert_eq!(holds("!has(self.metadata.generateName) && !has(self.metadata.labels)", &none, &object), Ok(()));
    assert_eq!(holds("!has(self.metadata.__namespace__)", &none, &object), Ok(()));
    let embedded = json!({"template": {"type": "object", "x-kubernetes-embedded-resource": true,
        "x-kubernetes-preserve-unknown-fields": true}});
    let object = json!({"template": object});
    assert_eq!(
        holds("self.template.metadata.name == 'n' && !has(self.template.metadata.labels)", &embedded, &object),
        Ok(())
    );
}

#[test]
fn a_rule_that_cannot_be_evaluated_refuses_the_object() {
    let properties = json!({"a": {"type": "object", "properties": {"b": {"type": "string"}}}});
    let cases = [
        ("self.a.b == 'x'", "cannot be checked against the rule \"no\": no such key: b"),
        ("self.a", "cannot be checked against the rule \"no\": it is neither true nor false"),
        ("nonsense(self.a)", "cannot be checked against the rule \"no\": nonsense is not known here"),
        ("1 / 0 == 1", "cannot be checked against the rule \"no\": division by zero"),
        ("duration('soon') == duration('1s')", "cannot be checked against the rule \"no\": duration() failed"),
        ("self.a + 1 == 2", "cannot be checked against the rule \"no\": it uses a value as something that it is not"),
    ];
    for (rule, expected) in cases {
        let problems = holds(rule, &properties, &json!({"a": {}})).unwrap_err();
        assert_eq!(problems.to_string(), expected, "{rule}");
    }
}

#[test]
fn rules_wait_until_the_values_are_sound_and_skip_nulls() {
    let schema = compile(json!({"type": "object", "properties": {
        "n": {"type": "integer", "x-kubernetes-validations": [{"rule": "self > 1", "message": "small"}]},
        "nullable": {"type": "string", "nullable": true, "x-kubernetes-validations": [{"rule": "false", "message": "never"}]},
    }}));
    assert_eq!(schema.validate(&json!({"n": "x"}), None).len(), 1);
    assert_eq!(schema.validate(&json!({"n": 1, "nullable": null}), None).to_string(), "n: small");
}

#[test]
fn a_transition_rule_runs_only_when_there_is_an_old_value() {
    let schema = compile(json!({"type": "object", "properties": {
        "fixed": {"type": "string", "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "is immutable"}]},
    }}));
    let (a, b) = (json!({"fixed": "a"}), json!({"fixed": "b"}));
    assert_eq!(schema.validate(&b, None).to_string(), "");
    assert_eq!(schema.validate(&b, Some(&json!({}))).to_string(), "");
    assert_eq!(schema.validate(&a, Some(&a)).to_string(), "");
    assert_eq!(schema.validate(&b, Some(&a)).to_string(), "fixed: is immutable");
    assert_eq!(schema.validate(&json!({}), Some(&a)).to_string(), "");
}

#[test]
fn an_optional_old_self_is_there_on_create_too() {
    let schema =
        compile(json!({"type": "object", "properties": {"n": {"type": "integer", "x-kubernetes-validations": [{
            "rule": "oldSelf.hasValue() ? self >= oldSelf.value() : self == 1",
            "message": "starts at 1 and only grows",
            "optionalOldSelf": true,
        }]}}}));
    let n = |n: i64| json!({"n": n});
    assert_eq!(schema.validate(&n(1), None).len(), 0);
    assert_eq!(schema.validate(&n(2), None).len(), 1);
    assert_eq!(schema.validate(&n(3), Some(&n(2))).len(), 0);
    assert_eq!(schema.validate(&n(1), Some(&n(2))).len(), 1);
}

#[test]
fn items_of_a_list_map_are_matched_with_their_old_selves_by_key() {
    let schema = compile(json!({"type": "object", "properties": {"cells": {
        "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
        "items": {"type": "object", "properties": {
            "name": {"type": "string"},
            "size": {"type": "integer", "x-kubernetes-validations": [{"rule": "self >= oldSelf", "message": "cannot shrink"}]},
        }},
    }}}));
    let old = json!({"cells": [{"name": "a", "size": 1}, {"name": "b", "size": 9}]});
    let swapped = json!({"cells": [{"name": "b", "size": 9}, {"name": "a", "size": 1}, {"name": "new", "size": 0}]});
    let shrunk = json!({"cells": [{"name": "b", "size": 8}, {"name": "a", "size": 1}]});
    assert_eq!(schema.validate(&swapped, Some(&old)).to_string(), "");
    assert_eq!(schema.validate(&shrunk, Some(&old)).to_string(), "cells[0].size: cannot shrink");
}

#[test]
fn the_order_of_sets_and_list_maps_means_nothing_to_equality() {
    let schema = compile(json!({
        "type": "object",
        "properties": {
            "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
            "list": {"type": "array", "items": {"type": "string"}},
        },
        "x-kubernetes-validations": [
            {"rule": "self.set == oldSelf.set", "message": "set changed"},
            {"rule": "self.list == oldSelf.list", "message": "list changed"},
        ],
    }));
    let old = json!({"set": ["a", "b"], "list": ["a", "b"]});
    let check = |new: Value| schema.validate(&new, Some(&old)).to_string();
    assert_eq!(check(json!({"set": ["b", "a"], "list": ["a", "b"]})), "");
    assert_eq!(check(json!({"set": ["b", "c"], "list": ["a", "b"]})), "set changed");
    assert_eq!(check(json!({"set": ["a", "b"], "list": ["b", "a"]})), "list changed");
}

#[test]
fn what_an_atomic_list_or_map_holds_has_no_old_self() {
    let immutable =
        json!({"type": "string", "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "fixed"}]});
    let schema = compile(json!({"type": "object", "properties": {
        "list": {"type": "array", "items": immutable},
        "atomic": {"type": "object", "x-kubernetes-map-type": "atomic", "additionalProperties": immutable},
        "granular": {"type": "object", "additionalProperties": immutable},
    }}));
    let old = json!({"list": ["a"], "atomic": {"k": "a"}, "granular": {"k": "a"}});
    let new = json!({"list": ["b"], "atomic": {"k": "b"}, "granular": {"k": "b"}});
    assert_eq!(schema.validate(&new, Some(&old)).to_string(), "granular.k: fixed");
}

#[test]
fn a_rule_about_something_unchanged_is_not_held_against_an_update() {
    let schema = compile(json!({"type": "object", "properties": {
        "a": {"type": "string", "x-kubernetes-validations": [{"rule": "self != 'bad'", "message": "bad"}]},
        "b": {"type": "string"},
    }}));
    let old = json!({"a": "bad", "b": "1"});
    assert_eq!(schema.validate(&json!({"a": "bad", "b": "2"}), Some(&old)).len(), 0);
    assert_eq!(schema.validate(&json!({"a": "bad"}), Some(&json!({"a": "good"}))).len(), 1);
}

#[test]
fn defaults_are_in_place_when_rules_run_in_a_check() {
    let schema = compile(json!({
        "type": "object",
        "properties": {"mode": {"type": "string", "default": "auto"}},
        "x-kubernetes-validations": [{"rule": "self.mode == 'auto'", "message": "not auto"}],
    }));
    assert_eq!(schema.check(&json!({}), None).len(), 0);
    assert_eq!(schema.check(&json!({"mode": null}), None).len(), 0);
    assert_eq!(schema.check(&json!({"mode": "manual"}), None).len(), 1);
}

#[test]
fn a_hostile_object_is_refused_when_its_rules_cost_too_much() {
    let numbers = json!({"type": "array", "items": {"type": "integer"}});
    let rule = |rule: &str| json!([{"rule": rule, "message": "never said"}]);
    let mut one = json!({"type": "object", "properties": {"a": numbers}});
    one["x-kubernetes-validations"] = rule("self.a.all(x, self.a.all(y, self.a.all(z, x + y + z >= 0)))");
    let many: Vec<u32> = (0..1_000).collect();
    let problems = Schema::compile(&one).unwrap().validate(&json!({"a": many}), None);
    assert_eq!(
        problems.iter().map(ToString::to_string).collect::<Vec<_>>(),
        [
            "'operation cancelled: actual cost limit exceeded': no further validation rules will be run due to call cost \
          exceeds limit for rule: never said"
        ]
    );
    // No single rule is too much here, but there are many objects with one.
    let mut item = json!({"type": "object", "properties": {"a": numbers}});
    item["x-kubernetes-validations"] = rule("self.a.all(x, self.a.all(y, x + y >= 0))");
    let list = json!({"type": "object", "properties": {"list": {"type": "array", "items": item}}});
    let hundred: Vec<u32> = (0..150).collect();
    let items: Vec<_> = (0..200).map(|_| json!({"a": hundred})).collect();
    let problems = Schema::compile(&list).unwrap().validate(&json!({"list": items}), None);
    assert_eq!(problems.len(), 1, "{problems}");
    assert!(
        problems
            .to_string()
            .ends_with("validation failed due to running out of cost budget, no further validation rules will be run"),
        "{problems}"
    );
}
