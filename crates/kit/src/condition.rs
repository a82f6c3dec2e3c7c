//! Conditions by the rules of KEP-1623: one per type, `observedGeneration` on each, and a transition time that changes
//! only when the status does.

use c5c3_api::blocks::{Condition, ConditionStatus};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::wait::shortened;

/// What a controller says about one aspect of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConditionState {
    /// The condition's type.
    pub condition: String,
    /// Whether it holds.
    pub status: ConditionStatus,
    /// Why, in one word.
    pub reason: String,
    /// Why, in words.
    pub message: String,
}

impl ConditionState {
    /// It holds.
    pub fn met(condition: impl Into<String>, reason: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            condition: condition.into(),
            status: ConditionStatus::True,
            reason: reason.into(),
            message: message.into(),
        }
    }

    /// It does not hold.
    pub fn unmet(condition: impl Into<String>, reason: impl Into<String>, message: impl Into<String>) -> Self {
        Self { status: ConditionStatus::False, ..Self::met(condition, reason, message) }
    }

    /// The condition, with the transition time of `before` if the status is the same.
    pub fn to_condition(&self, before: Option<&Condition>, generation: Option<i64>, now: Timestamp) -> Condition {
        let unchanged = before.filter(|before| before.status == self.status);
        Condition {
            r#type: self.condition.clone(),
            status: self.status,
            reason: Some(self.reason.clone()),
            message: Some(shortened(self.message.clone(), LONGEST)),
            last_transition_time: unchanged.and_then(|before| before.last_transition_time.clone()).or(Some(Time(now))),
            observed_generation: generation,
        }
    }
}

/// The longest message that the schema of a condition takes.
const LONGEST: usize = 32_000;

/// The condition of that type.
pub fn find<'a>(conditions: &'a [Condition], condition_type: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.r#type == condition_type)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_transition_time_moves_only_with_the_status() {
        let early: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let late: Timestamp = "2026-01-01T01:00:00Z".parse().unwrap();
        let first = ConditionState::unmet("Ripe", "TooSmall", "2 cm").to_condition(None, Some(1), early);
        let same = ConditionState::unmet("Ripe", "TooGreen", "5 cm").to_condition(Some(&first), Some(2), late);
        assert_eq!(same.last_transition_time, Some(Time(early)));
        assert_eq!((same.reason.as_deref(), same.observed_generation), (Some("TooGreen"), Some(2)));
        let turned = ConditionState::met("Ripe", "Ripe", "8 cm").to_condition(Some(&same), Some(2), late);
        assert_eq!(turned.last_transition_time, Some(Time(late)));
    }

    #[test]
    fn a_message_fits_the_schema_whatever_it_quotes() {
        let said =
            ConditionState::unmet("Ripe", "Long", "ä".repeat(40_000)).to_condition(None, None, Timestamp::UNIX_EPOCH);
        assert!(said.message.unwrap().len() < 32_768);
    }
}
