//! Value validations: each keyword, what it says, and how to put it right.

use c5c3_schema::{CompileError, ProblemKind, Schema};
use serde_json::{Value, json};

/// Validates `value` as the field `x` of an object.
fn problems(schema: &Value, value: &Value) -> String {
    let schema = Schema::compile(&json!({"type": "object", "properties": {"x": schema}})).expect("the schema compiles");
    schema.validate(&json!({"x": value}), None).to_string()
}

fn check(cases: &[(Value, Value, &str)]) {
    for (schema, value, expected) in cases {
        assert_eq!(problems(schema, value), *expected, "{schema} {value}");
    }
}

#[test]
fn a_value_of_the_wrong_type_is_told_the_right_one_and_how_to_write_it() {
    let of = |name: &str| json!({"type": name, "items": {}});
    check(&[
        (of("integer"), json!("three"), "x: \"three\" is a string, not an integer; write a number without quotes"),
        (of("integer"), json!(1.5), "x: 1.5 is a number, not an integer; write a whole number"),
        (of("integer"), json!(1.0), ""),
        (of("integer"), json!(7), ""),
        (of("number"), json!(1), ""),
        (of("number"), json!("1"), "x: \"1\" is a string, not a number; write a number without quotes"),
        (of("string"), json!(8080), "x: 8080 is a number, not a string; put it in quotes: \"8080\""),
        (of("string"), json!(true), "x: true is a boolean, not a string; put it in quotes: \"true\""),
        (of("boolean"), json!("yes"), "x: \"yes\" is a string, not a boolean; write true or false without quotes"),
        (of("array"), json!({}), "x: is an object, not a list; start each item with `- `"),
        (of("array"), json!("a"), "x: \"a\" is a string, not a list; write a list, each item after `- `"),
        (of("object"), json!([]), "x: is a list, not an object; write its fields without `- `"),
        (of("object"), json!("a"), "x: \"a\" is a string, not an object; write its fields below it, indented"),
        (of("object"), json!(null), "x: is null, not an object; give it a value or remove it"),
        (json!({"type": "string", "nullable": true}), json!(null), ""),
    ]);
}

#[test]
fn numbers_are_held_to_their_bounds() {
    check(&[
        (json!({"type": "integer", "minimum": 1}), json!(0), "x: 0 is below the minimum; use 1 or more"),
        (json!({"type": "integer", "minimum": 1}), json!(1), ""),
        (json!({"type": "integer", "maximum": 9}), json!(10), "x: 10 is above the maximum; use 9 or less"),
        (
            json!({"type": "number", "minimum": 0, "exclusiveMinimum": true}),
            json!(0),
            "x: 0 is too small; use more than 0",
        ),
        (
            json!({"type": "number", "maximum": 1, "exclusiveMaximum": true}),
            json!(1),
            "x: 1 is too large; use less than 1",
        ),
        (json!({"type": "integer", "multipleOf": 4}), json!(6), "x: 6 is not a multiple of 4; use 4 or 8"),
        (json!({"type": "number", "multipleOf": 0.1}), json!(0.3), ""),
        (
            json!({"type": "integer", "format": "int32"}),
            json!(3_000_000_000_i64),
            "x: 3000000000 does not fit into 32 bits; use a number from -2147483648 to 2147483647",
        ),
    ]);
}

#[test]
fn strings_are_counted_in_characters_and_held_to_pattern_and_format() {
    check(&[
        (json!({"type": "string", "minLength": 1}), json!(""), "x: is empty; give it a value"),
        (json!({"type": "string", "minLength": 3}), json!("äö"), "x: \"äö\" is 2 characters; use 3 or more"),
        (json!({"type": "string", "maxLength": 3}), json!("äöü"), ""),
        (json!({"type": "string", "maxLength": 1}), json!("ab"), "x: \"ab\" is 2 characters; use 1 or fewer"),
        (json!({"type": "string", "pattern": "^[a-z]+$"}), json!("x y"), "x: \"x y\" does not match ^[a-z]+$"),
        (
            json!({"type": "string", "pattern": "^[a-z]+$", "description": "Small letters only. Really."}),
            json!("X"),
            "x: \"X\" does not match ^[a-z]+$; Small letters only",
        ),
        // Unanchored, as in RE2, and Go's end-of-text anchor is known.
        (json!({"type": "string", "pattern": "b"}), json!("abc"), ""),
        (json!({"type": "string", "pattern": r"^a\z"}), json!("ab"), r#"x: "ab" does not match ^a\z"#),
        (
            json!({"type": "string", "format": "uuid"}),
            json!("no"),
            "x: \"no\" is not a UUID; write it like f81d4fae-7dec-41d0-a765-00a0c91e6bf6",
        ),
        (json!({"type": "string", "format": "nobody-checks-this"}), json!("no"), ""),
    ]);
}

#[test]
fn an_enumeration_lists_what_it_takes_and_guesses_what_was_meant() {
    let phases = json!({"type": "string", "enum": ["Pending", "Running", "Done"]});
    check(&[
        (phases.clone(), json!("Running"), ""),
        (phases.clone(), json!("Ready"), "x: \"Ready\" is not supported; use one of: Pending, Running, Done"),
        (
            phases,
            json!("pending"),
            "x: \"pending\" is not supported; did you mean \"Pending\"? use one of: Pending, Running, Done",
        ),
        (json!({"type": "string", "enum": ["", "a"]}), json!("b"), "x: \"b\" is not supported; use one of: \"\", a"),
        (json!({"type": "number", "enum": [1]}), json!(1.0), ""),
        (
            json!({"type": "string", "nullable": true, "enum": ["a"]}),
            json!(null),
            "x: null is not supported; use one of: a",
        ),
    ]);
}

#[test]
fn lists_and_objects_are_held_to_their_sizes() {
    let list = |bound: &str, n: u64| json!({"type": "array", "items": {"type": "integer"}, bound: n});
    let object = |bound: &str, n: u64| json!({"type": "object", "additionalProperties": {"type": "integer"}, bound: n});
    check(&[
        (list("minItems", 1), json!([]), "x: has 0 items; use 1 or more"),
        (list("maxItems", 1), json!([1, 2]), "x: has 2 items; use 1 or fewer"),
        (
            list("maxItems", 2),
            json!([1, "2"]),
            "x[1]: \"2\" is a string, not an integer; write a number without quotes",
        ),
        (object("minProperties", 2), json!({"a": 1}), "x: has 1 entry; use 2 or more"),
        (object("maxProperties", 1), json!({"a": 1, "b": 2}), "x: has 2 entries; use 1 or fewer"),
        (
            object("maxProperties", 1),
            json!({"a.b": ""}),
            "x[a.b]: \"\" is a string, not an integer; write a number without quotes",
        ),
    ]);
}

#[test]
fn a_required_field_that_is_missing_is_described() {
    let schema = json!({
        "type": "object",
        "required": ["plain", "described", "undeclared"],
        "properties": {
            "plain": {"type": "string"},
            "described": {"type": "string", "description": "Secret that holds the password. It must exist."},
        },
    });
    check(&[(
        schema,
        json!({}),
        "x.plain: is missing; add it\n\
         x.described: is missing; add it: Secret that holds the password\n\
         x.undeclared: is missing; add it",
    )]);
}

#[test]
fn junctors_say_which_way_out_there_is() {
    let one = json!({"type": "object", "oneOf": [{"required": ["a"]}, {"required": ["b"]}]});
    let any = json!({"type": "object", "anyOf": [{"required": ["a"]}, {"required": ["b", "c"]}]});
    let not = json!({"type": "object", "not": {"required": ["a", "b"]}});
    let all = json!({"type": "integer", "allOf": [{"minimum": 1}, {"maximum": 9}]});
    check(&[
        (one.clone(), json!({"a": 1}), ""),
        (one.clone(), json!({}), "x: fits none of the alternatives; add one of: a, b"),
        (one, json!({"a": 1, "b": 1}), "x: fits 2 alternatives at once; keep exactly one of: a, b"),
        (any.clone(), json!({"a": 1, "b": 1, "c": 1}), ""),
        (any, json!({"b": 1}), "x: fits none of the alternatives; add one of: a, b and c"),
        (not.clone(), json!({"a": 1}), ""),
        (not, json!({"a": 1, "b": 1}), "x: must not have a together with b; remove one"),
        (all.clone(), json!(5), ""),
        (all, json!(10), "x: 10 is above the maximum; use 9 or less"),
        (
            json!({"type": "integer", "anyOf": [{"maximum": 1}, {"minimum": 9}]}),
            json!(5),
            "x: 5 fits none of the alternatives; use 1 or less, or use 9 or more",
        ),
        (json!({"type": "string", "not": {"enum": ["x"]}}), json!("x"), "x: \"x\" is not allowed; change it"),
    ]);
}

#[test]
fn an_int_or_string_is_either_and_nothing_else() {
    let schema = json!({
        "x-kubernetes-int-or-string": true,
        "anyOf": [{"type": "integer"}, {"type": "string"}],
        "pattern": "^[0-9]+%?$",
    });
    check(&[
        (schema.clone(), json!(80), ""),
        (schema.clone(), json!("80%"), ""),
        (schema.clone(), json!("x"), "x: \"x\" does not match ^[0-9]+%?$"),
        (
            schema.clone(),
            json!(1.5),
            "x: 1.5 is a number, not an integer or a string; write a whole number, or text in quotes",
        ),
        (schema, json!([]), "x: is a list, not an integer or a string; write a whole number, or text in quotes"),
    ]);
}

#[test]
fn duplicates_in_sets_and_list_maps_are_found_at_the_later_item() {
    let set = json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}});
    let map = json!({
        "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["port", "protocol"],
        "items": {"type": "object", "properties": {"port": {"type": "integer"}, "protocol": {"type": "string"}}},
    });
    let nested = json!({"type": "object", "additionalProperties": set});
    check(&[
        (set.clone(), json!(["a", "b"]), ""),
        (set.clone(), json!(["a", "b", "a", "a"]), "x[2]: \"a\" is already item 0 of this set; remove one of the two"),
        (map.clone(), json!([{"port": 1}, {"port": 1, "protocol": "UDP"}]), ""),
        (
            map.clone(),
            json!([{"port": 1, "protocol": "TCP"}, {"protocol": "TCP", "port": 1}]),
            "x[1]: port 1 with protocol \"TCP\" is already that of item 0; give each item its own port and protocol",
        ),
        (
            map,
            json!([{}, {}]),
            "x[1]: has no port and no protocol, like item 0; give each item its own port and protocol",
        ),
        (nested, json!({"k": ["a", "a"]}), "x.k[1]: \"a\" is already item 0 of this set; remove one of the two"),
    ]);
}

#[test]
fn each_problem_has_the_kind_that_kubernetes_gives_it() {
    let schema = Schema::compile(&json!({
        "type": "object",
        "required": ["gone"],
        "properties": {
            "type": {"type": "string"},
            "enum": {"type": "string", "enum": ["a"]},
            "long": {"type": "string", "maxLength": 1},
            "many": {"type": "array", "items": {"type": "string"}, "maxItems": 1},
            "low": {"type": "integer", "minimum": 1},
            "set": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
        },
    }))
    .unwrap();
    let object =
        json!({"type": 1, "enum": "b", "long": "ab", "many": ["a", "b"], "low": 0, "set": ["a", "a"], "more": 1});
    let mut kinds: Vec<(String, ProblemKind)> =
        schema.check(&object, None).into_iter().map(|problem| (problem.path, problem.kind)).collect();
    kinds.sort();
    let expected = [
        ("enum", ProblemKind::NotSupported),
        ("gone", ProblemKind::Required),
        ("long", ProblemKind::TooLong),
        ("low", ProblemKind::Invalid),
        ("many", ProblemKind::TooMany),
        ("more", ProblemKind::Unknown),
        ("set[1]", ProblemKind::Duplicate),
        ("type", ProblemKind::TypeInvalid),
    ];
    assert_eq!(kinds, expected.map(|(path, kind)| (path.to_owned(), kind)));
}

#[test]
fn an_update_is_not_blamed_for_what_it_leaves_as_it_was() {
    let schema = Schema::compile(&json!({
        "type": "object",
        "properties": {
            "old": {"type": "string", "maxLength": 1},
            "new": {"type": "string", "maxLength": 1},
            "items": {
                "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                "items": {"type": "object", "properties": {"name": {"type": "string"}, "n": {"type": "integer", "minimum": 1}}},
            },
            "atomic": {"type": "array", "items": {"type": "integer", "minimum": 1}},
        },
    }))
    .unwrap();
    let old = json!({"old": "xx", "items": [{"name": "a", "n": 0}, {"name": "b", "n": 0}], "atomic": [0]});
    let new =
        json!({"old": "xx", "new": "yy", "items": [{"name": "b", "n": 0}, {"name": "c", "n": 0}], "atomic": [0, 1]});
    assert_eq!(schema.validate(&old, Some(&old)).to_string(), "");
    assert_eq!(
        schema.validate(&new, Some(&old)).sorted().to_string(),
        "atomic[0]: 0 is below the minimum; use 1 or more\n\
         items[1].n: 0 is below the minimum; use 1 or more\n\
         new: \"yy\" is 2 characters; use 1 or fewer",
    );
}

#[test]
fn a_list_that_had_duplicates_before_may_keep_them() {
    let schema = Schema::compile(&json!({"type": "object", "properties": {
        "x": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
        "y": {"type": "string"},
    }}))
    .unwrap();
    let new = json!({"x": ["a", "a"], "y": "changed"});
    assert_eq!(schema.validate(&new, Some(&json!({"x": ["a", "a"]}))).len(), 0);
    assert_eq!(schema.validate(&new, Some(&json!({"x": ["a"]}))).len(), 1);
}

#[test]
fn a_schema_that_cannot_be_applied_does_not_compile_and_says_where() {
    let error = |schema: Value| Schema::compile(&schema).unwrap_err();
    let below =
        |schema: Value| error(json!({"type": "object", "properties": {"a": {"type": "array", "items": schema}}}));
    assert!(matches!(
        below(json!({"type": "string", "pattern": "("})),
        CompileError::Pattern { at, .. } if at == "properties.a.items"
    ));
    assert!(matches!(
        below(json!({"type": "string", "x-kubernetes-validations": [{"rule": "self >"}]})),
        CompileError::Rule { at, .. } if at == "properties.a.items"
    ));
    assert!(matches!(
        below(json!({"$ref": "#/x"})),
        CompileError::NotStructural { at, .. } if at == "properties.a.items"
    ));
    assert!(matches!(error(json!([])), CompileError::NotStructural { .. }));
    assert_eq!(error(json!([])).to_string(), "the schema: must be an object");
    assert_eq!(below(json!([])).to_string(), "the schema's properties.a.items: must be an object");
    assert!(matches!(error(json!({"type": "text"})), CompileError::NotStructural { .. }));
    assert!(matches!(error(json!({"properties": []})), CompileError::NotStructural { .. }));
}

#[test]
fn a_compiled_schema_is_shared_between_threads() {
    fn assert_shared<T: Send + Sync + Clone + 'static>() {}
    assert_shared::<Schema>();
    let schema = Schema::compile(&json!({"type": "object", "x-kubernetes-validations": [{"rule": "has(self.a)"}],
        "properties": {"a": {"type": "string"}}}))
    .unwrap();
    let there = schema.clone();
    let handle = std::thread::spawn(move || there.validate(&json!({}), None).len());
    assert_eq!(handle.join().unwrap(), 1);
    assert!(schema.has_field(&["a"]) && !schema.has_field(&["b"]) && !schema.has_field(&["a", "a"]));
}
