//! Patches: none panics, and one that is taken leaves nothing to do for itself.
#![no_main]

#[path = "../../tests/world/mod.rs"]
mod world;

use libfuzzer_sys::fuzz_target;
use world::chance::Chance;
use world::{World, properties};

fuzz_target!(|data: &[u8]| {
    let world = || World::new("these bytes", Chance::bytes(data));
    properties::hostile_patches_are_refused_or_taken(&mut world());
    properties::merge_patches_are_idempotent(&mut world());
});
