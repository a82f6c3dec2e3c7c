//! Whether there is a credential that services can use. A rotation that is under way, or held up, does not change that.

use c5c3_api::blocks::ConditionStatus;
use c5c3_kit::Summary;
use c5c3_kit::apply::{self, Applied};
use c5c3_kit::condition::ConditionState;
use c5c3_kit::report::Outcome;
use c5c3_kit::{Plan, Wait};

use super::CREDENTIAL;
use super::delivery::TARGET;

/// The conditions about the whole.
pub(crate) fn summary(state: &Summary<'_>) -> Vec<ConditionState> {
    let standard = state.standard();
    let Outcome::Applied(applied, plan) = state.outcome else { return standard };
    if !is_usable(applied, plan) {
        return pending(standard);
    }
    let message = "services can sign in with the credential";
    let ready = ConditionState::met("Ready", "CredentialValid", message);
    let text = |wait: &Wait| wait.message(state.namespace);
    let failed = state.waits.iter().find(|wait| wait.failed);
    let degraded = match failed {
        Some(wait) => ConditionState::met("Degraded", wait.reason(), text(wait)),
        None => ConditionState::unmet("Degraded", "CredentialValid", ""),
    };
    let progressing = match state.waits.first().filter(|_| failed.is_none()) {
        Some(wait) => ConditionState::met("Progressing", "Rotating", text(wait)),
        None => ConditionState::unmet("Progressing", "CredentialValid", ""),
    };
    vec![ready, progressing, degraded]
}

/// A credential that was created a moment ago is waited for by nothing, and not delivered yet.
fn pending(standard: Vec<ConditionState>) -> Vec<ConditionState> {
    if standard.iter().any(|said| said.condition == "Ready" && said.status != ConditionStatus::True) {
        return standard;
    }
    let message = "the credential is being created and delivered";
    vec![
        ConditionState::unmet("Ready", "CredentialPending", message),
        ConditionState::met("Progressing", "CredentialPending", message),
        ConditionState::unmet("Degraded", "CredentialPending", ""),
    ]
}

fn is_usable(applied: &Applied, plan: &Plan) -> bool {
    let is_done = |name: &str| {
        let outcome = applied.outcomes.iter().find(|outcome| outcome.name.as_ref().is_some_and(|own| *own == *name));
        outcome.is_some_and(apply::Outcome::is_done)
    };
    let has_current = plan.status.get("currentCredential").is_some_and(|current| current["id"].is_string());
    // While the next credential is on its way, services still have the one before it.
    let is_underway = plan.status.get("phase").is_some_and(|phase| phase == "Delivering");
    has_current && is_done(CREDENTIAL) && (is_done(TARGET) || is_underway)
}
