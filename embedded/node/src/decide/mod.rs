//! What to do next with a pod: from what is wanted, what is there and what is remembered to a list of actions.
//!
//! Nothing here talks to anything. The worker carries the actions out, looks again, and asks again, until there is
//! nothing left to do; then it waits for a change or for [`Plan::wake`].

mod ending;
mod starting;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use crate::memory::{Failed, Memory};
use crate::observe::{Container, Observed};
use crate::pod::{Pod, RestartPolicy, Role, hash};

/// One step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Action {
    /// Mount the volumes, then make the pod's frame.
    CreateSandbox { attempt: u32 },
    /// Get the image, make a container and start it.
    StartContainer { name: String, attempt: u32 },
    /// End one container, with its grace.
    StopContainer { id: String, why: Why },
    /// End all containers: sidecars last.
    StopAll,
    /// End what is left in a sandbox and give its network back.
    StopSandbox { id: String },
    /// Forget a container that has ended.
    RemoveContainer { id: String },
    /// Forget a sandbox without containers.
    RemoveSandbox { id: String },
    /// Undo the mounts, and what else a pod that is over does not need.
    CleanUp,
    /// Leave nothing of a deleted pod on the node, then let the API forget it.
    Release,
}

/// Why one container is ended while its pod goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Why {
    Unhealthy(Failed),
    Changed,
}

/// What to do now, what is being waited for, and when to look again.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) actions: Vec<Action>,
    /// Messages of the containers that wait for their restart.
    pub(crate) crash_loops: BTreeMap<String, String>,
    pub(crate) wake: Option<Timestamp>,
    /// The pod will not start anything any more.
    pub(crate) is_ending: bool,
}

impl Plan {
    fn wake_at(&mut self, time: Timestamp) {
        self.wake = Some(self.wake.map_or(time, |earlier| earlier.min(time)));
    }
}

/// Everything that a decision is made from.
#[derive(Clone, Copy)]
pub(crate) struct Situation<'a> {
    pub(crate) pod: &'a Pod,
    pub(crate) observed: &'a Observed,
    pub(crate) memory: &'a Memory,
    pub(crate) now: Timestamp,
    /// The API has no such pod any more.
    pub(crate) is_gone: bool,
}

/// The next actions for a pod.
pub(crate) fn decide(situation: Situation<'_>) -> Plan {
    let Situation { pod, memory, .. } = situation;
    if situation.is_gone || pod.is_deleted() {
        return ending::plan(situation, true);
    }
    if pod.is_over() || memory.verdict.is_some() || deadline(pod).is_some_and(|at| at <= situation.now) {
        return ending::plan(situation, false);
    }
    if is_done(situation) {
        return ending::plan(situation, false);
    }
    let mut plan = starting::plan(situation);
    if let Some(at) = deadline(pod) {
        plan.wake_at(at);
    }
    plan
}

/// When the pod has been active for as long as it may.
pub(crate) fn deadline(pod: &Pod) -> Option<Timestamp> {
    let seconds = u64::try_from(pod.spec().active_deadline_seconds?).ok()?;
    let started = pod.status()?.start_time.as_ref()?.0;
    started.checked_add(Duration::from_secs(seconds)).ok()
}

/// Whether nothing of the pod will start again by itself: all has ended that the pod is for, or an init container has
/// failed for good.
fn is_done(situation: Situation<'_>) -> bool {
    let Situation { pod, observed, .. } = situation;
    let has_ended = |run: &Container, role| run.exit().is_some() && !restarts(pod, run, role);
    let never = pod.restart_policy() == RestartPolicy::Never;
    let lost_its_sandbox = never && observed.sandbox().is_none() && !observed.containers.is_empty();
    let init_failed = pod.init_containers().iter().any(|container| {
        let failed = observed.newest(&container.name).filter(|run| run.exit().is_some() && !run.has_succeeded());
        pod.role(container) == Role::Init && failed.is_some_and(|run| has_ended(run, Role::Init))
    });
    let all_ended = pod
        .main_containers()
        .iter()
        .all(|container| observed.newest(&container.name).is_some_and(|run| has_ended(run, Role::Main)));
    init_failed || all_ended || (lost_its_sandbox && observed.running().next().is_none())
}

/// Whether a container that has ended starts again.
pub(crate) fn restarts(pod: &Pod, run: &Container, role: Role) -> bool {
    let is_changed = pod.container(&run.name).is_some_and(|container| hash(container) != run.hash);
    is_changed
        || match (role, pod.restart_policy()) {
            (Role::Ephemeral, _) => false,
            (Role::Sidecar, _) | (Role::Main, RestartPolicy::Always) => true,
            (Role::Init, RestartPolicy::Always) | (_, RestartPolicy::OnFailure) => !run.has_succeeded(),
            (_, RestartPolicy::Never) => false,
        }
}
