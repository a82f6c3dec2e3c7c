//! The statuses of a pod's containers.

use k8s_openapi::api::core::v1::{
    Container as Spec, ContainerState, ContainerStateRunning, ContainerStateTerminated, ContainerStateWaiting,
    ContainerStatus, VolumeMountStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::Facts;
use crate::decide::restarts;
use crate::observe::{Container, Exit, State};
use crate::pod::Role;

/// What `docker ps -a` could not say either: a container that is not there any more.
const LOST: &str = "ContainerStatusUnknown";

pub(super) fn statuses(facts: &Facts<'_>, containers: &[Spec]) -> Vec<ContainerStatus> {
    containers.iter().map(|container| status(facts, container)).collect()
}

/// Of ephemeral containers: no probe makes them ready, and none waits for their start.
pub(super) fn ephemeral(facts: &Facts<'_>, containers: &[Spec]) -> Vec<ContainerStatus> {
    let of = |container| ContainerStatus { ready: false, started: None, ..status(facts, container) };
    containers.iter().map(of).collect()
}

fn status(facts: &Facts<'_>, spec: &Spec) -> ContainerStatus {
    let mut runs = facts.observed.runs(&spec.name);
    let old = old(facts, spec);
    let Some(newest) = runs.next() else { return without_run(facts, spec, old) };
    let mut status = ContainerStatus {
        image: if newest.image.is_empty() { spec.image.clone().unwrap_or_default() } else { newest.image.clone() },
        image_id: newest.image_id.clone(),
        container_id: Some(container_id(newest)),
        restart_count: i32::try_from(newest.attempt).unwrap_or(i32::MAX),
        ..blank(spec)
    };
    status.last_state = runs.next().and_then(ended).map(terminated);
    status.state = Some(match (&newest.state, waiting(facts, spec)) {
        (State::Running { started }, _) => ContainerState {
            running: Some(ContainerStateRunning { started_at: Some(Time(*started)) }),
            ..ContainerState::default()
        },
        (State::Created, waiting) => state_waiting(waiting.unwrap_or_else(|| not_yet(facts, spec))),
        (State::Exited(_) | State::Unknown, Some(waiting)) if starts_again(facts, spec, newest) => {
            status.last_state = ended(newest).map(terminated);
            state_waiting(waiting)
        }
        (State::Exited(_) | State::Unknown, _) => ended(newest).map(terminated).unwrap_or_default(),
    });
    status.started = Some(newest.is_running() && has_started(facts, spec, newest));
    status.ready = is_ready(facts, spec, newest);
    if newest.is_running() {
        status.resources.clone_from(&spec.resources);
        status.allocated_resources = spec.resources.as_ref().and_then(|resources| resources.requests.clone());
    }
    status
}

/// Whether a container that does not run is to. One whose start failed is over, too, if its pod never restarts it.
fn starts_again(facts: &Facts<'_>, spec: &Spec, newest: &Container) -> bool {
    let is_over = matches!(newest.state, State::Exited(_)) && !restarts(facts.pod, newest, facts.pod.role(spec));
    !facts.is_ending && !is_over
}

/// A container that the runtime does not know: not started yet, or lost.
fn without_run(facts: &Facts<'_>, spec: &Spec, old: Option<&ContainerStatus>) -> ContainerStatus {
    let mut status = ContainerStatus { started: Some(false), ..blank(spec) };
    let old_state = old.and_then(|old| old.state.clone()).unwrap_or_default();
    if let (Some(old), Some(_)) = (old, &old_state.terminated) {
        return old.clone();
    }
    let lost = old_state.running.map(|_| ContainerStateTerminated {
        exit_code: 137,
        reason: Some(LOST.to_owned()),
        message: Some(
            "The container could not be located when the pod was deleted.  The container used to be Running".to_owned(),
        ),
        ..ContainerStateTerminated::default()
    });
    let waiting = waiting(facts, spec).unwrap_or_else(|| not_yet(facts, spec));
    match (lost, old) {
        (Some(lost), Some(old)) if facts.has_ended() => {
            ContainerStatus { state: Some(terminated(lost)), ready: false, started: Some(false), ..old.clone() }
        }
        (Some(lost), Some(old)) => {
            status.last_state = Some(terminated(lost));
            status.restart_count = old.restart_count + 1;
            ContainerStatus { state: Some(state_waiting(waiting)), ..status }
        }
        (_, old) => {
            status.restart_count = old.map_or(0, |old| old.restart_count);
            status.last_state = old.and_then(|old| old.last_state.clone());
            ContainerStatus { state: Some(state_waiting(waiting)), ..status }
        }
    }
}

fn blank(spec: &Spec) -> ContainerStatus {
    let mounts = spec.volume_mounts.as_ref().map(|mounts| {
        let shown = mounts.iter().map(|mount| VolumeMountStatus {
            name: mount.name.clone(),
            mount_path: mount.mount_path.clone(),
            read_only: mount.read_only,
            recursive_read_only: mount.read_only.filter(|is| *is).map(|_| "Disabled".to_owned()),
        });
        shown.collect()
    });
    ContainerStatus {
        name: spec.name.clone(),
        image: spec.image.clone().unwrap_or_default(),
        last_state: Some(ContainerState::default()),
        volume_mounts: mounts,
        ..ContainerStatus::default()
    }
}

fn old<'a>(facts: &Facts<'a>, spec: &Spec) -> Option<&'a ContainerStatus> {
    let status = facts.pod.status()?;
    let lists = [&status.container_statuses, &status.init_container_statuses, &status.ephemeral_container_statuses];
    let mut all = lists.into_iter().flatten().flatten();
    all.find(|old| old.name == spec.name)
}

pub(crate) fn container_id(container: &Container) -> String {
    format!("containerd://{}", container.id)
}

/// Why a container does not run although it should.
fn waiting(facts: &Facts<'_>, spec: &Spec) -> Option<ContainerStateWaiting> {
    let (reason, message) = match facts.crash_loops.get(&spec.name) {
        Some(message) => ("CrashLoopBackOff", message.clone()),
        None => facts.memory.holds.get(&spec.name).map(|hold| (hold.reason, hold.message.clone()))?,
    };
    let message = (!message.is_empty()).then_some(message);
    Some(ContainerStateWaiting { reason: Some(reason.to_owned()), message })
}

fn not_yet(facts: &Facts<'_>, spec: &Spec) -> ContainerStateWaiting {
    let is_init = matches!(facts.pod.role(spec), Role::Init | Role::Sidecar);
    let is_after_others = is_init || !facts.pod.init_containers().is_empty();
    let reason = if is_after_others { "PodInitializing" } else { "ContainerCreating" };
    ContainerStateWaiting { reason: Some(reason.to_owned()), message: None }
}

fn state_waiting(waiting: ContainerStateWaiting) -> ContainerState {
    ContainerState { waiting: Some(waiting), ..ContainerState::default() }
}

fn terminated(terminated: ContainerStateTerminated) -> ContainerState {
    ContainerState { terminated: Some(terminated), ..ContainerState::default() }
}

fn ended(run: &Container) -> Option<ContainerStateTerminated> {
    match &run.state {
        State::Exited(exit) => Some(of_exit(run, exit)),
        State::Unknown => Some(ContainerStateTerminated {
            exit_code: 137,
            reason: Some(LOST.to_owned()),
            message: Some("The container could not be located when the pod was terminated".to_owned()),
            container_id: Some(container_id(run)),
            ..ContainerStateTerminated::default()
        }),
        State::Created | State::Running { .. } => None,
    }
}

fn of_exit(run: &Container, exit: &Exit) -> ContainerStateTerminated {
    let fallback = if exit.code == 0 { "Completed" } else { "Error" };
    let reason = if exit.reason.is_empty() { fallback } else { &exit.reason };
    ContainerStateTerminated {
        exit_code: exit.code,
        reason: Some(reason.to_owned()),
        message: (!exit.message.is_empty()).then(|| exit.message.clone()),
        // A container that never ran shows the beginning of time, as everywhere.
        started_at: Some(Time(exit.started.unwrap_or(jiff::Timestamp::UNIX_EPOCH))),
        finished_at: Some(Time(exit.finished)),
        container_id: Some(container_id(run)),
        ..ContainerStateTerminated::default()
    }
}

fn has_started(facts: &Facts<'_>, spec: &Spec, run: &Container) -> bool {
    let is_plain_init = facts.pod.role(spec) == Role::Init;
    let passed = facts.memory.health.get(&run.id).is_some_and(|health| health.has_started);
    !is_plain_init && (spec.startup_probe.is_none() || passed)
}

fn is_ready(facts: &Facts<'_>, spec: &Spec, run: &Container) -> bool {
    if facts.pod.role(spec) == Role::Init {
        return run.has_succeeded();
    }
    let passed = facts.memory.health.get(&run.id).is_some_and(|health| health.is_ready);
    run.is_running() && has_started(facts, spec, run) && (spec.readiness_probe.is_none() || passed)
}
