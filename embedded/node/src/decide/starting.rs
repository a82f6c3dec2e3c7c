//! Getting a pod to run and keeping it running: a sandbox, the init containers in order, then all the others.

use std::time::Duration;

use k8s_openapi::api::core::v1::Container as Spec;

use super::{Action, Plan, Situation, Why, restarts};
use crate::back_off::{LONGEST, is_ahead};
use crate::observe::{Container, State};
use crate::pod::{Role, hash};

/// How far a container is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Progress {
    /// It has done what it is for, or is up: what comes after it may start.
    Done,
    /// It has to get somewhere first.
    Pending,
}

pub(super) fn plan(situation: Situation<'_>) -> Plan {
    let mut start = Start { situation, plan: Plan::default() };
    if let Some(hold) = situation.memory.pod_hold.as_ref().filter(|hold| is_ahead(hold.until, situation.now, LONGEST)) {
        start.plan.wake_at(hold.until);
    } else if situation.observed.sandbox().is_none() {
        start.sandbox();
    } else {
        start.containers();
        start.forget();
    }
    start.plan
}

struct Start<'a> {
    situation: Situation<'a>,
    plan: Plan,
}

impl Start<'_> {
    /// A new sandbox, once nothing runs in an old one.
    fn sandbox(&mut self) {
        let observed = self.situation.observed;
        if observed.running().next().is_some() {
            self.plan.actions.push(Action::StopAll);
            return;
        }
        let newest = observed.sandboxes.first();
        if let Some(dead) = newest {
            self.plan.actions.push(Action::StopSandbox { id: dead.id.clone() });
        }
        self.plan.actions.push(Action::CreateSandbox { attempt: newest.map_or(0, |newest| newest.attempt + 1) });
    }

    fn containers(&mut self) {
        let pod = self.situation.pod;
        // Also before the init containers are done: they are there to see why that takes so long.
        for container in pod.ephemeral_containers() {
            self.ephemeral(container);
        }
        let main_has_run = pod.main_containers().iter().any(|main| self.run(&main.name).is_some());
        for container in pod.init_containers() {
            let role = pod.role(container);
            // Init containers that did their work may have been removed since.
            if main_has_run && role == Role::Init {
                continue;
            }
            if self.tend(container, role) == Progress::Pending && !main_has_run {
                return;
            }
        }
        for container in pod.main_containers() {
            self.tend(container, Role::Main);
        }
    }

    /// An ephemeral container starts once, whatever becomes of it.
    fn ephemeral(&mut self, container: &Spec) {
        let Situation { pod, observed, .. } = self.situation;
        let mut known =
            pod.status().and_then(|status| status.ephemeral_container_statuses.as_ref()).into_iter().flatten();
        let has_run = known.any(|known| known.name == container.name && known.container_id.is_some());
        match observed.newest(&container.name) {
            Some(run) if run.state == State::Created => {
                self.plan.actions.push(Action::RemoveContainer { id: run.id.clone() });
                self.start(container);
            }
            None if !has_run => self.start(container),
            Some(_) | None => {}
        }
    }

    /// The latest run of a container in the sandbox that there is now.
    fn run(&self, name: &str) -> Option<&'_ Container> {
        let observed = self.situation.observed;
        let sandbox = observed.sandbox()?;
        observed.runs(name).find(|run| run.sandbox == sandbox.id)
    }

    fn tend(&mut self, container: &Spec, role: Role) -> Progress {
        let observed = self.situation.observed;
        let newest = observed.newest(&container.name);
        // A main container that ended before the sandbox was lost has ended; init containers run in every sandbox.
        let run = self.run(&container.name).or(newest.filter(|_| role == Role::Main)).cloned();
        let Some(run) = run else {
            self.start(container);
            return Progress::Pending;
        };
        match &run.state {
            State::Running { .. } => self.watch_over(container, &run),
            State::Created | State::Unknown => {
                // Left over from a start that was cut short.
                self.plan.actions.push(Action::RemoveContainer { id: run.id.clone() });
                self.start(container);
                Progress::Pending
            }
            State::Exited(_) if restarts(self.situation.pod, &run, role) => {
                self.start(container);
                Progress::Pending
            }
            State::Exited(_) => Progress::Done,
        }
    }

    fn watch_over(&mut self, container: &Spec, run: &Container) -> Progress {
        let health = self.situation.memory.health.get(&run.id);
        let failed = health.and_then(|health| health.failed);
        let why = if hash(container) == run.hash { failed.map(Why::Unhealthy) } else { Some(Why::Changed) };
        if let Some(why) = why {
            self.plan.actions.push(Action::StopContainer { id: run.id.clone(), why });
            return Progress::Pending;
        }
        let is_sidecar = container.restart_policy.as_deref() == Some("Always");
        let is_up = container.startup_probe.is_none() || health.is_some_and(|health| health.has_started);
        if is_sidecar && is_up { Progress::Done } else { Progress::Pending }
    }

    /// Starts a container, unless it failed a short while ago.
    fn start(&mut self, container: &Spec) {
        let Situation { pod, observed, memory, now, .. } = self.situation;
        let name = &container.name;
        if let Some(hold) = memory.holds.get(name).filter(|hold| is_ahead(hold.until, now, LONGEST)) {
            self.plan.wake_at(hold.until);
            return;
        }
        let newest = observed.newest(name);
        let wait = newest.and_then(Container::exit).and_then(|exit| memory.crashes.wait(name, exit.finished, now));
        if let Some(wait) = wait {
            let (delay, pod) = (go_duration(wait.delay), pod.description());
            let message = format!("back-off {delay} restarting failed container={name} pod={pod}");
            self.plan.crash_loops.insert(name.clone(), message);
            self.plan.wake_at(wait.until);
            return;
        }
        let attempt = match newest {
            Some(cut_short) if cut_short.state == State::Created => cut_short.attempt,
            Some(ended) => ended.attempt + 1,
            None => self.attempt_after_loss(name),
        };
        self.plan.actions.push(Action::StartContainer { name: name.clone(), attempt });
    }

    /// A container that the API has seen and the runtime does not know any more has been restarted once more.
    fn attempt_after_loss(&self, name: &str) -> u32 {
        let status = self.situation.pod.status();
        let all = status
            .map(|status| status.container_statuses.iter().chain(status.init_container_statuses.iter()).flatten());
        let known = all.into_iter().flatten().find(|known| known.name == name && known.container_id.is_some());
        known.map_or(0, |known| u32::try_from(known.restart_count).unwrap_or(0) + 1)
    }

    /// Runs before the previous one, which `kubectl logs --previous` shows, and sandboxes that hold nothing any more.
    fn forget(&mut self) {
        let observed = self.situation.observed;
        for container in self.situation.pod.containers() {
            for old in observed.runs(&container.name).skip(2).filter(|old| old.exit().is_some()) {
                self.plan.actions.push(Action::RemoveContainer { id: old.id.clone() });
            }
        }
        for old in observed.sandboxes.iter().skip(1).filter(|sandbox| !sandbox.is_ready) {
            if observed.containers.iter().all(|container| container.sandbox != old.id) {
                self.plan.actions.push(Action::RemoveSandbox { id: old.id.clone() });
            }
        }
    }
}

/// A duration as Go prints it: `10s`, `1m20s`, `5m0s`.
pub(crate) fn go_duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds}s"),
        (0, minutes, seconds) => format!("{minutes}m{seconds}s"),
        (hours, minutes, seconds) => format!("{hours}h{minutes}m{seconds}s"),
    }
}
