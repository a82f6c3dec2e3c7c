//! Patience with nodes on which the pods of a set keep failing.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::DaemonSet;
use kube::ResourceExt;

const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_mins(15);

/// The set, its generation, which changes when someone tries to make it better, and the node.
type Key = (String, i64, String);

/// When the pods of sets failed last on each node, and how long to wait from then on.
#[derive(Debug, Default)]
pub(super) struct Backoff(Mutex<HashMap<Key, (Timestamp, Duration)>>);

fn key(set: &DaemonSet, node: &str) -> Key {
    (set.uid().unwrap_or_default(), set.metadata.generation.unwrap_or(0), node.to_owned())
}

impl Backoff {
    /// How long a failed pod on a node is left as it is. Zero: not at all.
    pub(super) fn left(&self, set: &DaemonSet, node: &str, now: Timestamp) -> Duration {
        let failed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((since, wait)) = failed.get(&key(set, node)) else { return Duration::ZERO };
        wait.saturating_sub(Duration::try_from(now.duration_since(*since)).unwrap_or_default())
    }

    /// Notes that a pod failed on a node, and forgets what is long past.
    pub(super) fn failed(&self, set: &DaemonSet, node: &str, now: Timestamp) {
        let mut failed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let long_past =
            |since: Timestamp| Duration::try_from(now.duration_since(since)).unwrap_or_default() > LONGEST * 2;
        failed.retain(|_, (since, _)| !long_past(*since));
        let entry = failed.entry(key(set, node)).or_insert((now, Duration::ZERO));
        *entry = (now, (entry.1 * 2).clamp(FIRST, LONGEST));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_tried_again_later_and_later_until_the_set_is_changed() {
        let (backoff, mut set) = (Backoff::default(), DaemonSet::default());
        let start: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        assert_eq!(backoff.left(&set, "n", start), Duration::ZERO, "the first time at once");
        backoff.failed(&set, "n", start);
        assert_eq!(backoff.left(&set, "n", start), Duration::from_secs(1));
        backoff.failed(&set, "n", start);
        assert_eq!(backoff.left(&set, "n", start + Duration::from_millis(500)), Duration::from_millis(1500));
        assert_eq!(backoff.left(&set, "other", start), Duration::ZERO);
        for _ in 0..20 {
            backoff.failed(&set, "n", start);
        }
        assert_eq!(backoff.left(&set, "n", start), LONGEST);
        set.metadata.generation = Some(2);
        assert_eq!(backoff.left(&set, "n", start), Duration::ZERO);
    }
}
