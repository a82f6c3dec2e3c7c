//! K-ORC's two conditions, with its reasons and messages word for word.

use c5c3_api::blocks::ConditionStatus;
use c5c3_api::orc::{AVAILABLE, PROGRESSING, TERMINAL_REASONS};
use c5c3_kit::apply;
use c5c3_kit::condition::{ConditionState, find};
use c5c3_kit::report::Outcome;
use c5c3_kit::{Summary, Wait};

use crate::view;

/// What is still to be done: the status, reason and message of `Progressing`.
struct Progress {
    status: ConditionStatus,
    reason: String,
    message: String,
}

impl Progress {
    fn new(status: ConditionStatus, reason: impl Into<String>, message: impl Into<String>) -> Self {
        Self { status, reason: reason.into(), message: message.into() }
    }

    fn is_terminal(&self) -> bool {
        TERMINAL_REASONS.contains(&self.reason.as_str())
    }

    /// Of waits, while the resource is being created, updated or deleted.
    fn of(waits: &[Wait], doing: &str, noun: &str, namespace: Option<&str>) -> Self {
        let is_terminal = |wait: &&Wait| TERMINAL_REASONS.contains(&wait.reason().as_str());
        if let Some(wait) = waits.iter().find(is_terminal) {
            return Self::new(ConditionStatus::False, wait.reason(), text(wait, namespace));
        }
        if let Some(wait) = waits.iter().find(|wait| wait.reason() == "RemoteTerminal") {
            let message = format!("invalid configuration {doing} {noun}: {}", text(wait, namespace));
            return Self::new(ConditionStatus::False, "InvalidConfiguration", message);
        }
        let join =
            |waits: Vec<&Wait>| waits.into_iter().map(|wait| text(wait, namespace)).collect::<Vec<_>>().join("\n");
        let errors: Vec<&Wait> = waits.iter().filter(|wait| is_error(wait)).collect();
        if !errors.is_empty() {
            return Self::new(ConditionStatus::True, view::TRANSIENT, join(errors));
        }
        if waits.iter().any(is_call) {
            let message = match doing {
                "deleting" => "Waiting for OpenStack resource to be deleted",
                _ => "Resource status will be refreshed",
            };
            return Self::new(ConditionStatus::True, view::PROGRESSING, message);
        }
        Self::new(ConditionStatus::True, view::PROGRESSING, join(waits.iter().collect()))
    }

    fn said(&self, condition: &str, status: ConditionStatus) -> ConditionState {
        ConditionState {
            condition: condition.into(),
            status,
            reason: self.reason.clone(),
            message: self.message.clone(),
        }
    }
}

fn is_call(wait: &Wait) -> bool {
    matches!(wait.reason().as_str(), "CallPending" | "CallMade")
}

fn is_error(wait: &Wait) -> bool {
    wait.failed || wait.reason() == "RemoteUnreachable"
}

fn text(wait: &Wait, namespace: Option<&str>) -> String {
    wait.error.clone().unwrap_or_else(|| wait.message(namespace))
}

/// The two conditions.
pub(crate) fn summary(state: &Summary<'_>, noun: &str) -> Vec<ConditionState> {
    let (obtained, has_id, progress) = match state.outcome {
        Outcome::Applied(applied, plan) | Outcome::Paused(applied, plan) => {
            let obtained = applied.outcomes.first().is_some_and(apply::Outcome::is_done);
            let doing = if obtained { "updating" } else { "creating" };
            let progress = (!state.waits.is_empty()).then(|| Progress::of(state.waits, doing, noun, state.namespace));
            (obtained, plan.status.contains_key("id"), progress)
        }
        Outcome::Deleting(waits) => {
            let progress = Progress::of(waits, "deleting", noun, state.namespace);
            let mut said = vec![progress.said(PROGRESSING, progress.status)];
            if find(state.before, AVAILABLE).is_none() {
                said.insert(0, progress.said(AVAILABLE, ConditionStatus::False));
            }
            return said;
        }
        Outcome::Invalid(problems, _) => {
            let progress = Progress::new(ConditionStatus::False, "InvalidConfiguration", problems.to_string());
            (false, false, Some(progress))
        }
        Outcome::Failed(error) => {
            let progress = Progress::new(ConditionStatus::True, view::TRANSIENT, error.to_string());
            (false, true, Some(progress))
        }
        Outcome::Waiting(waits) => (false, true, Some(Progress::of(waits, "creating", noun, state.namespace))),
    };
    let up_to_date = ConditionState::unmet(PROGRESSING, "Success", "OpenStack resource is up to date");
    let available = ConditionState::met(AVAILABLE, "Success", "OpenStack resource is available");
    let Some(progress) = progress else { return vec![available, up_to_date] };
    let available = match () {
        () if obtained => available,
        () if has_id && !progress.is_terminal() => progress.said(AVAILABLE, ConditionStatus::Unknown),
        () => progress.said(AVAILABLE, ConditionStatus::False),
    };
    vec![available, progress.said(PROGRESSING, progress.status)]
}
