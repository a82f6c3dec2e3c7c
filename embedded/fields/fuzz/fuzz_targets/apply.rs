//! Server-side apply: idempotent, and no owner loses a field silently.
#![no_main]

#[path = "../../tests/world/mod.rs"]
mod world;

use libfuzzer_sys::fuzz_target;
use world::chance::Chance;
use world::{World, properties};

fuzz_target!(|data: &[u8]| {
    let world = || World::new("these bytes", Chance::bytes(data));
    properties::applying_twice_is_applying_once(&mut world());
    properties::no_owner_loses_a_field_unless_someone_says_so(&mut world());
    properties::an_apply_holds_what_it_says_and_its_manager_owns_it(&mut world());
    properties::nothing_is_owned_that_is_not_there_and_entries_are_canonical(&mut world());
});
