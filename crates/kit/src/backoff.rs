//! How long to wait after a failure: twice as long each time, up to a limit, with jitter so that objects that failed
//! together do not come back together.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Mutex;
use std::time::Duration;

/// Failures in a row, object by object.
#[derive(Debug)]
pub struct Backoff<T> {
    first: Duration,
    limit: Duration,
    failures: Mutex<HashMap<T, u32>>,
}

impl<T: Eq + Hash + Clone> Backoff<T> {
    /// Starts at `first` and doubles up to `limit`.
    pub fn new(first: Duration, limit: Duration) -> Self {
        Self { first, limit, failures: Mutex::default() }
    }

    /// Counts a failure. Says how long to wait, between half and all of the doubled time, and whether it is a repetition.
    pub fn failed(&self, object: &T) -> (Duration, bool) {
        let mut failures = self.failures.lock().expect("no one panics with the lock");
        let count = failures.entry(object.clone()).or_default();
        let full = self.first.saturating_mul(2u32.saturating_pow(*count)).min(self.limit);
        *count = count.saturating_add(1);
        (full.mul_f64(rand::random_range(0.5..=1.0)), *count > 1)
    }

    /// Forgets the failures of an object that succeeded or is gone.
    pub fn reset(&self, object: &T) {
        self.failures.lock().expect("no one panics with the lock").remove(object);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_with_jitter_up_to_the_limit_and_start_over_after_success() {
        let backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(2));
        for full in [100, 200, 400, 800, 1600, 2000, 2000] {
            let delay = backoff.failed(&"pear").0.as_millis();
            assert!((full / 2..=full).contains(&delay), "{delay} of {full}");
        }
        backoff.reset(&"pear");
        let (delay, repeated) = backoff.failed(&"pear");
        assert!(delay <= Duration::from_millis(100) && !repeated);
    }
}
