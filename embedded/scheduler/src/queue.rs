//! The pods that have no node: whose turn it is, who waits for a change, who waits a while.
//!
//! A pod that fits nowhere is tried again when something changes that could help, not before; and the more often it was
//! tried in vain, the longer others go before it. When no one else is there it need not wait for that, unless it is the API
//! that failed.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::hints::{Change, may_help};
use crate::model::pod::Pod;
use crate::reason::Rule;

/// How long a pod waits after its first try in vain; twice as long after each further one.
const SHORTEST: Duration = Duration::from_secs(1);
/// How long it waits at most.
const LONGEST: Duration = Duration::from_secs(10);

/// Highest priority first, then who came first.
type Rank = (Reverse<i32>, u64);

/// The pods that have no node.
#[derive(Default)]
pub struct Queue {
    entries: HashMap<String, Entry>,
    /// Those whose turn it is.
    ready: BTreeSet<(Rank, String)>,
    /// Those who wait a while, by when that is over.
    later: BTreeSet<(Instant, String)>,
    came: u64,
}

struct Entry {
    pod: Arc<Pod>,
    came: u64,
    tries: u32,
    state: State,
}

enum State {
    /// Someone holds it back.
    Gated,
    Ready,
    Later {
        until: Instant,
        /// Whether it must wait even when no one else is there.
        in_any_case: bool,
    },
    /// A decision on it is being carried out.
    Busy,
    /// It waits for a change.
    Waiting {
        rules: BTreeSet<Rule>,
        since: Instant,
        /// Whether it is still being told; a late word must not follow on a binding.
        is_being_told: bool,
        /// Whether something has changed meanwhile.
        is_due: bool,
    },
}

impl Entry {
    fn rank(&self) -> Rank {
        (Reverse(self.pod.wants.priority), self.came)
    }
}

impl Queue {
    /// Notes a pod without a node as it is now. One that wants something else than before is tried again.
    pub fn upsert(&mut self, pod: Arc<Pod>) {
        let uid = pod.uid.clone();
        let Some(mut entry) = self.take_out(&uid) else {
            self.came += 1;
            let state = if pod.wants.is_gated { State::Gated } else { State::Ready };
            return self.put_in(uid, Entry { pod, came: self.came, tries: 0, state });
        };
        let wants_else = entry.pod.wants != pod.wants;
        entry.pod = pod;
        entry.state = match entry.state {
            State::Busy => State::Busy,
            _ if entry.pod.wants.is_gated => State::Gated,
            State::Gated => State::Ready,
            State::Waiting { rules, since, is_being_told: true, is_due } => {
                State::Waiting { rules, since, is_being_told: true, is_due: is_due || wants_else }
            }
            _ if wants_else => State::Ready,
            state => state,
        };
        self.put_in(uid, entry);
    }

    /// Forgets a pod.
    pub fn remove(&mut self, uid: &str) -> Option<Arc<Pod>> {
        self.take_out(uid).map(|entry| entry.pod)
    }

    /// The pod whose turn it is. It is busy until someone says what has become of it.
    pub fn pop(&mut self, now: Instant) -> Option<Arc<Pod>> {
        self.promote(now);
        let uid = self.ready.first().map(|(_, uid)| uid.clone()).or_else(|| self.impatient())?;
        let mut entry = self.take_out(&uid)?;
        entry.tries += 1;
        entry.state = State::Busy;
        let pod = entry.pod.clone();
        self.put_in(uid, entry);
        Some(pod)
    }

    /// Whether it is someone's turn.
    pub fn has_next(&mut self, now: Instant) -> bool {
        self.promote(now);
        !self.ready.is_empty() || self.impatient().is_some()
    }

    /// When it will be someone's turn though nothing changes.
    pub fn next_turn(&self) -> Option<Instant> {
        self.later.first().map(|(until, _)| *until)
    }

    /// The pod fits nowhere, and is being told so.
    pub fn wait(&mut self, uid: &str, rules: BTreeSet<Rule>, now: Instant) {
        self.set(uid, |_| State::Waiting { rules, since: now, is_being_told: true, is_due: false });
    }

    /// The pod has been told, or could not be: then it is told at its next try.
    pub fn told(&mut self, uid: &str, is_told: bool) {
        let Some(mut entry) = self.take_out(uid) else { return };
        if let State::Waiting { since, is_being_told, is_due, .. } = &mut entry.state {
            *is_being_told = false;
            if *is_due || !is_told {
                entry.state = State::Later { until: *since + pause(entry.tries), in_any_case: !is_told };
            }
        }
        self.put_in(uid.to_owned(), entry);
    }

    /// What was decided could not be carried out.
    pub fn failed(&mut self, uid: &str, now: Instant) {
        self.set(uid, |tries| State::Later { until: now + pause(tries), in_any_case: true });
    }

    /// Something has changed: whoever may be helped by it is tried again.
    pub fn changed(&mut self, change: &Change) {
        let may_be_helped = |(uid, entry): (&String, &Entry)| match &entry.state {
            State::Waiting { rules, is_due: false, .. } if may_help(change, &entry.pod, rules) => Some(uid.clone()),
            _ => None,
        };
        let helped: Vec<String> = self.entries.iter().filter_map(may_be_helped).collect();
        for uid in helped {
            let Some(mut entry) = self.take_out(&uid) else { continue };
            if let State::Waiting { since, is_being_told, is_due, .. } = &mut entry.state {
                *is_due = true;
                if !*is_being_told {
                    entry.state = State::Later { until: *since + pause(entry.tries), in_any_case: false };
                }
            }
            self.put_in(uid, entry);
        }
    }

    fn set(&mut self, uid: &str, state: impl FnOnce(u32) -> State) {
        if let Some(mut entry) = self.take_out(uid) {
            entry.state = state(entry.tries);
            self.put_in(uid.to_owned(), entry);
        }
    }

    fn take_out(&mut self, uid: &str) -> Option<Entry> {
        let entry = self.entries.remove(uid)?;
        match entry.state {
            State::Ready => drop(self.ready.remove(&(entry.rank(), uid.to_owned()))),
            State::Later { until, .. } => drop(self.later.remove(&(until, uid.to_owned()))),
            _ => {}
        }
        Some(entry)
    }

    fn put_in(&mut self, uid: String, entry: Entry) {
        match entry.state {
            State::Ready => drop(self.ready.insert((entry.rank(), uid.clone()))),
            State::Later { until, .. } => drop(self.later.insert((until, uid.clone()))),
            _ => {}
        }
        self.entries.insert(uid, entry);
    }

    /// Gives their turn to all who have waited long enough.
    fn promote(&mut self, now: Instant) {
        while let Some((_, uid)) = self.later.first().filter(|(until, _)| *until <= now).cloned() {
            self.set(&uid, |_| State::Ready);
        }
    }

    /// The first who waits for others only, when there are none.
    fn impatient(&self) -> Option<String> {
        let may_go = |uid: &&String| {
            matches!(self.entries.get(*uid), Some(Entry { state: State::Later { in_any_case: false, .. }, .. }))
        };
        self.later.iter().map(|(_, uid)| uid).find(may_go).cloned()
    }
}

fn pause(tries: u32) -> Duration {
    SHORTEST.saturating_mul(1 << tries.saturating_sub(1).min(10)).min(LONGEST)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::testing::{asking, pod};

    fn queue(pods: &[(&str, Value)]) -> Queue {
        let mut queue = Queue::default();
        for (name, more) in pods {
            queue.upsert(Arc::new(pod(name, more.clone())));
        }
        queue
    }

    fn next(queue: &mut Queue, now: Instant) -> Option<String> {
        queue.pop(now).map(|pod| pod.name.clone())
    }

    /// Takes the next pod, and says that it fits nowhere for want of resources.
    fn reject(queue: &mut Queue, now: Instant) -> String {
        let name = next(queue, now).expect("a pod whose turn it is");
        queue.wait(&name, BTreeSet::from([Rule::Resources]), now);
        queue.told(&name, true);
        name
    }

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn the_highest_priority_is_first_and_then_who_came_first() {
        let now = Instant::now();
        let mut queue = queue(&[
            ("first", json!({})),
            ("second", json!({})),
            ("urgent", json!({"spec": {"priority": 10}})),
            ("idle", json!({"spec": {"priority": -10}})),
        ]);
        let order: Vec<String> = std::iter::from_fn(|| next(&mut queue, now)).collect();
        assert_eq!(order, ["urgent", "first", "second", "idle"]);
    }

    #[test]
    fn a_pod_that_fits_nowhere_waits_for_a_change_that_could_help() {
        let now = Instant::now();
        let mut queue = queue(&[("large", json!({}))]);
        reject(&mut queue, now);
        assert_eq!(
            (queue.next_turn(), queue.has_next(now + seconds(3600))),
            (None, false),
            "time alone changes nothing"
        );
        queue.changed(&Change::NodeLabels);
        assert!(!queue.has_next(now), "labels do not make room");
        queue.changed(&Change::NodeGrew);
        assert_eq!(next(&mut queue, now).as_deref(), Some("large"));
    }

    #[test]
    fn who_was_tried_in_vain_lets_others_go_first_for_a_while() {
        let now = Instant::now();
        let mut queue = queue(&[("large", json!({}))]);
        reject(&mut queue, now);
        queue.upsert(Arc::new(pod("fresh", json!({}))));
        queue.changed(&Change::NodeGrew);
        assert_eq!(next(&mut queue, now).as_deref(), Some("fresh"));
        queue.failed("fresh", now);
        assert_eq!(next(&mut queue, now).as_deref(), Some("large"), "when nobody else is there, it need not wait");
    }

    #[test]
    fn a_binding_that_failed_is_tried_again_later_and_later() {
        let mut now = Instant::now();
        let mut queue = queue(&[("pod", json!({}))]);
        for pause in [1, 2, 4, 8, 10, 10] {
            next(&mut queue, now).expect("its turn");
            queue.failed("pod", now);
            assert_eq!(queue.next_turn(), Some(now + seconds(pause)));
            assert!(!queue.has_next(now));
            now += seconds(pause);
        }
    }

    #[test]
    fn a_change_while_the_pod_is_being_told_is_not_missed() {
        let now = Instant::now();
        let mut queue = queue(&[("large", json!({}))]);
        next(&mut queue, now);
        queue.wait("large", BTreeSet::from([Rule::Resources]), now);
        queue.changed(&Change::NodeGrew);
        assert!(!queue.has_next(now + seconds(60)), "the word must not follow on a binding");
        queue.told("large", true);
        assert_eq!(next(&mut queue, now).as_deref(), Some("large"));
    }

    #[test]
    fn a_pod_that_could_not_be_told_is_tried_again() {
        let now = Instant::now();
        let mut queue = queue(&[("large", json!({}))]);
        next(&mut queue, now);
        queue.wait("large", BTreeSet::from([Rule::Resources]), now);
        queue.told("large", false);
        assert_eq!(queue.next_turn(), Some(now + seconds(1)));
    }

    #[test]
    fn a_gated_pod_has_no_turn_until_its_gates_are_gone() {
        let now = Instant::now();
        let mut queue = queue(&[("held", json!({"spec": {"schedulingGates": [{"name": "example.com/quota"}]}}))]);
        assert!(!queue.has_next(now));
        queue.upsert(Arc::new(pod("held", json!({}))));
        assert_eq!(next(&mut queue, now).as_deref(), Some("held"));
    }

    #[test]
    fn a_pod_that_wants_less_is_tried_again_and_one_that_was_told_is_not() {
        let now = Instant::now();
        let large = asking(json!({"cpu": "64"}));
        let mut queue = queue(&[("large", large.clone())]);
        reject(&mut queue, now);
        let mut told = large;
        told["status"] =
            json!({"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]});
        queue.upsert(Arc::new(pod("large", told)));
        assert!(!queue.has_next(now));
        queue.upsert(Arc::new(pod("large", asking(json!({"cpu": "1"})))));
        assert_eq!(next(&mut queue, now).as_deref(), Some("large"));
    }

    #[test]
    fn who_is_gone_has_no_turn() {
        let now = Instant::now();
        let mut queue = queue(&[("pod", json!({}))]);
        queue.remove("pod");
        assert!(!queue.has_next(now));
        queue.failed("pod", now);
        assert_eq!(queue.next_turn(), None);
    }
}
