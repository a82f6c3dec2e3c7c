//! What evaluating costs, counted much as an API server counts it, so that neither a rule nor an object takes long.
//!
//! A step is one; what goes through text or lists costs a tenth of its length. All work is charged for before it is done.

use kube_cel::cel::{ExecutionError, Value as Cel};

/// The most that one evaluation of one expression may cost.
pub(crate) const PER_EVALUATION: u64 = 1_000_000;

/// What all rules together may cost for one object.
pub(crate) const PER_OBJECT: u64 = 10_000_000;

/// What an evaluation has cost, and what it may.
#[derive(Debug)]
pub(super) struct Meter {
    spent: u64,
    limit: u64,
}

impl Meter {
    pub(super) fn new(limit: u64) -> Self {
        Self { spent: 0, limit: limit.min(PER_EVALUATION) }
    }

    pub(super) fn spent(&self) -> u64 {
        self.spent
    }

    /// Whether the limit was reached: the evaluation ends, whatever operators would make of an error.
    pub(super) fn is_over(&self) -> bool {
        self.spent > self.limit
    }

    pub(super) fn spend(&mut self, cost: u64) -> Result<(), ExecutionError> {
        self.spent = self.spent.saturating_add(cost);
        if self.is_over() { Err(ExecutionError::function_error("cost", "the limit is reached")) } else { Ok(()) }
    }

    /// Pays for going through values once.
    pub(super) fn go_through<'v>(&mut self, values: impl IntoIterator<Item = &'v Cel>) -> Result<(), ExecutionError> {
        let mut left = self.limit.saturating_sub(self.spent).saturating_mul(10).saturating_add(1);
        let before = left;
        for value in values {
            count(value, &mut left);
        }
        self.spend((before - left).div_ceil(10))
    }
}

/// Counts values and characters down from what is left, and stops at nothing: counting is not to be dear either.
fn count(value: &Cel, left: &mut u64) {
    let size = match value {
        Cel::String(text) => text.len() + 1,
        Cel::Bytes(bytes) => bytes.len() + 1,
        _ => 1,
    };
    *left = left.saturating_sub(size as u64);
    match value {
        Cel::List(items) => {
            for item in items.iter() {
                if *left == 0 {
                    return;
                }
                count(item, left);
            }
        }
        Cel::Map(map) => {
            for item in map.map.values() {
                if *left == 0 {
                    return;
                }
                count(item, left);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn going_through_a_value_costs_a_tenth_of_it_and_never_more_than_is_left() {
        let text = |length: usize| Cel::String(Arc::new("x".repeat(length)));
        let mut meter = Meter::new(1000);
        meter.go_through([&text(99), &Cel::Null]).unwrap();
        assert_eq!(meter.spent(), 11);
        let list = Cel::List(Arc::new(vec![text(99); 1_000_000]));
        assert!(meter.go_through([&list]).is_err() && meter.is_over());
        assert!(meter.spent() < 1200, "it is not counted to its end");
    }
}
