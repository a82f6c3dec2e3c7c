//! The phase: one word for how far a pod is.

use k8s_openapi::api::core::v1::{ContainerStatus, PodStatus};

use super::Facts;
use crate::pod::{Pod, RestartPolicy, Role};

/// How the containers of a pod are.
#[derive(Default)]
struct Count {
    waiting: usize,
    running: usize,
    stopped: usize,
    succeeded: usize,
}

pub(super) fn phase(facts: &Facts<'_>, status: &PodStatus) -> &'static str {
    let pod = facts.pod;
    let inits = status.init_container_statuses.as_deref().unwrap_or_default();
    let mains = status.container_statuses.as_deref().unwrap_or_default();
    let count = count(mains);
    let init = init(pod, inits);
    if init == Init::Failed && pod.restart_policy() == RestartPolicy::Never && count.running == 0 {
        return if facts.is_ending && !facts.has_ended() { "Running" } else { "Failed" };
    }
    let has_begun = count.running + count.stopped > 0;
    if facts.has_ended() && has_begun {
        return if count.stopped == count.succeeded && count.waiting == 0 { "Succeeded" } else { "Failed" };
    }
    if (init != Init::Done && !has_begun) || count.waiting > 0 {
        return "Pending";
    }
    if count.running > 0 {
        return "Running";
    }
    if count.stopped == 0 {
        return "Pending";
    }
    // Sidecars may still be ending, or a restart is due.
    "Running"
}

#[derive(PartialEq, Eq)]
enum Init {
    Done,
    Pending,
    Failed,
}

fn init(pod: &Pod, statuses: &[ContainerStatus]) -> Init {
    let mut result = Init::Done;
    for (spec, status) in pod.init_containers().iter().zip(statuses) {
        let ended = terminated(status).map(|terminated| terminated.exit_code);
        let one = match (pod.role(spec), ended) {
            (Role::Sidecar, _) if status.started == Some(true) => Init::Done,
            (Role::Init, Some(0)) => Init::Done,
            (Role::Init, Some(_)) => Init::Failed,
            _ => Init::Pending,
        };
        match one {
            Init::Failed => return Init::Failed,
            Init::Pending => result = Init::Pending,
            Init::Done => {}
        }
    }
    result
}

fn count(statuses: &[ContainerStatus]) -> Count {
    let mut count = Count::default();
    for status in statuses {
        let state = status.state.clone().unwrap_or_default();
        match terminated(status) {
            _ if state.running.is_some() => count.running += 1,
            Some(ended) => {
                count.stopped += 1;
                count.succeeded += usize::from(ended.exit_code == 0 && state.terminated.is_some());
            }
            None => count.waiting += 1,
        }
    }
    count
}

/// The end of a container, or the last one if it waits for its restart.
fn terminated(status: &ContainerStatus) -> Option<&k8s_openapi::api::core::v1::ContainerStateTerminated> {
    let state = status.state.as_ref()?;
    if state.running.is_some() {
        return None;
    }
    state.terminated.as_ref().or_else(|| status.last_state.as_ref().and_then(|last| last.terminated.as_ref()))
}
