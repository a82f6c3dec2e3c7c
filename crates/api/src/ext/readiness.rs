//! Whether an object of another operator can be used yet, and what that operator says when it cannot.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::blocks::{Condition, ConditionStatus};

/// Whether an object can be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ready {
    /// It can, as it is specified now.
    Yes,
    /// It cannot.
    No {
        /// Why, in one word: the foreign operator's own, or `NoStatus`, `Outdated`, `Deleting`.
        reason: String,
        /// Why, in a sentence about the object: the foreign operator's own where it has one.
        message: String,
    },
}

impl Ready {
    /// Whether it is [`Ready::Yes`].
    pub fn is_yes(&self) -> bool {
        *self == Self::Yes
    }

    pub(super) fn no(reason: impl Into<String>, message: impl Into<String>) -> Self {
        Self::No { reason: reason.into(), message: message.into() }
    }
}

/// An object that another operator brings up.
pub trait Readiness {
    /// Whether it can be used; looks at nothing but the object.
    fn readiness(&self) -> Ready;
}

/// One object's status in front of the rules that all kinds share.
pub(super) struct Judge {
    operator: &'static str,
    generation: i64,
}

impl Judge {
    /// What `rule` says of the status, unless there is none or the object is going away. A rule's error is the answer.
    pub(super) fn judge<S>(
        operator: &'static str,
        metadata: &ObjectMeta,
        status: Option<&S>,
        rule: impl FnOnce(&Self, &S) -> Result<(), Ready>,
    ) -> Ready {
        let judge = Self { operator, generation: metadata.generation.unwrap_or(0) };
        if metadata.deletion_timestamp.is_some() {
            return Ready::no("Deleting", format!("is being deleted; {operator} has not finished yet"));
        }
        let verdict = status.ok_or_else(|| judge.no_status()).and_then(|status| rule(&judge, status));
        verdict.err().unwrap_or(Ready::Yes)
    }

    /// The status is about the object as it is now. An absent generation is one that was never observed.
    pub(super) fn current(&self, observed: Option<i64>) -> Result<(), Ready> {
        let observed = observed.unwrap_or(0);
        if observed >= self.generation {
            return Ok(());
        }
        let Self { operator, generation } = self;
        Err(Ready::no(
            "Outdated",
            format!("was changed: it is at generation {generation}, and {operator} has seen {observed} so far"),
        ))
    }

    /// The condition is true, and about the object as it is now if it says what it is about.
    pub(super) fn holds(&self, conditions: &[Condition], r#type: &str) -> Result<(), Ready> {
        let Some(condition) = conditions.iter().find(|c| c.r#type == r#type) else {
            return Err(if conditions.is_empty() {
                self.no_status()
            } else {
                Ready::no("NoStatus", format!("has no condition {type} yet"))
            });
        };
        if let Some(observed) = condition.observed_generation.filter(|observed| *observed > 0) {
            self.current(Some(observed))?;
        }
        match condition.status {
            ConditionStatus::True => Ok(()),
            ref status => {
                let said = |text: &Option<String>, otherwise: String| {
                    text.clone().filter(|text| !text.is_empty()).unwrap_or(otherwise)
                };
                Err(Ready::no(
                    said(&condition.reason, format!("Not{type}")),
                    said(
                        &condition.message,
                        format!("condition {type} is {status:?}; {} does not say why", self.operator),
                    ),
                ))
            }
        }
    }

    /// The one-word state of kinds that have it is `wanted`.
    pub(super) fn in_state(
        &self,
        field: &str,
        state: Option<&str>,
        wanted: &str,
        why: Option<&str>,
    ) -> Result<(), Ready> {
        match state.filter(|state| !state.is_empty()) {
            None => Err(self.no_status()),
            Some(state) if state == wanted => Ok(()),
            Some(state) => {
                let why = why.filter(|why| !why.is_empty());
                Err(Ready::no(state, why.map_or_else(|| format!("{field} is {state}, not {wanted}"), str::to_string)))
            }
        }
    }

    fn no_status(&self) -> Ready {
        Ready::no("NoStatus", format!("has no status yet: is {} running?", self.operator))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    const OPERATOR: &str = "weaver";

    fn condition(status: ConditionStatus, reason: &str, message: &str, observed_generation: Option<i64>) -> Condition {
        let said = |text: &str| (!text.is_empty()).then(|| text.to_string());
        Condition {
            r#type: "Woven".to_string(),
            status,
            reason: said(reason),
            message: said(message),
            last_transition_time: None,
            observed_generation,
        }
    }

    fn judged(generation: i64, conditions: Option<&[Condition]>) -> Ready {
        let metadata = ObjectMeta { generation: Some(generation), ..ObjectMeta::default() };
        Judge::judge(OPERATOR, &metadata, conditions.as_ref(), |judge, conditions| judge.holds(conditions, "Woven"))
    }

    #[test]
    fn a_true_condition_is_ready_if_it_is_about_the_present_generation_or_does_not_say() {
        for observed in [None, Some(0), Some(2), Some(3)] {
            let ready = judged(2, Some(&[condition(ConditionStatus::True, "Done", "", observed)]));
            assert_eq!(ready, Ready::Yes, "{observed:?}");
        }
        assert_eq!(
            judged(2, Some(&[condition(ConditionStatus::True, "Done", "", Some(1))])),
            Ready::no("Outdated", "was changed: it is at generation 2, and weaver has seen 1 so far"),
        );
    }

    #[test]
    fn a_false_condition_passes_on_what_the_operator_said() {
        assert_eq!(
            judged(1, Some(&[condition(ConditionStatus::False, "ThreadTorn", "thread 7 is torn", None)])),
            Ready::no("ThreadTorn", "thread 7 is torn"),
        );
        assert_eq!(
            judged(1, Some(&[condition(ConditionStatus::Unknown, "", "", None)])),
            Ready::no("NotWoven", "condition Woven is Unknown; weaver does not say why"),
        );
    }

    #[test]
    fn without_a_status_the_operator_is_the_suspect() {
        let nothing = Ready::no("NoStatus", "has no status yet: is weaver running?");
        assert_eq!(judged(1, None), nothing);
        assert_eq!(judged(1, Some(&[])), nothing);
        let other = Condition { r#type: "Dyed".into(), ..condition(ConditionStatus::True, "", "", None) };
        assert_eq!(judged(1, Some(&[other])), Ready::no("NoStatus", "has no condition Woven yet"));
    }

    #[test]
    fn what_is_being_deleted_is_not_ready() {
        let metadata =
            ObjectMeta { deletion_timestamp: Some(Time(jiff::Timestamp::UNIX_EPOCH)), ..ObjectMeta::default() };
        let ready = Judge::judge(OPERATOR, &metadata, Some(&()), |_, ()| Ok(()));
        assert_eq!(ready, Ready::no("Deleting", "is being deleted; weaver has not finished yet"));
    }
}
