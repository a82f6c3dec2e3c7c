//! How many pods each ReplicaSet of a deployment should have: arithmetic only.

use std::cmp::Reverse;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use kube::ResourceExt;

use super::revisions::{DESIRED, MAXIMUM, number};
use crate::shares::{self, Round};

/// How many pods a deployment asks for.
pub(super) fn replicas(deployment: &Deployment) -> i32 {
    deployment.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1)
}

/// How many pods a ReplicaSet asks for.
pub(super) fn size(set: &ReplicaSet) -> i32 {
    set.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1)
}

/// How many pods some ReplicaSets ask for together.
pub(super) fn sizes<'s>(sets: impl IntoIterator<Item = &'s ReplicaSet>) -> i32 {
    sets.into_iter().map(size).sum()
}

/// How many pods of a ReplicaSet are available.
pub(super) fn available(set: &ReplicaSet) -> i32 {
    set.status.as_ref().and_then(|status| status.available_replicas).unwrap_or(0)
}

/// Whether all old pods go before the first new one comes.
pub(super) fn recreates(deployment: &Deployment) -> bool {
    let strategy = deployment.spec.as_ref().and_then(|spec| spec.strategy.as_ref());
    strategy.and_then(|strategy| strategy.type_.as_deref()) == Some("Recreate")
}

/// How many pods there may be beyond those asked for, and how many of those may be missing. Not both can be none: nothing
/// would ever move.
fn leeway(deployment: &Deployment) -> (i32, i32) {
    if recreates(deployment) {
        return (0, 0);
    }
    let strategy = deployment.spec.as_ref().and_then(|spec| spec.strategy.as_ref());
    let rolling = strategy.and_then(|strategy| strategy.rolling_update.as_ref());
    let total = replicas(deployment);
    let surge = shares::of(rolling.and_then(|rolling| rolling.max_surge.as_ref()), total, Round::Up);
    let unavailable = shares::of(rolling.and_then(|rolling| rolling.max_unavailable.as_ref()), total, Round::Down);
    if surge == 0 && unavailable == 0 { (0, 1) } else { (surge, unavailable) }
}

/// How many pods there may be beyond those asked for.
pub(super) fn max_surge(deployment: &Deployment) -> i32 {
    leeway(deployment).0
}

/// How many of the pods asked for may be missing.
pub(super) fn max_unavailable(deployment: &Deployment) -> i32 {
    leeway(deployment).1.min(replicas(deployment))
}

/// How large the new ReplicaSet should be now, beside old ones of `others` pods together.
pub(super) fn new_size(deployment: &Deployment, current: i32, others: i32) -> i32 {
    let wanted = replicas(deployment);
    if recreates(deployment) || current > wanted {
        return wanted;
    }
    let room = wanted + max_surge(deployment) - current - others;
    if room <= 0 { current } else { current + room.min(wanted - current) }
}

/// How large the old ReplicaSets should be now, in their order. Pods that are not available go first: they are no loss.
pub(super) fn old_sizes(deployment: &Deployment, new: &ReplicaSet, old: &[ReplicaSet]) -> Vec<i32> {
    let mut sizes: Vec<i32> = old.iter().map(size).collect();
    let least = replicas(deployment) - max_unavailable(deployment);
    let mut surplus = size(new) + sizes.iter().sum::<i32>() - least - (size(new) - available(new));
    if sizes.iter().sum::<i32>() == 0 || surplus <= 0 {
        return sizes;
    }
    for (size, set) in sizes.iter_mut().zip(old) {
        let ailing = (*size - available(set)).clamp(0, surplus);
        *size -= ailing;
        surplus -= ailing;
    }
    let mut spare = available(new) + old.iter().map(available).sum::<i32>() - least;
    for size in &mut sizes {
        let taken = (*size).min(spare).max(0);
        *size -= taken;
        spare -= taken;
    }
    sizes
}

/// How large each ReplicaSet should be when a deployment is resized in the middle of a rollout: the change is shared out
/// in proportion, and what rounding leaves goes to the largest.
pub(super) fn proportions(deployment: &Deployment, sets: &[ReplicaSet], reported: i32) -> Vec<(String, i32)> {
    let wanted = replicas(deployment);
    let allowed = if wanted > 0 { wanted + max_surge(deployment) } else { 0 };
    let to_add = allowed - sizes(sets);
    let mut sorted: Vec<&ReplicaSet> = sets.iter().collect();
    let age = |set: &ReplicaSet| set.creation_timestamp().map(|time| time.0);
    if to_add > 0 {
        sorted.sort_by_key(|set| (Reverse(size(set)), Reverse(age(set))));
    } else {
        sorted.sort_by_key(|set| (Reverse(size(set)), age(set)));
    }
    let mut added = 0;
    let mut shared: Vec<(String, i32)> = Vec::new();
    for set in sorted {
        let left = to_add - added;
        let fair = if size(set) == 0 || left == 0 { 0 } else { fraction(deployment, set, reported) };
        let share = if to_add > 0 { fair.min(left) } else { fair.max(left) };
        added += share;
        shared.push((set.name_any(), size(set) + share));
    }
    if let Some((_, largest)) = shared.first_mut() {
        *largest = (*largest + to_add - added).max(0);
    }
    shared
}

/// By how much a ReplicaSet grows with its deployment.
fn fraction(deployment: &Deployment, set: &ReplicaSet, reported: i32) -> i32 {
    let wanted = replicas(deployment);
    if wanted == 0 {
        return -size(set);
    }
    let before = number(set, MAXIMUM).filter(|maximum| *maximum > 0).unwrap_or(reported);
    if before == 0 {
        return 0;
    }
    let grown = f64::from(size(set)) * f64::from(wanted + max_surge(deployment)) / f64::from(before);
    #[allow(clippy::cast_possible_truncation)] // A cast of a float saturates.
    let rounded = grown.round() as i32;
    rounded - size(set)
}

/// Whether a deployment was resized since its ReplicaSets were: one that has pods was made for another size.
pub(super) fn is_resized(deployment: &Deployment, sets: &[ReplicaSet]) -> bool {
    let mut active = sets.iter().filter(|set| size(set) > 0);
    active.any(|set| number(set, DESIRED).is_some_and(|desired| desired != replicas(deployment)))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn deployment(replicas: i32, surge: &Value, unavailable: &Value) -> Deployment {
        serde_json::from_value(json!({"spec": {"replicas": replicas, "selector": {}, "template": {},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}}}))
        .unwrap()
    }

    fn set(name: &str, size: i32, available: i32, maximum: Option<i32>) -> ReplicaSet {
        let annotations = maximum.map(|maximum| json!({MAXIMUM: maximum.to_string()}));
        serde_json::from_value(json!({
            "metadata": {"name": name, "annotations": annotations}, "spec": {"replicas": size, "selector": {}},
            "status": {"replicas": size, "availableReplicas": available},
        }))
        .unwrap()
    }

    #[test]
    fn something_can_always_move() {
        for (replicas, surge, unavailable, expected) in [
            (10, json!("25%"), json!("25%"), (3, 2)),
            (1, json!("25%"), json!("25%"), (1, 0)),
            (1, json!(0), json!("25%"), (0, 1)),
            (0, json!(0), json!(3), (0, 0)),
            (2, json!(1), json!(5), (1, 2)),
        ] {
            let deployment = deployment(replicas, &surge, &unavailable);
            assert_eq!((max_surge(&deployment), max_unavailable(&deployment)), expected, "{deployment:?}");
        }
    }

    #[test]
    fn the_new_set_grows_into_the_room_that_there_is() {
        let rolling = deployment(10, &json!(3), &json!(2));
        for (current, others, expected) in [(0, 10, 3), (0, 8, 5), (5, 8, 5), (5, 0, 10), (12, 0, 10), (0, 0, 10)] {
            assert_eq!(new_size(&rolling, current, others), expected, "{current} beside {others}");
        }
        let mut recreating = rolling;
        recreating.spec.as_mut().unwrap().strategy.as_mut().unwrap().type_ = Some("Recreate".into());
        assert_eq!(new_size(&recreating, 0, 10), 10);
    }

    #[test]
    fn old_sets_shrink_as_far_as_availability_allows_and_lose_the_ailing_first() {
        let rolling = deployment(10, &json!(3), &json!(2));
        for (new, old, expected) in [
            // As many as may be missing.
            (set("new", 3, 0, None), vec![set("a", 10, 10, None)], vec![8]),
            // Those that are ready in the new one may go in the old one.
            (set("new", 5, 3, None), vec![set("a", 8, 8, None)], vec![5]),
            // What is not available is cleaned up, from the oldest on.
            (set("new", 3, 0, None), vec![set("a", 4, 1, None), set("b", 6, 6, None)], vec![2, 6]),
            // Nothing to spare.
            (set("new", 5, 0, None), vec![set("a", 8, 8, None)], vec![8]),
            (set("new", 10, 10, None), vec![set("a", 3, 3, None), set("b", 0, 0, None)], vec![0, 0]),
        ] {
            assert_eq!(old_sizes(&rolling, &new, &old), expected, "{} beside {old:?}", size(&new));
        }
    }

    #[test]
    fn a_resize_in_the_middle_of_a_rollout_is_shared_out() {
        // Upstream's own example: from 10 with a surge of 3, 8 old and 5 new, to 30.
        let sets = [set("old", 8, 8, Some(13)), set("new", 5, 0, Some(13))];
        let resized = |replicas| {
            let mut sizes = proportions(&deployment(replicas, &json!(3), &json!(2)), &sets, 13);
            sizes.sort();
            sizes.into_iter().map(|(_, size)| size).collect::<Vec<_>>()
        };
        assert_eq!(resized(30), [13, 20]);
        assert_eq!(resized(10), [5, 8]);
        assert_eq!(resized(3), [2, 4]);
        assert_eq!(resized(0), [0, 0]);
    }
}
