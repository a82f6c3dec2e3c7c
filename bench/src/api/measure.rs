//! One line of the table: what was measured, and how often, how fast or how much.

use std::time::{Duration, Instant};

/// What a row says; more of a rate is better, less of the others.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Amount {
    /// Operations a second.
    Rate(f64),
    Time(Duration),
    Bytes(u64),
}

/// A line of the table.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Row {
    pub(super) what: String,
    pub(super) amount: Amount,
    /// Half of the operations, 99 of a hundred, all of them took at most this long.
    pub(super) latency: Option<[Duration; 3]>,
}

impl Row {
    pub(super) fn time(what: &str, time: Duration) -> Self {
        Self { what: what.to_owned(), amount: Amount::Time(time), latency: None }
    }

    pub(super) fn memory(what: &str, bytes: u64) -> Self {
        Self { what: what.to_owned(), amount: Amount::Bytes(bytes), latency: None }
    }

    /// Operations that took these times, one by one, and all together from `begun` until now.
    pub(super) fn rate(what: &str, begun: Instant, times: Vec<Duration>) -> Self {
        let rate = count(times.len()) / begun.elapsed().as_secs_f64();
        Self { what: what.to_owned(), amount: Amount::Rate(rate), latency: Some(percentiles(times)) }
    }
}

/// The median, the 99th percentile, and the longest.
pub(super) fn percentiles(mut times: Vec<Duration>) -> [Duration; 3] {
    times.sort_unstable();
    let last = times.len().saturating_sub(1);
    [last / 2, last * 99 / 100, last].map(|index| times.get(index).copied().unwrap_or_default())
}

/// The resident memory of processes together; none if there are none.
pub(super) fn memory(pids: &[u32]) -> Option<u64> {
    let resident = |pid: &u32| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        line.trim().trim_end_matches(" kB").parse::<u64>().ok()
    };
    (!pids.is_empty()).then(|| pids.iter().filter_map(resident).sum::<u64>() * 1024)
}

#[allow(clippy::cast_precision_loss)]
pub(super) fn count(number: usize) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_of_the_sorted_times() {
        let times = (1..=101).rev().map(Duration::from_millis).collect();
        assert_eq!(percentiles(times), [51, 100, 101].map(Duration::from_millis));
        assert_eq!(percentiles(Vec::new()), [Duration::ZERO; 3]);
    }
}
