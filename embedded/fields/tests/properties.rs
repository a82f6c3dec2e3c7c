//! Properties of apply, update and patches over random shapes, objects and managers. Deterministic: a failure names its
//! seed. The fuzz targets in `fuzz` look for more of the same.

mod world;

use world::chance::Chance;
use world::{World, properties};

const ROUNDS: u64 = 300;

fn worlds(property: impl Fn(&mut World)) {
    for seed in 1..=ROUNDS {
        property(&mut World::new(format!("seed {seed}"), Chance::seeded(seed)));
    }
}

#[test]
fn applying_twice_is_applying_once() {
    worlds(properties::applying_twice_is_applying_once);
}

#[test]
fn an_apply_holds_what_it_says_and_its_manager_owns_it() {
    worlds(properties::an_apply_holds_what_it_says_and_its_manager_owns_it);
}

#[test]
fn no_owner_loses_a_field_unless_someone_says_so() {
    worlds(properties::no_owner_loses_a_field_unless_someone_says_so);
}

#[test]
fn nothing_is_owned_that_is_not_there_and_entries_are_canonical() {
    worlds(properties::nothing_is_owned_that_is_not_there_and_entries_are_canonical);
}

#[test]
fn giving_everything_up_leaves_only_what_others_own() {
    worlds(properties::giving_everything_up_leaves_only_what_others_own);
}

#[test]
fn merge_patches_are_idempotent() {
    worlds(properties::merge_patches_are_idempotent);
}

#[test]
fn hostile_patches_are_refused_or_taken() {
    worlds(properties::hostile_patches_are_refused_or_taken);
}

#[test]
fn bytes_make_worlds_too() {
    for seed in 0..ROUNDS {
        let mut chance = Chance::seeded(seed + 1_000);
        let data: Vec<u8> = (0..chance.below(600)).map(|_| u8::try_from(chance.below(256)).unwrap_or(0)).collect();
        let mut world = World::new(format!("bytes of seed {seed}"), Chance::bytes(&data));
        properties::hostile_patches_are_refused_or_taken(&mut world);
        properties::no_owner_loses_a_field_unless_someone_says_so(&mut world);
    }
}
