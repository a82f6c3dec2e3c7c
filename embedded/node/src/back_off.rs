//! How long to wait before something that failed is tried again: 10 s, doubling to 5 min, forgotten after 10 min.

use std::collections::HashMap;
use std::time::Duration;

use jiff::Timestamp;

const FIRST: Duration = Duration::from_secs(10);
pub(crate) const LONGEST: Duration = Duration::from_mins(5);
/// A container that ran for this long starts from the beginning.
const FORGOTTEN_AFTER: Duration = Duration::from_mins(10);

/// Whether a wait goes on that ends at `until` and is not longer than `longest`. The clock may be set back while something
/// waits: a wait that seems to be longer than that was begun before, and is over.
pub(crate) fn is_ahead(until: Timestamp, now: Timestamp, longest: Duration) -> bool {
    now < until && until.duration_since(now).unsigned_abs() <= longest
}

/// The waits of several things by name.
#[derive(Debug, Clone, Default)]
pub(crate) struct BackOffs {
    of: HashMap<String, BackOff>,
}

#[derive(Debug, Clone, Copy)]
struct BackOff {
    delay: Duration,
    updated: Timestamp,
}

/// A wait: how long it is in all, and when it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Wait {
    pub(crate) delay: Duration,
    pub(crate) until: Timestamp,
}

impl BackOffs {
    /// The wait after a failure at `failed`, if it is not over. The first time there is none.
    pub(crate) fn wait(&self, name: &str, failed: Timestamp, now: Timestamp) -> Option<Wait> {
        let back_off = self.of.get(name).filter(|back_off| !back_off.is_forgotten(failed))?;
        let until = failed.checked_add(back_off.delay).unwrap_or(Timestamp::MAX);
        is_ahead(until, now, back_off.delay).then_some(Wait { delay: back_off.delay, until })
    }

    /// Something is tried again after a failure at `failed`: if that fails, too, the wait is longer.
    pub(crate) fn tried(&mut self, name: &str, failed: Timestamp, now: Timestamp) {
        let before = self.of.get(name).filter(|back_off| !back_off.is_forgotten(failed));
        let delay = before.map_or(FIRST, |back_off| (back_off.delay * 2).min(LONGEST));
        self.of.insert(name.to_owned(), BackOff { delay, updated: now });
    }

    /// It works again.
    pub(crate) fn forget(&mut self, name: &str) {
        self.of.remove(name);
    }
}

impl BackOff {
    fn is_forgotten(&self, failed: Timestamp) -> bool {
        failed.duration_since(self.updated).unsigned_abs() > FORGOTTEN_AFTER && failed > self.updated
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::testing::at;

    #[test]
    fn the_first_restart_is_immediate_and_the_waits_double_to_five_minutes() {
        let mut back_offs = BackOffs::default();
        let (mut now, mut waits) = (0, Vec::new());
        for _ in 0..8 {
            let wait = back_offs.wait("app", at(now), at(now));
            waits.push(wait.map_or(0, |wait| wait.delay.as_secs()));
            now += i64::try_from(*waits.last().unwrap()).unwrap();
            back_offs.tried("app", at(now), at(now));
        }
        assert_eq!(waits, [0, 10, 20, 40, 80, 160, 300, 300]);
    }

    #[test]
    fn a_clock_that_is_set_back_ends_a_wait_instead_of_prolonging_it() {
        let mut back_offs = BackOffs::default();
        back_offs.tried("app", at(7200), at(7200));
        assert!(back_offs.wait("app", at(7201), at(7201)).is_some());
        assert_eq!(back_offs.wait("app", at(7201), at(3601)), None);
        assert!(
            is_ahead(at(100), at(0), LONGEST)
                && !is_ahead(at(4000), at(0), LONGEST)
                && !is_ahead(at(0), at(0), LONGEST)
        );
    }

    #[test]
    fn a_wait_counts_from_the_failure_and_is_forgotten_after_ten_good_minutes() {
        let mut back_offs = BackOffs::default();
        back_offs.tried("app", at(0), at(0));
        assert_eq!(back_offs.wait("app", at(5), at(7)).map(|wait| wait.until), Some(at(15)));
        assert_eq!(back_offs.wait("app", at(5), at(15)), None);
        assert_eq!(back_offs.wait("app", at(601), at(601)), None);
        back_offs.tried("app", at(601), at(601));
        assert_eq!(back_offs.wait("app", at(602), at(602)).map(|wait| wait.delay.as_secs()), Some(10));
    }
}
