//! Unknown fields, pruning and defaulting.
#![expect(clippy::needless_pass_by_value, reason = "the helpers take JSON literals")]

use c5c3_schema::{ProblemKind, Schema};
use serde_json::{Value, json};

/// A schema whose `spec` has these properties.
fn spec(properties: Value) -> Schema {
    Schema::compile(&json!({
        "type": "object",
        "properties": {"spec": {"type": "object", "properties": properties}},
    }))
    .expect("the schema compiles")
}

fn unknown(schema: &Schema, spec: Value) -> String {
    let problems = schema.unknown_fields(&json!({"spec": spec}));
    assert!(problems.iter().all(|problem| problem.kind == ProblemKind::Unknown));
    problems.sorted().to_string()
}

fn defaulted(schema: &Schema, spec: Value) -> Value {
    let mut object = json!({"spec": spec});
    schema.default(&mut object);
    object["spec"].clone()
}

#[test]
fn an_unknown_field_is_named_with_the_field_that_was_probably_meant() {
    let schema = spec(json!({
        "replicas": {"type": "integer"},
        "image": {"type": "object", "properties": {"tag": {"type": "string"}}},
    }));
    let cases = [
        (json!({"replicas": 1}), ""),
        (json!({"replcas": 1}), "spec.replcas: is not a known field; did you mean \"replicas\"?"),
        (json!({"colour": 1}), "spec.colour: is not a known field; remove it, or use one of: image, replicas"),
        (json!({"tag": "x"}), "spec.tag: is not a known field; it belongs under \"image\""),
        (json!({"image": {"a.b/c": 1}}), "spec.image[a.b/c]: is not a known field; remove it, or use one of: tag"),
    ];
    for (object, expected) in cases {
        assert_eq!(unknown(&schema, object.clone()), expected, "{object}");
    }
}

#[test]
fn too_many_known_fields_to_list_are_not_listed() {
    let many: Value = (0..9).map(|i| (format!("field{i}"), json!({"type": "string"}))).collect();
    assert_eq!(unknown(&spec(many), json!({"zzz": 1})), "spec.zzz: is not a known field; remove it");
}

#[test]
fn the_root_always_knows_type_and_object_meta_whatever_is_in_them() {
    let schema = spec(json!({}));
    let object = json!({"apiVersion": "v1", "kind": "K", "metadata": {"anything": {"goes": 1}}, "status": {}});
    assert_eq!(
        schema.unknown_fields(&object).to_string(),
        "status: is not a known field; remove it, or use one of: spec",
    );
}

#[test]
fn pruning_stops_where_unknown_fields_are_preserved_and_goes_on_below_what_is_specified() {
    let schema = spec(json!({
        "free": {
            "type": "object",
            "x-kubernetes-preserve-unknown-fields": true,
            "properties": {"strict": {"type": "object", "properties": {"known": {"type": "string"}}}},
        },
        "list": {
            "type": "array",
            "x-kubernetes-preserve-unknown-fields": true,
            "items": {"type": "object", "properties": {"in": {"type": "object"}}},
        },
    }));
    let mut object = json!({"spec": {
        "free": {"any": {"thing": 1}, "strict": {"known": "a", "other": 1}},
        "list": [{"x": 1, "in": {"y": 1}}],
        "gone": 1,
    }});
    let mut dropped = schema.prune(&mut object);
    dropped.sort();
    assert_eq!(dropped, ["spec.free.strict.other", "spec.gone", "spec.list[0].in.y"]);
    assert_eq!(
        object,
        json!({"spec": {
            "free": {"any": {"thing": 1}, "strict": {"known": "a"}},
            "list": [{"x": 1, "in": {}}],
        }}),
    );
}

#[test]
fn an_embedded_resource_knows_its_type_and_object_meta() {
    let schema = spec(json!({
        "template": {
            "type": "object",
            "x-kubernetes-embedded-resource": true,
            "properties": {"spec": {"type": "object"}},
        },
    }));
    let template = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": {}, "extra": 1});
    assert_eq!(
        unknown(&schema, json!({"template": template})),
        "spec.template.extra: is not a known field; remove it, or use one of: spec",
    );
}

#[test]
fn maps_keep_their_keys_and_prune_within_their_values() {
    let schema = spec(json!({
        "typed": {"type": "object", "additionalProperties": {"type": "object", "properties": {"a": {"type": "string"}}}},
        "loose": {"type": "object", "additionalProperties": true},
    }));
    let mut object = json!({"spec": {
        "typed": {"x/y": {"a": "1", "b": "2"}},
        "loose": {"scalar": 1, "deep": {"lost": 1}},
    }});
    let mut dropped = schema.prune(&mut object);
    dropped.sort();
    assert_eq!(dropped, ["spec.loose.deep.lost", "spec.typed[x/y].b"]);
}

#[test]
fn a_default_fills_what_is_missing_and_nothing_else() {
    let schema = spec(json!({
        "replicas": {"type": "integer", "default": 3},
        "image": {"type": "object", "default": {}, "properties": {"tag": {"type": "string", "default": "latest"}}},
        "proxy": {"type": "object", "properties": {"port": {"type": "integer", "default": 80}}},
    }));
    let cases = [
        (json!({}), json!({"replicas": 3, "image": {"tag": "latest"}})),
        (json!({"replicas": 0}), json!({"replicas": 0, "image": {"tag": "latest"}})),
        (json!({"proxy": {}}), json!({"replicas": 3, "image": {"tag": "latest"}, "proxy": {"port": 80}})),
        // A wrong type is left for validation to report.
        (json!({"image": "x"}), json!({"replicas": 3, "image": "x"})),
    ];
    for (given, expected) in cases {
        assert_eq!(defaulted(&schema, given.clone()), expected, "{given}");
    }
}

#[test]
fn a_null_that_is_not_allowed_counts_as_missing() {
    let schema = spec(json!({
        "with": {"type": "integer", "default": 1},
        "without": {"type": "integer"},
        "nullable": {"type": "integer", "nullable": true, "default": 1},
        "map": {"type": "object", "additionalProperties": {"type": "integer"}},
        "filled": {"type": "object", "additionalProperties": {"type": "integer", "default": 7}},
        "list": {"type": "array", "items": {"type": "integer"}},
        "full": {"type": "array", "items": {"type": "integer", "default": 9}},
    }));
    let given = json!({
        "with": null, "without": null, "nullable": null,
        "map": {"a": null, "b": 2}, "filled": {"a": null},
        "list": [null, 1], "full": [null, 1], "undescribed": null,
    });
    let expected = json!({
        "with": 1, "nullable": null,
        "map": {"b": 2}, "filled": {"a": 7},
        "list": [null, 1], "full": [9, 1], "undescribed": null,
    });
    assert_eq!(defaulted(&schema, given), expected);
}

#[test]
fn defaults_reach_into_lists_and_maps() {
    let port = json!({"type": "object", "properties": {"protocol": {"type": "string", "default": "TCP"}}});
    let schema = spec(json!({
        "ports": {"type": "array", "items": port},
        "named": {"type": "object", "additionalProperties": port},
    }));
    assert_eq!(
        defaulted(&schema, json!({"ports": [{}, {"protocol": "UDP"}], "named": {"a": {}}})),
        json!({"ports": [{"protocol": "TCP"}, {"protocol": "UDP"}], "named": {"a": {"protocol": "TCP"}}}),
    );
}

#[test]
fn a_check_reports_unknown_fields_and_values_together_and_leaves_the_object_alone() {
    let schema = spec(json!({
        "replicas": {"type": "integer", "minimum": 1, "default": 3},
        "name": {"type": "string"},
    }));
    let object = json!({"spec": {"nmae": "x", "replicas": 0}});
    let before = object.clone();
    assert_eq!(
        schema.check(&object, None).sorted().to_string(),
        "spec.nmae: is not a known field; did you mean \"name\"?\n\
         spec.replicas: 0 is below the minimum; use 1 or more",
    );
    assert_eq!(object, before);
}
