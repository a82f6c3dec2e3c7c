//! How long a job waits after failures before it makes the next pod: ten seconds, doubled each time, ten minutes at most.

use std::time::Duration;

use jiff::Timestamp;

const FIRST: Duration = Duration::from_secs(10);
const LONGEST: Duration = Duration::from_mins(10);

/// The failures of a job since its last success. Kept in memory only: after a restart the next pod comes at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Failures {
    pub(super) in_a_row: u32,
    pub(super) last: Option<Timestamp>,
}

impl Failures {
    /// What they are after these pods have ended; each is when, and whether it failed.
    pub(super) fn after(self, ended: &[(Timestamp, bool)]) -> Self {
        let mut ended = ended.to_vec();
        ended.sort_unstable();
        ended.into_iter().fold(self, |before, (when, failed)| {
            if failed { Self { in_a_row: before.in_a_row + 1, last: Some(when) } } else { Self::default() }
        })
    }

    /// How long is left to wait.
    pub(super) fn remaining(self, now: Timestamp) -> Duration {
        self.last.map_or(Duration::ZERO, |last| left(self.in_a_row, last, now))
    }
}

/// What is left of the wait after so many failures, of which the last was then.
pub(super) fn left(failures: u32, last: Timestamp, now: Timestamp) -> Duration {
    let Some(doublings) = failures.checked_sub(1) else { return Duration::ZERO };
    let wait = FIRST.saturating_mul(1 << doublings.min(16)).min(LONGEST);
    let passed = Duration::try_from(now.duration_since(last)).unwrap_or(Duration::ZERO);
    wait.saturating_sub(passed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn the_wait_doubles_with_each_failure_up_to_ten_minutes() {
        let waits: Vec<u64> = (0..9).map(|failures| left(failures, at(0), at(0)).as_secs()).collect();
        assert_eq!(waits, [0, 10, 20, 40, 80, 160, 320, 600, 600]);
        assert_eq!(left(u32::MAX, at(0), at(0)), LONGEST);
        assert_eq!(left(2, at(100), at(115)).as_secs(), 5);
        assert_eq!(left(2, at(100), at(121)).as_secs(), 0);
    }

    #[test]
    fn a_success_ends_the_wait_of_the_failures_before_it() {
        let failures = Failures::default().after(&[(at(5), true), (at(1), true)]);
        assert_eq!(failures, Failures { in_a_row: 2, last: Some(at(5)) });
        assert_eq!(failures.after(&[(at(9), true), (at(7), false)]), Failures { in_a_row: 1, last: Some(at(9)) });
    }
}
