//! Failures on demand, for tests: requests that match are refused or delayed.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// A request that is to fail or to wait.
#[derive(Clone, Debug)]
pub struct Fault {
    /// The verb: `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`; any when absent.
    pub verb: Option<&'static str>,
    /// A part of the path.
    pub path: String,
    /// How many matching requests pass first.
    pub skip: usize,
    /// How many are hit after those.
    pub times: usize,
    /// The status that is answered; none to only delay.
    pub code: Option<u16>,
    /// How long the request waits first.
    pub delay: Duration,
}

/// The failures that are still to come.
#[derive(Debug, Default)]
pub struct Faults(Mutex<Vec<Fault>>);

impl Faults {
    /// Adds a failure.
    pub fn add(&self, fault: Fault) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(fault);
    }

    /// Takes all failures back.
    pub fn clear(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// What is to happen to this request.
    pub(crate) fn strike(&self, verb: &str, path: &str) -> Option<(Option<u16>, Duration)> {
        let mut faults = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let matches = |fault: &Fault| fault.verb.is_none_or(|wanted| wanted == verb) && path.contains(&fault.path);
        let index = faults.iter().position(matches)?;
        let fault = &mut faults[index];
        if fault.skip > 0 {
            fault.skip -= 1;
            return None;
        }
        let strike = (fault.code, fault.delay);
        fault.times = fault.times.saturating_sub(1);
        if fault.times == 0 {
            faults.remove(index);
        }
        Some(strike)
    }
}
