//! Nothing panics: random values against random schemas, from a generator with fixed seeds.

use c5c3_schema::{Schema, lint};
use serde_json::{Map, Value, json};

/// A small xorshift generator: the tests must fail the same way every time.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        let i = self.roll(from.len() as u64);
        &from[usize::try_from(i).expect("an index is small")]
    }

    fn chance(&mut self, one_in: u64) -> bool {
        self.roll(one_in) == 0
    }
}

const NAMES: [&str; 9] = ["a", "b", "name", "in", "x-y", "__", "metadata", "kind", "ü"];
const TEXTS: [&str; 10] = ["", "a", "10Gi", "1h", "2026-01-31T00:00:00Z", "ä💖", "10.0.0.1/8", "%", "aGk=", "\u{0}"];
const RULES: [&str; 12] = [
    "self == oldSelf",
    "has(self.a)",
    "self.a == self.b",
    "self.all(x, x == x)",
    "size(self) > 1",
    "self > 1",
    "self.name.startsWith('a')",
    "type(self) == string",
    "self.?a.?b.orValue(1) == 1",
    "cel.bind(x, self, x == self)",
    "self[0] == self['a']",
    "string(self) == '1' || int(self) == 1",
];
const FORMATS: [&str; 12] =
    ["uri", "hostname", "cidr", "mac", "uuid", "byte", "date", "duration", "date-time", "int32", "quantity", "isbn"];

fn value(dice: &mut Dice, depth: u64) -> Value {
    match dice.roll(if depth == 0 { 6 } else { 8 }) {
        0 => Value::Null,
        1 => json!(dice.chance(2)),
        2 => json!(dice.roll(5)),
        3 => (*dice.pick(&[json!(-1), json!(1.5), json!(u64::MAX), json!(i64::MIN), json!(1e300)])).clone(),
        4 | 5 => json!(*dice.pick(&TEXTS)),
        6 => (0..dice.roll(4)).map(|_| value(dice, depth - 1)).collect(),
        _ => object(dice, 4, |dice| value(dice, depth - 1)),
    }
}

/// Without nulls, which as part of a default would be neither valid nor stable.
fn solid(value: Value) -> Value {
    match value {
        Value::Null => json!("solid"),
        Value::Array(items) => items.into_iter().map(solid).collect(),
        Value::Object(map) => map.into_iter().map(|(key, value)| (key, solid(value))).collect(),
        other => other,
    }
}

fn object(dice: &mut Dice, most: u64, mut make: impl FnMut(&mut Dice) -> Value) -> Value {
    let mut map = Map::new();
    for _ in 0..dice.roll(most) {
        let name = *dice.pick(&NAMES);
        map.insert(name.to_owned(), make(dice));
    }
    Value::Object(map)
}

fn schema(dice: &mut Dice, depth: u64) -> Value {
    let mut map = Map::new();
    let mut set = |name: &str, value: Value| map.insert(name.to_owned(), value);
    let kind = *dice.pick(&["object", "array", "string", "integer", "number", "boolean", ""]);
    if !kind.is_empty() {
        set("type", json!(kind));
    }
    for name in [
        "minLength",
        "maxLength",
        "minItems",
        "maxItems",
        "minProperties",
        "maxProperties",
        "minimum",
        "maximum",
        "multipleOf",
    ] {
        if dice.chance(6) {
            set(name, json!(dice.roll(4)));
        }
    }
    for name in [
        "nullable",
        "x-kubernetes-int-or-string",
        "x-kubernetes-preserve-unknown-fields",
        "x-kubernetes-embedded-resource",
        "exclusiveMinimum",
    ] {
        if dice.chance(7) {
            set(name, json!(true));
        }
    }
    if dice.chance(4) {
        set("format", json!(*dice.pick(&FORMATS)));
    }
    if dice.chance(4) {
        set("default", solid(value(dice, 2)));
    }
    if dice.chance(6) {
        set("enum", json!([value(dice, 1), value(dice, 1)]));
    }
    if dice.chance(6) {
        set("pattern", json!(*dice.pick(&["^a", "[0-9]+$", r"\z"])));
    }
    if dice.chance(3) {
        set("required", json!([*dice.pick(&NAMES)]));
    }
    if dice.chance(3) {
        set("x-kubernetes-list-type", json!(*dice.pick(&["set", "map", "atomic"])));
        set("x-kubernetes-list-map-keys", json!([*dice.pick(&NAMES)]));
    }
    if dice.chance(2) {
        set("x-kubernetes-validations", json!([{"rule": *dice.pick(&RULES), "optionalOldSelf": dice.chance(3)}]));
    }
    if depth > 0 {
        let properties = object(dice, 5, |dice| schema(dice, depth - 1));
        set("properties", properties);
        set("items", schema(dice, depth - 1));
        if dice.chance(3) {
            set("additionalProperties", if dice.chance(3) { json!(true) } else { schema(dice, depth - 1) });
        }
        for name in ["allOf", "anyOf", "oneOf"] {
            if dice.chance(8) {
                set(name, json!([schema(dice, 0), schema(dice, depth - 1)]));
            }
        }
        if dice.chance(8) {
            set("not", schema(dice, 0));
        }
    }
    Value::Object(map)
}

#[test]
fn any_value_against_any_schema_gives_an_answer() {
    let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
    let mut problems = 0;
    for _ in 0..120 {
        let json = schema(&mut dice, 3);
        problems += lint(&json).len();
        let schema = Schema::compile(&json).unwrap_or_else(|error| panic!("{error}: {json}"));
        for _ in 0..10 {
            let mut object = value(&mut dice, 4);
            let old = value(&mut dice, 4);
            problems += schema.check(&object, Some(&old)).len();
            problems += schema.check(&object, Some(&object)).len();
            // What was pruned is gone, and defaulting twice is defaulting once.
            schema.prune(&mut object);
            assert_eq!(schema.unknown_fields(&object).len(), 0, "{json} {object}");
            schema.default(&mut object);
            let once = object.clone();
            schema.default(&mut object);
            assert_eq!(object, once, "{json}");
        }
    }
    assert!(problems > 1000, "only {problems} problems: the generator has become tame");
}

#[test]
fn a_mangled_schema_is_linted_and_refused_or_compiled_but_never_panics() {
    let mut dice = Dice(0x2545_f491_4f6c_dd1d);
    for _ in 0..200 {
        let mut json = schema(&mut dice, 2);
        mangle(&mut json, &mut dice);
        let found = lint(&json).len();
        let compiled = Schema::compile(&json).is_ok();
        assert!(compiled || found > 0, "refused without a word: {json}");
    }
}

/// Puts something random somewhere in a schema.
fn mangle(schema: &mut Value, dice: &mut Dice) {
    if let Value::Object(map) = schema
        && !map.is_empty()
        && !dice.chance(4)
    {
        let keys: Vec<String> = map.keys().cloned().collect();
        let key = dice.pick(&keys).clone();
        mangle(&mut map[&key], dice);
    } else {
        *schema = value(dice, 2);
    }
}

#[test]
fn any_text_as_a_rule_is_parsed_or_refused() {
    let pieces = [
        "self", ".", "a", "(", ")", "[", "]", "{", "}", "?", ":", "&&", "'", "1", "-", "has", "all", ",", "x", " ",
        "==", "\\", "ü", "in",
    ];
    let mut dice = Dice(0x1234_5678_9abc_def1);
    for _ in 0..600 {
        let rule: String = (0..=dice.roll(9)).map(|_| *dice.pick(&pieces)).collect();
        let json = json!({"type": "object", "properties": {"a": {"type": "string"}}, "x-kubernetes-validations": [{"rule": rule}]});
        lint(&json);
        if let Ok(schema) = Schema::compile(&json) {
            schema.check(&json!({"a": "x"}), None);
        }
    }
}
