//! Work that is to be done: each piece once, however often it is asked for, and again after a while when it failed.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

/// How long a piece of work rests after its first failure; with each further one twice as long.
const FIRST_REST: Duration = Duration::from_millis(50);
/// The longest that it rests.
const LONGEST_REST: Duration = Duration::from_mins(1);

/// Pieces of work for one worker.
#[derive(Debug)]
pub(super) struct Queue<T> {
    state: Mutex<State<T>>,
    changed: Notify,
}

#[derive(Debug)]
struct State<T> {
    /// What is to be done, by when and in the order in which it was asked for.
    order: BTreeMap<(Instant, u64), T>,
    /// Where each piece is in that order.
    due: HashMap<T, (Instant, u64)>,
    failures: HashMap<T, u32>,
    asked: u64,
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        let state = State { order: BTreeMap::new(), due: HashMap::new(), failures: HashMap::new(), asked: 0 };
        Self { state: Mutex::new(state), changed: Notify::new() }
    }
}

impl<T: Clone + Eq + Hash> Queue<T> {
    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, piece: T, when: Instant) {
        let mut state = self.state();
        state.asked += 1;
        let place = (when, state.asked);
        match state.due.get(&piece).copied() {
            Some(earlier) if earlier.0 <= when => return,
            Some(later) => drop(state.order.remove(&later)),
            None => {}
        }
        state.order.insert(place, piece.clone());
        state.due.insert(piece, place);
        drop(state);
        self.changed.notify_one();
    }

    /// Asks for a piece of work to be done now.
    pub(super) fn add(&self, piece: T) {
        self.put(piece, Instant::now());
    }

    /// Says how a piece of work went. One that failed comes again by itself.
    pub(super) fn done(&self, piece: T, succeeded: bool) {
        if succeeded {
            self.state().failures.remove(&piece);
            return;
        }
        let failures = {
            let mut state = self.state();
            let count = state.failures.entry(piece.clone()).or_default();
            *count += 1;
            *count
        };
        let rest = FIRST_REST.saturating_mul(1u32.checked_shl(failures - 1).unwrap_or(u32::MAX)).min(LONGEST_REST);
        self.put(piece, Instant::now() + rest);
    }

    /// The next piece, as soon as there is one.
    pub(super) async fn next(&self) -> T {
        loop {
            let wake = {
                let mut state = self.state();
                match state.order.first_key_value().map(|(place, _)| place.0) {
                    Some(when) if when <= Instant::now() => {
                        if let Some((_, piece)) = state.order.pop_first() {
                            state.due.remove(&piece);
                            return piece;
                        }
                        None
                    }
                    when => when,
                }
            };
            match wake {
                Some(when) => {
                    let _ = tokio::time::timeout_at(when, self.changed.notified()).await;
                }
                None => self.changed.notified().await,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn work_is_done_once_in_order_and_again_after_a_failure() {
        let queue = Queue::default();
        for piece in ["a", "b", "a"] {
            queue.add(piece);
        }
        assert_eq!((queue.next().await, queue.next().await), ("a", "b"));
        queue.done("b", true);
        let began = Instant::now();
        for failure in 0..3 {
            queue.done("a", false);
            assert_eq!(queue.next().await, "a");
            assert!(began.elapsed() >= FIRST_REST * ((1 << (failure + 1)) - 1), "it rests longer and longer");
        }
        for _ in 0..40 {
            queue.done("a", false);
        }
        queue.add("a");
        queue.add("b");
        assert_eq!((queue.next().await, queue.next().await), ("a", "b"), "who asks again does not wait");
    }
}
