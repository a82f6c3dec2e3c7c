//! Properties of apply and update over random shapes, objects and managers. Deterministic: a failure names its seed.
#![allow(clippy::unwrap_used, reason = "the small functions fail the test that calls them")]

mod fixtures;

use c5c3_fields::{
    ApplyError, Element, FieldSet, Scope, Shape, Writer, apply, merge_patch, strategic_merge_patch, track_update,
};
use serde_json::{Map, Value, json};

const ROUNDS: u64 = 300;
const STEPS: usize = 12;
const MANAGERS: [&str; 4] = ["ada", "bea", "cyd", "dot"];

/// A small generator of numbers: xorshift, seeded so that near seeds differ.
struct Chance(u64);

impl Chance {
    fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap() % bound
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }
}

fn random_schema(chance: &mut Chance, depth: usize) -> Value {
    match chance.below(if depth == 0 { 2 } else { 9 }) {
        0 => json!({"type": "integer"}),
        1 => json!({"type": "string"}),
        2 => json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}),
        3 => json!({"type": "object", "additionalProperties": random_schema(chance, depth - 1)}),
        4 => json!({"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"}),
        5 => json!({"type": "array", "items": random_schema(chance, depth - 1)}),
        6 => {
            let mut items = random_object(chance, depth - 1);
            items["properties"]["id"] = json!({"type": "string"});
            items["properties"]["zone"] = json!({"type": "string", "default": "z"});
            json!({
                "type": "array", "items": items,
                "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["id", "zone"],
            })
        }
        _ => {
            let mut object = random_object(chance, depth - 1);
            if chance.below(6) == 0 {
                object["x-kubernetes-map-type"] = json!("atomic");
            }
            object
        }
    }
}

fn random_object(chance: &mut Chance, depth: usize) -> Value {
    let names = &["a", "b", "c", "d"][..=chance.below(4)];
    let fields: Map<String, Value> =
        names.iter().map(|name| ((*name).to_owned(), random_schema(chance, depth))).collect();
    json!({"type": "object", "properties": fields})
}

fn random_value(chance: &mut Chance, schema: &Value) -> Value {
    match schema["type"].as_str().unwrap() {
        "integer" => json!(chance.below(3)),
        "string" => json!(chance.pick(&["x", "y", "z"])),
        "array" if schema["x-kubernetes-list-type"] == "set" => {
            let all = ["p", "q", "r", "s"];
            let start = chance.below(all.len());
            let count = chance.below(all.len());
            (0..count).map(|i| all[(start + i) % all.len()]).collect()
        }
        "array" if schema["x-kubernetes-list-type"] == "map" => {
            let start = chance.below(4);
            let items = (0..chance.below(4)).map(|i| {
                let mut item = random_value(chance, &schema["items"]);
                item["id"] = json!(format!("i{}", (start + i) % 4));
                item.as_object_mut().unwrap().remove("zone");
                if chance.below(2) == 0 {
                    item["zone"] = json!("z");
                }
                item
            });
            items.collect()
        }
        "array" => (0..chance.below(3)).map(|_| random_value(chance, &schema["items"])).collect(),
        _ => random_fields(chance, schema),
    }
}

fn random_fields(chance: &mut Chance, schema: &Value) -> Value {
    let free = json!({"type": "object", "additionalProperties": {"type": "integer"}});
    let declared = schema["properties"].as_object().cloned().unwrap_or_default();
    let other = if schema["additionalProperties"].is_object() { &schema["additionalProperties"] } else { &free };
    let mut fields = Map::new();
    for name in ["a", "b", "c", "d", "id", "zone"] {
        let field = match declared.get(name) {
            Some(field) => field,
            None if declared.is_empty() && name.len() == 1 => other,
            None => continue,
        };
        if chance.below(2) == 0 {
            fields.insert(name.to_owned(), random_value(chance, field));
        }
    }
    Value::Object(fields)
}

fn config(chance: &mut Chance, schema: &Value) -> Value {
    json!({
        "apiVersion": "x/v1", "kind": "X", "metadata": {"name": "x"},
        "spec": random_value(chance, &schema["properties"]["spec"]),
    })
}

fn writer(manager: &str) -> Writer<'_> {
    Writer { manager, api_version: "x/v1", subresource: "", now: fixtures::EARLY, scope: Scope::Everything }
}

/// Every owner's fields: `manager/Operation` and the set.
fn ownership(object: &Value) -> Vec<(String, FieldSet)> {
    let entries = object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    let read = |entry: &Value| {
        let name = format!("{}/{}", entry["manager"].as_str().unwrap(), entry["operation"].as_str().unwrap());
        (name, FieldSet::from_fields_v1(&entry["fieldsV1"]).unwrap())
    };
    entries.iter().map(read).collect()
}

/// What is at a path, reading keys of list-map items as the generator's schemas do.
fn value_at<'v>(object: &'v Value, path: &[Element]) -> Option<&'v Value> {
    path.iter().try_fold(object, |value, element| match element {
        Element::Field(name) => value.get(name.as_ref()),
        Element::Key(keys) => value
            .as_array()?
            .iter()
            .find(|item| keys.iter().all(|(name, key)| item.get(name.as_ref()).unwrap_or(&json!("z")) == key)),
        Element::Item(wanted) => value.as_array()?.iter().find(|item| *item == wanted.as_ref()),
        Element::Index(_) => None,
    })
}

/// Whether an owner of the field owns every list item and map entry on the way to it. Without that, the field goes when
/// whoever brought the item takes it away, here as upstream.
fn is_anchored(schema: &Value, set: &FieldSet, path: &[Element]) -> bool {
    let mut schema = schema;
    (1..path.len()).all(|n| {
        let (below, declared) = match &path[n - 1] {
            Element::Field(name) if schema["properties"][name.as_ref()].is_object() => {
                (&schema["properties"][name.as_ref()], true)
            }
            Element::Field(_) => (&schema["additionalProperties"], false),
            _ => (&schema["items"], false),
        };
        schema = below;
        declared || set.contains(&path[..n])
    })
}

/// Whether a value says what another says, which nobody empties by saying nothing.
fn holds(is: Option<&Value>, says: Option<&Value>) -> bool {
    match (is, says) {
        (Some(Value::Object(is)), Some(Value::Object(says))) => says.iter().all(|(k, v)| holds(is.get(k), Some(v))),
        (Some(Value::Array(_)), Some(Value::Array(says))) if says.is_empty() => true,
        _ => is == says,
    }
}

struct World {
    seed: u64,
    chance: Chance,
    schema: Value,
    shape: Shape,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut chance = Chance::new(seed);
        let spec = random_object(&mut chance, 3);
        let schema = json!({"type": "object", "properties": {"spec": spec}});
        let shape = Shape::compile(&schema);
        Self { seed, chance, schema, shape }
    }

    fn config(&mut self) -> Value {
        config(&mut self.chance, &self.schema)
    }

    fn updated(&mut self, live: &Value) -> Value {
        let mut new = live.clone();
        new["spec"] = self.config()["spec"].clone();
        let manager = *self.chance.pick(&MANAGERS);
        track_update(&self.shape, Some(live), new, &writer(manager))
    }

    /// An object that some managers already wrote.
    fn start(&mut self) -> Value {
        let config = self.config();
        let mut live = apply(&self.shape, None, &config, &writer("ada"), false).unwrap();
        live["metadata"]["uid"] = json!("1");
        live
    }
}

fn worlds(test: impl Fn(&mut World)) {
    for seed in 1..=ROUNDS {
        test(&mut World::new(seed));
    }
}

#[test]
fn applying_twice_is_applying_once() {
    worlds(|world| {
        let mut live = world.start();
        for _ in 0..STEPS {
            let config = world.config();
            let manager = *world.chance.pick(&MANAGERS);
            let once = apply(&world.shape, Some(&live), &config, &writer(manager), true).unwrap();
            let again = Writer { now: fixtures::LATER, ..writer(manager) };
            for force in [true, false] {
                let twice = apply(&world.shape, Some(&once), &config, &again, force).unwrap();
                assert_eq!(twice.to_string(), once.to_string(), "seed {}", world.seed);
            }
            live = if world.chance.below(3) == 0 { world.updated(&once) } else { once };
        }
    });
}

#[test]
fn an_apply_holds_what_it_says_and_its_manager_owns_it() {
    worlds(|world| {
        let mut live = world.start();
        for _ in 0..STEPS {
            let config = world.config();
            let manager = *world.chance.pick(&MANAGERS);
            live = apply(&world.shape, Some(&live), &config, &writer(manager), true).unwrap();
            let alone = apply(&world.shape, None, &config, &writer(manager), true).unwrap();
            let said = ownership(&alone).pop().map(|(_, set)| set).unwrap_or_default();
            let name = format!("{manager}/Apply");
            let owned = ownership(&live).into_iter().find(|(owner, _)| *owner == name).map(|(_, set)| set);
            assert_eq!(owned.unwrap_or_default(), said, "seed {}", world.seed);
            for path in said.leaves().paths() {
                let (is, says) = (value_at(&live, &path.0), value_at(&config, &path.0));
                assert!(holds(is, says), "seed {}: {path} is {is:?}, not {says:?}", world.seed);
            }
        }
    });
}

#[test]
fn no_owner_loses_a_field_unless_someone_says_so() {
    worlds(|world| {
        let mut live = world.start();
        for _ in 0..STEPS {
            let config = world.config();
            let manager = *world.chance.pick(&MANAGERS);
            let before = ownership(&live);
            match apply(&world.shape, Some(&live), &config, &writer(manager), false) {
                Ok(after) => {
                    let owners = ownership(&after);
                    for (owner, set) in before.iter().filter(|(owner, _)| *owner != format!("{manager}/Apply")) {
                        let now = owners.iter().find(|(name, _)| name == owner).map(|(_, set)| set);
                        for path in set.leaves().paths().iter().filter(|path| is_anchored(&world.schema, set, &path.0))
                        {
                            let (was, is) = (value_at(&live, &path.0), value_at(&after, &path.0));
                            assert!(is.is_some() == was.is_some(), "seed {}: {path} of {owner} is gone", world.seed);
                            let scalar = was.is_some_and(|was| !was.is_object() && !was.is_array());
                            assert!(!scalar || is == was, "seed {}: {path} of {owner} changed", world.seed);
                            let kept = now.is_some_and(|now| now.contains(&path.0));
                            assert!(kept || was.is_none(), "seed {}: {owner} lost {path}", world.seed);
                        }
                    }
                    live = after;
                }
                Err(ApplyError::Conflicts(conflicts)) => {
                    assert!(!conflicts.is_empty());
                    let others = |c: &c5c3_fields::Conflict| format!("{}/{}", c.manager, c.operation.as_str());
                    assert!(conflicts.iter().all(|c| others(c) != format!("{manager}/Apply")), "seed {}", world.seed);
                    live = world.updated(&live);
                }
                Err(other) => panic!("seed {}: {other}", world.seed),
            }
        }
    });
}

#[test]
fn nothing_is_owned_that_is_not_there_and_entries_are_canonical() {
    worlds(|world| {
        let mut live = world.start();
        for _ in 0..STEPS {
            live = if world.chance.below(2) == 0 {
                world.updated(&live)
            } else {
                let config = world.config();
                let manager = *world.chance.pick(&MANAGERS);
                apply(&world.shape, Some(&live), &config, &writer(manager), true).unwrap()
            };
            for (owner, set) in ownership(&live) {
                assert!(!set.is_empty(), "seed {}: {owner} owns nothing", world.seed);
                for path in set.paths() {
                    assert!(value_at(&live, &path.0).is_some(), "seed {}: {owner} owns absent {path}", world.seed);
                }
            }
            let untouched = track_update(&world.shape, Some(&live), live.clone(), &writer("nobody"));
            assert_eq!(untouched.to_string(), live.to_string(), "seed {}", world.seed);
        }
    });
}

#[test]
fn giving_everything_up_leaves_only_what_others_own() {
    worlds(|world| {
        let mut live = world.start();
        if ownership(&live).is_empty() {
            return;
        }
        let config = world.config();
        live = apply(&world.shape, Some(&live), &config, &writer("bea"), true).unwrap();
        let nothing = json!({"apiVersion": "x/v1", "kind": "X", "metadata": {"name": "x"}});
        for manager in ["ada", "bea"] {
            live = apply(&world.shape, Some(&live), &nothing, &writer(manager), false).unwrap();
        }
        assert_eq!(live["metadata"].get("managedFields"), None, "seed {}", world.seed);
        assert_eq!(live.get("spec"), None, "seed {}: left over: {}", world.seed, live["spec"]);
    });
}

#[test]
fn merge_patches_are_idempotent() {
    worlds(|world| {
        let (target, patch) = (world.config(), world.config());
        let once = merge_patch(&target, &patch).unwrap();
        assert_eq!(merge_patch(&once, &patch).unwrap(), once, "seed {}", world.seed);
        let once = strategic_merge_patch(&world.shape, &target, &patch).unwrap();
        assert_eq!(strategic_merge_patch(&world.shape, &once, &patch).unwrap(), once, "seed {}", world.seed);
    });
}
