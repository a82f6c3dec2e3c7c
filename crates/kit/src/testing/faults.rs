//! Failures on demand.

use std::sync::Mutex;

/// A request that is to fail.
#[derive(Clone, Debug)]
pub struct Fault {
    /// The method, such as `PATCH`; `WATCH` for a watch.
    pub method: &'static str,
    /// A part of the path.
    pub path: &'static str,
    /// The status that is answered.
    pub code: u16,
    /// How many times.
    pub times: usize,
}

/// The failures that are still to come.
#[derive(Debug, Default)]
pub(super) struct Faults(Mutex<Vec<Fault>>);

impl Faults {
    pub(super) fn add(&self, fault: Fault) {
        self.0.lock().expect("no one panics with the lock").push(fault);
    }

    /// The status that this request has to fail with, if any.
    pub(super) fn strike(&self, method: &str, path: &str) -> Option<u16> {
        let mut faults = self.0.lock().expect("no one panics with the lock");
        let index = faults.iter().position(|fault| fault.method == method && path.contains(fault.path))?;
        let code = faults[index].code;
        faults[index].times -= 1;
        if faults[index].times == 0 {
            faults.remove(index);
        }
        Some(code)
    }
}
