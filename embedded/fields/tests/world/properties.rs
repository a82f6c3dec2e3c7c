//! What is true of every apply, update and patch, in whatever world.

use c5c3_fields::{ApplyError, Conflict, Writer, apply, json_patch, merge_patch, strategic_merge_patch, track_update};
use serde_json::json;

use super::generate::{anything, operations};
use super::owners::{holds, is_anchored, ownership, value_at};
use super::{LATER, MANAGERS, STEPS, World, writer};

/// Applying twice is applying once.
pub fn applying_twice_is_applying_once(world: &mut World) {
    let mut live = world.start();
    for _ in 0..STEPS {
        let config = world.config();
        let manager = *world.chance.pick(&MANAGERS);
        let once = apply(&world.shape, Some(&live), &config, &writer(manager), true).unwrap();
        let again = Writer { now: LATER, ..writer(manager) };
        for force in [true, false] {
            let twice = apply(&world.shape, Some(&once), &config, &again, force).unwrap();
            assert_eq!(twice.to_string(), once.to_string(), "seed {}", world.seed);
        }
        live = if world.chance.below(3) == 0 { world.updated(&once) } else { once };
    }
}

/// An apply holds what it says, and its manager owns it.
pub fn an_apply_holds_what_it_says_and_its_manager_owns_it(world: &mut World) {
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
}

/// No owner loses a field silently.
pub fn no_owner_loses_a_field_unless_someone_says_so(world: &mut World) {
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
                    for path in set.leaves().paths().iter().filter(|path| is_anchored(&world.schema, set, &path.0)) {
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
                let others = |c: &Conflict| format!("{}/{}", c.manager, c.operation.as_str());
                assert!(conflicts.iter().all(|c| others(c) != format!("{manager}/Apply")), "seed {}", world.seed);
                live = world.updated(&live);
            }
            Err(other) => panic!("seed {}: {other}", world.seed),
        }
    }
}

/// Nothing is owned that is not there, and entries are canonical.
pub fn nothing_is_owned_that_is_not_there_and_entries_are_canonical(world: &mut World) {
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
}

/// What is given up goes, and what others own stays.
pub fn giving_everything_up_leaves_only_what_others_own(world: &mut World) {
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
}

/// Merge patches that fit are idempotent.
pub fn merge_patches_are_idempotent(world: &mut World) {
    let (target, patch) = (world.config(), world.config());
    let once = merge_patch(&target, &patch).unwrap();
    assert_eq!(merge_patch(&once, &patch).unwrap(), once, "seed {}", world.seed);
    let once = strategic_merge_patch(&world.shape, &target, &patch).unwrap();
    assert_eq!(strategic_merge_patch(&world.shape, &once, &patch).unwrap(), once, "seed {}", world.seed);
}

/// No patch panics, whatever is in it, and one that is taken leaves nothing to do for itself.
pub fn hostile_patches_are_refused_or_taken(world: &mut World) {
    let live = world.start();
    for _ in 0..STEPS {
        let patch = anything(&mut world.chance, 5);
        if let Ok(once) = merge_patch(&live, &patch) {
            assert_eq!(merge_patch(&once, &patch).as_ref(), Ok(&once), "{}: {patch}", world.seed);
        }
        if let Ok(once) = strategic_merge_patch(&world.shape, &live, &patch) {
            let twice = strategic_merge_patch(&world.shape, &once, &patch);
            assert!(
                twice.is_err() || twice.as_ref() == Ok(&once),
                "{}: {patch} once {once}, twice {twice:?}",
                world.seed
            );
        }
        let _ = json_patch(&live, &operations(&mut world.chance));
        let _ = json_patch(&live, &patch);
        let _ = apply(&world.shape, Some(&live), &patch, &writer(MANAGERS[1]), world.chance.below(2) == 0);
        let _ = apply(&world.shape, None, &patch, &writer(MANAGERS[1]), false);
        let mut entries = live.clone();
        entries["metadata"]["managedFields"] = patch;
        let config = world.config();
        let _ = apply(&world.shape, Some(&entries), &config, &writer(MANAGERS[0]), true);
        let _ = track_update(&world.shape, Some(&live), entries, &writer(MANAGERS[2]));
    }
}
