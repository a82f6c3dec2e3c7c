//! The end of a pod: containers, then sandboxes, then mounts; and if it was deleted, everything.

use super::{Action, Plan, Situation};
use crate::observe::State;

pub(super) fn plan(situation: Situation<'_>, is_deleted: bool) -> Plan {
    let Situation { observed, memory, .. } = situation;
    let mut plan = Plan { is_ending: true, ..Plan::default() };
    let lives = |state: &State| !matches!(state, State::Exited(_));
    if observed.containers.iter().any(|container| lives(&container.state)) {
        plan.actions.push(Action::StopAll);
    }
    for sandbox in observed.sandboxes.iter().filter(|sandbox| sandbox.is_ready) {
        plan.actions.push(Action::StopSandbox { id: sandbox.id.clone() });
    }
    // One step at a time: what failed to stop is tried again before anything is taken from under it.
    if plan.actions.is_empty() && !memory.is_clean {
        plan.actions.push(Action::CleanUp);
    }
    if plan.actions.is_empty() && is_deleted {
        plan.actions.push(Action::Release);
    }
    plan
}
