//! Sets of completion indexes, and the form in which a job's status carries them: `1,3-5`.

use std::collections::BTreeSet;
use std::fmt;

/// Completion indexes of an Indexed job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Indexes(BTreeSet<i32>);

impl Indexes {
    /// Reads `1,3-5`, leaving out what is not below `limit` or is not a range at all.
    pub(super) fn parse(text: &str, limit: i32) -> Self {
        let ranges = text.split(',').filter_map(|range| {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            Some((first.trim().parse::<i32>().ok()?, last.trim().parse::<i32>().ok()?))
        });
        Self(ranges.flat_map(|(first, last)| first.max(0)..last.saturating_add(1).min(limit)).collect())
    }

    pub(super) fn len(&self) -> i32 {
        i32::try_from(self.0.len()).unwrap_or(i32::MAX)
    }

    pub(super) fn has(&self, index: i32) -> bool {
        self.0.contains(&index)
    }

    pub(super) fn insert(&mut self, index: i32) -> bool {
        self.0.insert(index)
    }

    /// How many of the others are in this set.
    pub(super) fn count_of(&self, others: &Self) -> i32 {
        i32::try_from(self.0.intersection(&others.0).count()).unwrap_or(i32::MAX)
    }
}

impl FromIterator<i32> for Indexes {
    fn from_iter<I: IntoIterator<Item = i32>>(indexes: I) -> Self {
        Self(indexes.into_iter().collect())
    }
}

impl fmt::Display for Indexes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut runs: Vec<(i32, i32)> = Vec::new();
        for index in &self.0 {
            match runs.last_mut() {
                Some((_, last)) if *last + 1 == *index => *last = *index,
                _ => runs.push((*index, *index)),
            }
        }
        for (position, (first, last)) in runs.iter().enumerate() {
            let comma = if position == 0 { "" } else { "," };
            match last - first {
                0 => write!(f, "{comma}{first}")?,
                1 => write!(f, "{comma}{first},{last}")?,
                _ => write!(f, "{comma}{first}-{last}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_in_a_row_are_a_range_and_two_are_not() {
        for (indexes, text) in
            [(vec![], ""), (vec![4], "4"), (vec![1, 2], "1,2"), (vec![0, 1, 2, 4, 6, 7], "0-2,4,6,7")]
        {
            let set: Indexes = indexes.into_iter().collect();
            assert_eq!(set.to_string(), text);
            assert_eq!(Indexes::parse(text, 100), set);
        }
    }

    #[test]
    fn what_a_job_has_no_longer_got_is_not_read() {
        assert_eq!(Indexes::parse("1,3-9", 5).to_string(), "1,3,4");
        assert_eq!(Indexes::parse("x,2-,7", 5).to_string(), "");
    }
}
