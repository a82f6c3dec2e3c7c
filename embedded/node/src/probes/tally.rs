//! When a probe's word counts: after so many equal results in a row.

/// The results of one probe.
pub(super) struct Tally {
    success_threshold: u32,
    failure_threshold: u32,
    last: Option<bool>,
    in_a_row: u32,
}

impl Tally {
    pub(super) fn new(success_threshold: Option<i32>, failure_threshold: Option<i32>) -> Self {
        let number = |value: Option<i32>, default| value.and_then(|value| u32::try_from(value).ok()).unwrap_or(default);
        Self {
            success_threshold: number(success_threshold, 1).max(1),
            failure_threshold: number(failure_threshold, 3).max(1),
            last: None,
            in_a_row: 0,
        }
    }

    /// Whether there was no result yet.
    pub(super) fn is_empty(&self) -> bool {
        self.last.is_none()
    }

    /// Counts a result; what can be said now, if anything.
    pub(super) fn count(&mut self, is_good: bool) -> Option<bool> {
        self.in_a_row = if self.last == Some(is_good) { self.in_a_row.saturating_add(1) } else { 1 };
        self.last = Some(is_good);
        let threshold = if is_good { self.success_threshold } else { self.failure_threshold };
        (self.in_a_row >= threshold).then_some(is_good)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_in_a_row_make_a_verdict() {
        let mut tally = Tally::new(Some(2), Some(3));
        let results = [true, true, false, false, true, false, false, false, false, true, true];
        let said: Vec<_> = results.into_iter().map(|result| tally.count(result)).collect();
        let (yes, no) = (Some(true), Some(false));
        assert_eq!(said, [None, yes, None, None, None, None, None, no, no, None, yes]);
    }
}
