//! Conditions as Flux writes them.

use c5c3_api::blocks::{Condition, ConditionStatus};
use c5c3_kit::condition::{ConditionState, find};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

pub(super) const READY: &str = "Ready";
pub(super) const RECONCILING: &str = "Reconciling";
pub(super) const STALLED: &str = "Stalled";
pub(super) const HEALTHY: &str = "Healthy";
pub(super) const FETCH_FAILED: &str = "FetchFailed";
pub(super) const IN_STORAGE: &str = "ArtifactInStorage";

/// The reason of what is on its way, and that of what is tried again.
pub(super) const PROGRESSING: &str = "Progressing";
pub(super) const RETRYING: &str = "ProgressingWithRetry";

/// The annotation that asks for a look at once.
pub(super) const REQUESTED: &str = "reconcile.fluxcd.io/requestedAt";

/// The finalizer of both kinds.
pub(super) const FINALIZER: &str = "finalizers.fluxcd.io";

/// Conditions that are put together; those that are neither set nor kept are gone.
pub(super) struct Conditions<'a> {
    before: &'a [Condition],
    generation: Option<i64>,
    now: Timestamp,
    after: Vec<Condition>,
}

impl<'a> Conditions<'a> {
    pub(super) fn new(before: &'a [Condition], generation: Option<i64>, now: Timestamp) -> Self {
        Self { before, generation, now, after: Vec::new() }
    }

    fn set(mut self, condition: &str, status: ConditionStatus, reason: &str, message: impl Into<String>) -> Self {
        let state = ConditionState {
            condition: condition.to_owned(),
            status,
            reason: reason.to_owned(),
            message: message.into(),
        };
        let before = find(self.before, condition);
        let mut after = state.to_condition(before, self.generation, self.now);
        // Something else is not known now than before: what is waited for began again.
        if status == ConditionStatus::Unknown && before.is_some_and(|before| before.message != after.message) {
            after.last_transition_time = Some(Time(self.now));
        }
        self.after.push(after);
        self
    }

    pub(super) fn holds(self, condition: &str, reason: &str, message: impl Into<String>) -> Self {
        self.set(condition, ConditionStatus::True, reason, message)
    }

    pub(super) fn fails(self, condition: &str, reason: &str, message: impl Into<String>) -> Self {
        self.set(condition, ConditionStatus::False, reason, message)
    }

    pub(super) fn unknown(self, condition: &str, reason: &str, message: impl Into<String>) -> Self {
        self.set(condition, ConditionStatus::Unknown, reason, message)
    }

    /// Leaves a condition as it was.
    pub(super) fn keep(mut self, condition: &str) -> Self {
        self.after.extend(find(self.before, condition).cloned());
        self
    }

    pub(super) fn done(self) -> Vec<Condition> {
        self.after
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_for_something_else_begins_anew_and_looking_again_does_not() {
        let (early, late): (Timestamp, Timestamp) =
            ("2026-01-01T00:00:00Z".parse().unwrap(), "2026-01-01T01:00:00Z".parse().unwrap());
        let waits = |before: &[Condition], message: &str, now| {
            Conditions::new(before, Some(2), now).unknown(HEALTHY, PROGRESSING, message).done()
        };
        let first = waits(&[], "for A", early);
        assert_eq!(waits(&first, "for A", late), first);
        assert_eq!(waits(&first, "for B", late)[0].last_transition_time, Some(Time(late)));
    }
}
