//! Probes: each with its own timer, each counting its own successes and failures.

mod attempt;
mod grpc;
mod http;
mod tally;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use c5c3_cri::Runtime;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container as Spec, Probe};
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep};
use tokio_util::task::AbortOnDropHandle;

pub(crate) use attempt::{Failure, Target, http_get};
use tally::Tally;

use crate::bell::Bell;
use crate::memory::{Failed, Health, Memory};
use crate::observe::{Container, Observed, State};
use crate::pod::{Pod, Role};
use crate::voice::Voice;

/// What a probe is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    Startup,
    Liveness,
    Readiness,
}

/// A container that has just started is probed again at least this soon.
const SOONEST: Duration = Duration::from_millis(50);

/// The probes of a pod's running containers, by the containers' identifiers.
#[derive(Default)]
pub(crate) struct Probes {
    running: HashMap<String, Vec<AbortOnDropHandle<()>>>,
}

/// What probes need of their pod.
pub(crate) struct Surroundings<'a> {
    pub(crate) pod: &'a Pod,
    pub(crate) runtime: &'a Runtime,
    pub(crate) voice: &'a Voice,
    pub(crate) memory: &'a Arc<Mutex<Memory>>,
    pub(crate) bell: &'a Arc<Bell>,
    pub(crate) pod_ip: &'a str,
}

impl Probes {
    /// Starts the probes of containers that run now, and ends those of others.
    pub(crate) fn follow(&mut self, around: &Surroundings<'_>, observed: &Observed) {
        self.running.retain(|id, _| observed.running().any(|container| container.id == *id));
        for container in observed.running() {
            let Some(spec) = around.pod.container(&container.name) else { continue };
            let State::Running { started } = container.state else { continue };
            if around.pod.role(spec) == Role::Init || self.running.contains_key(&container.id) {
                continue;
            }
            self.running.insert(container.id.clone(), begin(around, spec, container, started));
        }
    }

    /// Ends all probes.
    pub(crate) fn end(&mut self) {
        self.running.clear();
    }
}

fn begin(
    around: &Surroundings<'_>,
    spec: &Spec,
    container: &Container,
    started: Timestamp,
) -> Vec<AbortOnDropHandle<()>> {
    remember_readiness(around, container);
    let has_started = Arc::new(tokio::sync::watch::Sender::new(spec.startup_probe.is_none()));
    let all = [
        (Purpose::Startup, &spec.startup_probe),
        (Purpose::Liveness, &spec.liveness_probe),
        (Purpose::Readiness, &spec.readiness_probe),
    ];
    let tasks = all.into_iter().filter_map(|(purpose, probe)| {
        let one = One {
            purpose,
            probe: probe.clone()?,
            target: Target::new(around.runtime.clone(), spec, &container.id, around.pod_ip),
            pod: around.pod.clone(),
            voice: around.voice.clone(),
            memory: Arc::clone(around.memory),
            bell: Arc::clone(around.bell),
            has_started: Arc::clone(&has_started),
            started,
        };
        Some(AbortOnDropHandle::new(tokio::spawn(one.run())))
    });
    tasks.collect()
}

/// A container that was ready before this process started is, until its probe says otherwise.
fn remember_readiness(around: &Surroundings<'_>, container: &Container) {
    let id = crate::status::container_id(container);
    let status = around.pod.status();
    let known = status.and_then(|status| {
        let mut all = status.container_statuses.iter().chain(status.init_container_statuses.iter()).flatten();
        all.find(|known| known.container_id.as_ref() == Some(&id))
    });
    let health = Health {
        has_started: known.is_some_and(|known| known.started == Some(true)),
        is_ready: known.is_some_and(|known| known.ready),
        failed: None,
    };
    let mut memory = around.memory.lock().unwrap_or_else(PoisonError::into_inner);
    memory.health.entry(container.id.clone()).or_insert(health);
}

/// One probe of one run of a container.
struct One {
    purpose: Purpose,
    probe: Probe,
    target: Target,
    pod: Pod,
    voice: Voice,
    memory: Arc<Mutex<Memory>>,
    bell: Arc<Bell>,
    /// The startup probe has succeeded, or there is none: until then the others do not begin.
    has_started: Arc<tokio::sync::watch::Sender<bool>>,
    started: Timestamp,
}

impl One {
    async fn run(self) {
        if self.purpose != Purpose::Startup {
            // The sender is held by this very probe.
            let _ = self.has_started.subscribe().wait_for(|has_started| *has_started).await;
        }
        let seconds =
            |value: Option<i32>, default: u64| value.and_then(|value| u64::try_from(value).ok()).unwrap_or(default);
        let delay = Duration::from_secs(seconds(self.probe.initial_delay_seconds, 0));
        let age = Duration::try_from(Timestamp::now().duration_since(self.started)).unwrap_or_default();
        let first = Instant::now() + delay.saturating_sub(age);
        let period = Duration::from_secs(seconds(self.probe.period_seconds, 10).max(1));
        let mut ticks = interval_at(first, period);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut tally = Tally::new(self.probe.success_threshold, self.probe.failure_threshold);
        let mut is_awaited = false;
        loop {
            // Between its turns a probe can bring nothing but the news that is waited for.
            let is_its_turn = tokio::select! {
                biased;
                _ = ticks.tick() => true,
                () = sleep(self.pause()), if is_awaited => false,
            };
            let outcome = self.target.try_once(&self.probe).await;
            if let Err(failure) = &outcome {
                if !is_its_turn {
                    continue;
                }
                self.tell(failure);
            }
            is_awaited = outcome.is_err() && (is_awaited || tally.is_empty() && self.may_be_tried_between());
            let Some(verdict) = tally.count(outcome.is_ok()) else { continue };
            if self.conclude(verdict) {
                return;
            }
        }
    }

    /// Whether it is worth and cheap enough to look between the turns: one answer is enough, and a connection is all it takes.
    fn may_be_tried_between(&self) -> bool {
        self.purpose != Purpose::Liveness && self.probe.exec.is_none() && self.probe.success_threshold.unwrap_or(1) <= 1
    }

    /// How long to wait before looking again: in proportion to how long it has taken already.
    fn pause(&self) -> Duration {
        let age = Duration::try_from(Timestamp::now().duration_since(self.started)).unwrap_or_default();
        (age / 8).max(SOONEST)
    }

    fn tell(&self, failure: &Failure) {
        let what = match failure {
            Failure::Failed(_) => "failed",
            Failure::Errored(_) => "errored",
        };
        let (Failure::Failed(why) | Failure::Errored(why)) = failure;
        let message = format!("{:?} probe {what}: {why}", self.purpose);
        self.voice.warning(&self.pod, Some(self.target.container()), "Unhealthy", message);
    }

    /// Remembers the verdict; true if this probe has nothing more to say.
    fn conclude(&self, is_good: bool) -> bool {
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        let health = memory.health.entry(self.target.id().to_owned()).or_default();
        let before = health.clone();
        let is_done = match (self.purpose, is_good) {
            (Purpose::Readiness, ready) => {
                health.is_ready = ready;
                false
            }
            (Purpose::Startup, true) => {
                health.has_started = true;
                self.has_started.send_replace(true);
                true
            }
            (Purpose::Startup, false) => {
                health.failed = Some(Failed::Startup);
                true
            }
            (Purpose::Liveness, true) => false,
            (Purpose::Liveness, false) => {
                health.failed = Some(Failed::Liveness);
                true
            }
        };
        if *health != before {
            self.bell.ring();
        }
        is_done
    }
}
