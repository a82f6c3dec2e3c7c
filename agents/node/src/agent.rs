//! The agent's loop: connects to libvirt, follows its events, and publishes what it says in the node's Hypervisor.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use c5c3_agent_publish::{Publisher, watch};
use c5c3_api::hypervisor::{Hypervisor, HypervisorStatus};
use c5c3_kit::condition::{ConditionState, find};
use futures::StreamExt;
use futures::stream::BoxStream;
use jiff::Timestamp;
use kube::{Api, Client};
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval_at};
use tokio_util::sync::CancellationToken;

use crate::connection::{Connection, LibvirtError};
use crate::facts::{self, Fixed, Instances};
use crate::failures::Failures;
use crate::metrics::NodeMetrics;
use crate::migrations::Migrations;
use crate::protocol::Event;

/// The field manager of what the agent writes in a Hypervisor's status.
pub const MANAGER: &str = "c5c3-node-agent";
/// The condition that the agent owns.
pub const CONNECTION: &str = "LibVirtConnection";

/// How often libvirt is asked whether it is there. With the time that it may take to answer, a hung libvirt is noticed
/// within four seconds; one that ended is noticed at once.
const PULSE: Duration = Duration::from_secs(2);
/// How soon a connection is tried again.
const RETRY: Duration = Duration::from_secs(2);
/// How often everything is asked for, though no event said that it changed.
const RESYNC: Duration = Duration::from_mins(1);
/// How often what libvirt was started with is asked for: CPUs may be taken offline.
const FIXED_RESYNC: Duration = Duration::from_mins(10);
/// How long events are gathered before domains are listed again.
const DEBOUNCE: Duration = Duration::from_millis(200);
const SECOND: Duration = Duration::from_secs(1);

/// What an agent is told.
#[derive(Clone, Debug)]
pub struct Options {
    /// The name of the node, and of its Hypervisor.
    pub node: String,
    /// The namespace of Migrations.
    pub namespace: String,
    /// libvirt's socket.
    pub socket: PathBuf,
    /// The driver, such as `qemu:///system`.
    pub uri: String,
    /// A file with what instances run with (`kvm` or `qemu`), as libvirt's pod has found out.
    pub virt_type: PathBuf,
    /// The host's `os-release`.
    pub os_release: PathBuf,
}

/// Runs until `stop`. Neither a libvirt nor a Hypervisor that is missing ends it.
pub async fn run(client: Client, options: Options, metrics: NodeMetrics, stop: CancellationToken) {
    let hypervisors: Api<Hypervisor> = Api::all(client.clone());
    let mut agent = Agent {
        watched: watch(hypervisors.clone(), &options.node),
        publisher: Publisher::new(hypervisors, MANAGER),
        migrations: Migrations::new(Api::namespaced(client, &options.namespace), &options.node),
        failures: Failures::default(),
        is_caught_up: false,
        options,
        metrics,
        live: None,
        known: None,
        connection: ConditionState::unmet(CONNECTION, "Connecting", "the agent has not reached libvirt yet"),
    };
    tokio::select! {
        () = stop.cancelled() => {}
        () = agent.work() => {}
    }
}

struct Agent {
    options: Options,
    watched: BoxStream<'static, Option<Hypervisor>>,
    publisher: Publisher<Hypervisor>,
    migrations: Migrations,
    failures: Failures,
    /// Whether it is known what happened to guests before this connection.
    is_caught_up: bool,
    metrics: NodeMetrics,
    /// The Hypervisor as it was seen last.
    live: Option<Hypervisor>,
    /// What libvirt said last.
    known: Option<(Fixed, Instances)>,
    connection: ConditionState,
}

impl Agent {
    async fn work(&mut self) {
        // What is published before the object was seen would be published for nothing.
        self.live = self.watched.next().await.flatten();
        loop {
            let error = match Connection::open(&self.options.socket, &self.options.uri).await {
                Ok((libvirt, events)) => self.follow(&libvirt, events).await,
                Err(error) => error,
            };
            let lost = self.connection.reason == "Connected";
            // Said once: the condition says it for as long as it is so.
            if lost {
                tracing::warn!(%error, "libvirt is gone; trying again");
            } else {
                tracing::debug!(%error, "libvirt is not there; trying again");
            }
            let reason = if lost { "Disconnected" } else { self.connection.reason.as_str() };
            let reason = if reason == "Disconnected" { reason } else { "ConnectFailed" };
            let message = format!("{error}; look at the libvirt pod of this node");
            self.connection = ConditionState::unmet(CONNECTION, reason, message);
            self.metrics.connected(false);
            self.publish().await;
            self.wait(RETRY).await;
        }
    }

    /// Keeps publishing for a while, for example to a Hypervisor that was created meanwhile.
    async fn wait(&mut self, time: Duration) {
        let end = Instant::now() + time;
        loop {
            tokio::select! {
                () = tokio::time::sleep_until(end) => return,
                Some(live) = self.watched.next() => {
                    self.live = live;
                    self.publish().await;
                }
            }
        }
    }

    /// Follows an open connection until it ends, and returns why it did.
    async fn follow(&mut self, libvirt: &Connection, mut events: mpsc::UnboundedReceiver<Event>) -> LibvirtError {
        self.is_caught_up = false;
        if let Err(error) = self.ask_everything(libvirt).await {
            return error;
        }
        if let Err(error) = self.migrations.adopt(libvirt).await {
            return error;
        }
        self.connection = ConditionState::met(CONNECTION, "Connected", "libvirt answers");
        self.metrics.connected(true);
        self.publish().await;

        let mut pulse = ticker(PULSE);
        let mut resync = ticker(RESYNC);
        let mut fixed_resync = ticker(FIXED_RESYNC);
        let mut second = ticker(SECOND);
        let mut due: Option<Instant> = None;
        loop {
            let debounced = tokio::time::sleep_until(due.unwrap_or_else(Instant::now));
            let done = tokio::select! {
                live = self.watched.next() => {
                    self.live = live.flatten();
                    let caught_up = self.catch_up(libvirt).await;
                    self.publish().await;
                    caught_up
                }
                event = events.recv() => match event {
                    None => Err(LibvirtError::Lost),
                    Some(event) => {
                        self.migrations.on(&event);
                        self.failures.on(&event, Timestamp::now());
                        due.get_or_insert(Instant::now() + DEBOUNCE);
                        Ok(())
                    }
                },
                () = debounced, if due.is_some() => {
                    due = None;
                    self.ask_instances(libvirt).await
                }
                _ = second.tick(), if !self.migrations.is_idle() => self.migrations.tick(libvirt).await,
                _ = pulse.tick() => libvirt.pulse().await,
                _ = resync.tick() => self.ask_instances(libvirt).await,
                _ = fixed_resync.tick() => self.ask_everything(libvirt).await,
            };
            if let Err(error) = done {
                return error;
            }
        }
    }

    async fn ask_everything(&mut self, libvirt: &Connection) -> Result<(), LibvirtError> {
        let virt_type = virt_type(&self.options.virt_type);
        let fixed = facts::fixed(libvirt, virt_type.as_deref(), &self.options.os_release).await?;
        let instances = facts::instances(libvirt, &fixed.host).await?;
        self.known = Some((fixed, instances));
        self.catch_up(libvirt).await?;
        self.publish().await;
        Ok(())
    }

    async fn ask_instances(&mut self, libvirt: &Connection) -> Result<(), LibvirtError> {
        let Some((fixed, instances)) = &mut self.known else { return Ok(()) };
        *instances = facts::instances(libvirt, &fixed.host).await?;
        self.publish().await;
        Ok(())
    }

    /// Looks for what happened to guests while there was no connection: events are not sent again. What was published last says
    /// which of them ran then, so that this comes before the next write.
    async fn catch_up(&mut self, libvirt: &Connection) -> Result<(), LibvirtError> {
        let Some(live) = self.live.as_ref().filter(|_| !self.is_caught_up) else { return Ok(()) };
        let status = live.status.as_ref();
        self.failures.adopt(status);
        let before = status.map(|status| status.instances.as_slice()).unwrap_or_default();
        let ran: HashSet<&str> = before.iter().filter(|one| one.active).map(|one| one.id.as_str()).collect();
        for domain in libvirt.domains().await? {
            let instance = domain.uuid.to_string();
            let was_active = ran.contains(instance.as_str());
            if !domain.is_active() && !was_active && !self.failures.concern(&instance) {
                continue;
            }
            match libvirt.state(&domain).await {
                Ok(state) => self.failures.found(&domain, state, was_active, Timestamp::now()),
                Err(error) if error.is_about_one_call() => {
                    tracing::debug!(%error, domain = domain.name, "whether it crashed is not known");
                }
                Err(error) => return Err(error),
            }
        }
        self.is_caught_up = true;
        Ok(())
    }

    /// Writes the agent's part of the status, if it differs from what is there.
    async fn publish(&mut self) {
        let Some(live) = &self.live else { return };
        self.failures.adopt(live.status.as_ref());
        if let Some((_, instances)) = &self.known {
            self.failures.expire(|instance| instances.all.iter().any(|one| one.id == instance), Timestamp::now());
        }
        self.metrics.failures(self.failures.count);
        let overcommit = live.spec.overcommit.as_ref();
        let status = match &self.known {
            Some((fixed, instances)) => facts::status(fixed, instances, overcommit),
            None => facts::remembered(live.status.as_ref()),
        };
        self.metrics.instances(status.num_instances.unwrap_or_default());
        let before = live.status.as_ref().and_then(|status| find(&status.conditions, CONNECTION));
        let condition = self.connection.to_condition(before, live.metadata.generation, Timestamp::now());
        let guest_failures = self.failures.list();
        let status = HypervisorStatus { conditions: vec![condition], guest_failures, ..status };
        match self.publisher.publish(live, json!(status)).await {
            Ok(Some(stored)) => {
                self.metrics.written();
                self.live = Some(stored);
            }
            Ok(None) => {}
            Err(error) => tracing::warn!(%error, "cannot publish; trying again with the next change or resync"),
        }
    }
}

/// A timer that first goes off after its interval.
fn ticker(period: Duration) -> tokio::time::Interval {
    let mut interval = interval_at(Instant::now() + period, period);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
}

/// What instances of this host run with.
fn virt_type(file: &Path) -> Option<String> {
    let found = std::fs::read_to_string(file).ok()?.trim().to_owned();
    (!found.is_empty() && found.len() < 32 && found.chars().all(|c| c.is_ascii_alphanumeric())).then_some(found)
}
