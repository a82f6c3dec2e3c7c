//! Random shapes, objects and managers, and what must be true in all of them: for tests, which seed them, and for fuzzers,
//! which look for bytes that break something.
#![allow(clippy::unwrap_used, reason = "the small functions fail the test that calls them")]
#![allow(dead_code, unreachable_pub, reason = "tests and fuzzers each use their part of it")]

pub mod chance;
mod generate;
mod owners;
pub mod properties;

use c5c3_fields::{Scope, Shape, Writer, apply, track_update};
use serde_json::{Value, json};

use chance::Chance;

pub const EARLY: &str = "2026-01-31T12:00:00Z";
pub const LATER: &str = "2026-01-31T13:00:00Z";
const STEPS: usize = 12;
const MANAGERS: [&str; 4] = ["ada", "bea", "cyd", "dot"];

fn writer(manager: &str) -> Writer<'_> {
    Writer { manager, api_version: "x/v1", subresource: "", now: EARLY, scope: Scope::Everything }
}

/// A schema, and what decides about everything else.
pub struct World {
    /// What to say of a world in which something is not true.
    seed: String,
    chance: Chance,
    schema: Value,
    shape: Shape,
}

impl World {
    pub fn new(seed: impl Into<String>, mut chance: Chance) -> Self {
        let spec = generate::random_object(&mut chance, 3);
        let schema = json!({"type": "object", "properties": {"spec": spec}});
        let shape = Shape::compile(&schema);
        Self { seed: seed.into(), chance, schema, shape }
    }

    fn config(&mut self) -> Value {
        generate::config(&mut self.chance, &self.schema)
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
