//! What was done about guests that failed: an annotation of their Hypervisor, written before each call, so that an operator that is
//! killed in between makes no call twice.

use std::collections::BTreeMap;

use c5c3_api::hypervisor::GuestFailure;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::GuestPolicy;

/// The annotation.
pub(crate) const LEDGER: &str = "ha.c5c3.io/guests";

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Ledger {
    /// Crashes until then were answered by an Eviction of the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) evicted: Option<Timestamp>,
    /// By the ids of guests.
    #[serde(default)]
    pub(crate) guests: BTreeMap<String, Entry>,
}

/// What was done about one guest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Entry {
    /// When it failed last. An event was published for it.
    pub(crate) failed: Timestamp,
    /// When it was restarted, also for earlier failures.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) restarted: Vec<Timestamp>,
    /// Why nothing is to be done about this failure, if so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) left: Option<String>,
}

impl Ledger {
    /// Reads the annotation. One that a person broke begins anew.
    pub(crate) fn read(annotation: Option<&String>) -> Self {
        let text = annotation.map(String::as_str).unwrap_or_default();
        if text.is_empty() {
            return Self::default();
        }
        serde_json::from_str(text).unwrap_or_else(|error| {
            tracing::warn!(%error, annotation = LEDGER, "does not parse; restarts of guests are counted from now on");
            Self::default()
        })
    }

    /// The annotation; none if there is nothing to remember.
    pub(crate) fn write(&self) -> Option<String> {
        if *self == Self::default() { None } else { serde_json::to_string(self).ok() }
    }

    /// When the guest was restarted in the policy's window.
    pub(crate) fn restarts(&self, guest: &str, policy: &GuestPolicy, now: Timestamp) -> Vec<Timestamp> {
        let all = self.guests.get(guest).map(|entry| entry.restarted.as_slice()).unwrap_or_default();
        all.iter().copied().filter(|time| super::age(*time, now) < policy.window).collect()
    }

    /// Notes a failure that is newer than what is known of the guest.
    pub(crate) fn see(&mut self, failure: &GuestFailure) {
        let restarted = self.guests.remove(&failure.instance).map(|entry| entry.restarted).unwrap_or_default();
        let entry = Entry { failed: failure.time.0, restarted, left: None };
        self.guests.insert(failure.instance.clone(), entry);
    }

    /// Forgets guests of which no failure is told any more, and restarts that no longer count.
    pub(crate) fn prune(&mut self, failures: &[GuestFailure], policy: &GuestPolicy, now: Timestamp) {
        for entry in self.guests.values_mut() {
            entry.restarted.retain(|time| super::age(*time, now) < policy.window);
        }
        let is_told = |guest: &str| failures.iter().any(|failure| failure.instance == guest);
        self.guests.retain(|guest, entry| is_told(guest) || !entry.restarted.is_empty());
    }
}
