//! What is said of an object as a whole: `Ready`, `Progressing` and `Degraded`, by the rule at the top of [`crate::report`].

use c5c3_api::blocks::{Condition, ConditionStatus};

use crate::condition::{ConditionState, find};
use crate::report::{Outcome, not_ready};
use crate::wait::Wait;

/// The conditions that say how an object is as a whole; a turn of the first is worth an event.
pub const SUMMARY: &[&str] = &["Ready", "Progressing", "Degraded"];

/// What a summary is made from.
#[derive(Clone, Copy, Debug)]
pub struct Summary<'a> {
    /// What came of the reconcile.
    pub outcome: &'a Outcome<'a>,
    /// Everything that is waited for.
    pub waits: &'a [Wait],
    /// The conditions as they were.
    pub before: &'a [Condition],
    /// The object's generation.
    pub generation: Option<i64>,
    /// The object's namespace, from which others are seen.
    pub namespace: Option<&'a str>,
    /// Whether the object is paused.
    pub paused: bool,
}

impl Summary<'_> {
    /// The conditions that all kinds of ours have. Those that are left out stay as they were.
    pub fn standard(&self) -> Vec<ConditionState> {
        let upgrading = match self.outcome {
            Outcome::Applied(_, plan) => plan.upgrading,
            Outcome::Waiting(_) if !self.paused => false,
            // A person has to act, or the API does not answer: nothing is known of progress.
            Outcome::Invalid(..) | Outcome::Failed(_) | Outcome::Deleting(_) => return vec![self.ready()],
            Outcome::Paused(..) | Outcome::Waiting(_) => return Vec::new(),
        };
        let ready = self.ready();
        let (reason, message) = (ready.reason.as_str(), ready.message.as_str());
        let (progressing, degraded) = match () {
            () if ready.status == ConditionStatus::True => (
                ConditionState::unmet("Progressing", reason, message),
                ConditionState::unmet("Degraded", reason, message),
            ),
            () if !upgrading && self.was_ready() => {
                (ConditionState::unmet("Progressing", "Degraded", ""), ConditionState::met("Degraded", reason, message))
            }
            () => {
                let why = match (upgrading, self.was_installed()) {
                    (true, _) => "Upgrading",
                    (false, true) => "Updating",
                    (false, false) => "Installing",
                };
                (ConditionState::met("Progressing", why, message), ConditionState::unmet("Degraded", why, ""))
            }
        };
        vec![ready, progressing, degraded]
    }

    /// Whether everything is ready, and if not, why.
    pub fn ready(&self) -> ConditionState {
        match self.outcome {
            Outcome::Invalid(problems, _) => ConditionState::unmet("Ready", "InvalidSpec", problems.to_string()),
            Outcome::Failed(error) => ConditionState {
                status: ConditionStatus::Unknown,
                ..ConditionState::unmet("Ready", error.reason(), error.to_string())
            },
            Outcome::Deleting(waits) => {
                let message = waits.first().map_or_else(|| "being deleted".into(), |wait| wait.message(self.namespace));
                ConditionState::unmet("Ready", "Deleting", message)
            }
            Outcome::Applied(_, plan) | Outcome::Paused(_, plan) if self.waits.is_empty() => {
                ConditionState::met("Ready", plan.ready_reason, "everything is ready")
            }
            Outcome::Applied(..) | Outcome::Paused(..) | Outcome::Waiting(_) => not_ready(self.waits, self.namespace),
        }
    }

    /// Whether this generation of the object has been ready before.
    fn was_ready(&self) -> bool {
        let is_current = |condition: &&Condition| condition.observed_generation == self.generation;
        match find(self.before, "Progressing") {
            Some(progressing) => progressing.status == ConditionStatus::False && is_current(&progressing),
            None => {
                find(self.before, "Ready").filter(is_current).is_some_and(|ready| ready.status == ConditionStatus::True)
            }
        }
    }

    /// Whether any generation of the object has been ready before.
    fn was_installed(&self) -> bool {
        match find(self.before, "Progressing") {
            Some(progressing) => progressing.reason.as_deref() != Some("Installing"),
            None => find(self.before, "Ready").is_some_and(|ready| ready.status == ConditionStatus::True),
        }
    }
}

#[cfg(test)]
mod tests {
    use c5c3_api::problem;
    use jiff::Timestamp;
    use k8s_openapi::api::core::v1::Secret;

    use super::*;
    use crate::apply::{self, Applied};
    use crate::object::Ref;
    use crate::plan::Plan;

    /// An object whose conditions are written again and again.
    #[derive(Default)]
    struct Story {
        conditions: Vec<Condition>,
    }

    impl Story {
        fn tell(&mut self, generation: i64, outcome: &Outcome<'_>, waits: &[Wait]) -> String {
            let generation = Some(generation);
            let state =
                Summary { outcome, waits, before: &self.conditions, generation, namespace: None, paused: false };
            for said in state.standard() {
                let condition = said.to_condition(None, generation, Timestamp::UNIX_EPOCH);
                self.conditions.retain(|before| before.r#type != condition.r#type);
                self.conditions.push(condition);
            }
            let word = |kind: &str| {
                let found = find(&self.conditions, kind)?;
                let is_true = found.status == ConditionStatus::True;
                is_true.then(|| format!("{kind}/{}", found.reason.as_deref().unwrap_or_default()))
            };
            SUMMARY.iter().filter_map(|kind| word(kind)).collect::<Vec<_>>().join(" ")
        }

        fn applied(&mut self, generation: i64, is_done: bool, upgrading: bool) -> String {
            let waits = if is_done { vec![] } else { vec![Wait::on(&Ref::namespaced::<Secret>("orchard", "key"))] };
            let outcome = apply::Outcome {
                condition: "Ripe",
                name: None,
                waits: waits.clone(),
                blocked: None,
                done: String::new(),
            };
            let applied = Applied { outcomes: vec![outcome], ..Applied::default() };
            self.tell(generation, &Outcome::Applied(&applied, &Plan::new().upgrading(upgrading)), &waits)
        }
    }

    #[test]
    fn coming_up_is_told_from_updating_upgrading_and_being_degraded() {
        let mut story = Story::default();
        assert_eq!(story.applied(1, false, false), "Progressing/Installing");
        assert_eq!(story.applied(2, false, false), "Progressing/Installing", "it was never ready");
        assert_eq!(story.applied(2, true, false), "Ready/Ready");
        assert_eq!(story.applied(2, false, false), "Degraded/WaitingForSecret");
        assert_eq!(story.applied(2, false, false), "Degraded/WaitingForSecret", "it stays so");
        assert_eq!(story.applied(3, false, false), "Progressing/Updating", "its spec is changed");
        assert_eq!(story.applied(3, true, false), "Ready/Ready");
        assert_eq!(story.applied(4, false, true), "Progressing/Upgrading");
        assert_eq!(story.applied(4, false, false), "Progressing/Updating");
        assert_eq!(story.applied(4, true, false), "Ready/Ready");
    }

    #[test]
    fn a_failure_in_between_does_not_make_a_degraded_object_a_new_one() {
        let mut story = Story::default();
        story.applied(1, true, false);
        let error = crate::Error::TimedOut(std::time::Duration::from_secs(1));
        assert_eq!(story.tell(1, &Outcome::Failed(&error), &[]), "");
        assert_eq!(story.applied(1, false, false), "Degraded/WaitingForSecret");
        let problems = vec![problem("spec", "wrong", "mend it")].into();
        assert_eq!(story.tell(2, &Outcome::Invalid(&problems, None), &[]), "Degraded/WaitingForSecret");
        assert_eq!(story.applied(3, false, false), "Progressing/Updating");
    }

    #[test]
    fn an_object_that_was_ready_before_there_were_such_conditions_is_not_new() {
        let mut story = Story {
            conditions: vec![ConditionState::met("Ready", "Ready", "").to_condition(
                None,
                Some(1),
                Timestamp::UNIX_EPOCH,
            )],
        };
        assert_eq!(story.applied(1, false, false), "Degraded/WaitingForSecret");
    }
}
