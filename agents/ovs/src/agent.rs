//! The agent's loop: watches the database, asks the daemons, and publishes what it sees in the node's OVSNode.

use std::path::{Path, PathBuf};
use std::time::Duration;

use c5c3_agent_publish::{Publisher, watch};
use c5c3_api::ovs::{OVSNode, OVSNodeStatus, Traffic};
use c5c3_kit::condition::{ConditionState, find};
use futures::StreamExt;
use futures::stream::BoxStream;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, Patch, PatchParams};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch as channel};
use tokio::time::{Instant, MissedTickBehavior, interval_at};
use tokio_util::sync::CancellationToken;

use crate::capture;
use crate::database::{self, Counters, Rows, Switch};
use crate::health::{self, Ovn};
use crate::metrics::OvsMetrics;
use crate::openflow;
use crate::rpc::{self, Rpc, RpcError};
use crate::stale::{self, Ports, Stale};
use crate::status::{self, Flows, Surroundings};

/// The field manager of everything that the agent writes.
pub const MANAGER: &str = "c5c3-ovs-agent";

/// How soon a connection is tried again.
const RETRY: Duration = Duration::from_secs(2);
/// How often the daemons are asked, and flows are counted.
const LOOK: Duration = Duration::from_secs(5);
/// How often counters of interfaces are read for Prometheus.
const COUNT: Duration = Duration::from_secs(30);
/// How often traffic in the status is brought up to date, if nothing else changes.
const TRAFFIC: Duration = Duration::from_mins(10);
/// How long changes are gathered, and how far apart writes are at least.
const DEBOUNCE: Duration = Duration::from_millis(500);
const BETWEEN_WRITES: Duration = Duration::from_secs(5);

/// What an agent is told.
#[derive(Clone, Debug)]
pub struct Options {
    /// The name of the node, and of its OVSNode.
    pub node: String,
    /// The namespace of OVSNodes.
    pub namespace: String,
    /// The folder of Open vSwitch's sockets.
    pub run: PathBuf,
    /// The control socket of ovn-controller.
    pub controller: PathBuf,
}

/// Runs until `stop`. Neither an Open vSwitch nor an API server that is missing ends it.
pub async fn run(client: Client, options: Options, metrics: OvsMetrics, stop: CancellationToken) {
    let nodes: Api<OVSNode> = Api::namespaced(client.clone(), &options.namespace);
    let (ports, of_interest) = channel::channel(Ports::new());
    let (found, stale) = channel::channel(Stale::new());
    let reader = stale::follow(options.run.clone(), of_interest, found);
    let mut agent = Agent {
        watched: watch(nodes.clone(), &options.node),
        publisher: Publisher::new(nodes.clone(), MANAGER),
        nodes,
        client,
        options,
        metrics,
        live: None,
        rows: Rows::default(),
        around: None,
        counters: Counters::default(),
        traffic: (Traffic::default(), None),
        lost: None,
        ports,
        stale,
    };
    tokio::select! {
        () = stop.cancelled() => {}
        () = agent.work() => {}
        () = reader => {}
    }
}

struct Agent {
    options: Options,
    client: Client,
    nodes: Api<OVSNode>,
    watched: BoxStream<'static, Option<OVSNode>>,
    publisher: Publisher<OVSNode>,
    metrics: OvsMetrics,
    /// The OVSNode as it was seen last.
    live: Option<OVSNode>,
    rows: Rows,
    /// What was found out besides the database; nothing until then.
    around: Option<Surroundings>,
    counters: Counters,
    /// Traffic as it is published, and since when.
    traffic: (Traffic, Option<Instant>),
    /// Why the database does not answer.
    lost: Option<String>,
    /// What the reader of flows looks at, and what it found.
    ports: channel::Sender<Ports>,
    stale: channel::Receiver<Stale>,
}

impl Agent {
    async fn work(&mut self) {
        self.live = self.watched.next().await.flatten();
        loop {
            let error = match Rpc::connect(&self.options.run.join("db.sock")).await {
                Ok((rpc, updates)) => self.follow(&rpc, updates).await,
                Err(error) => error,
            };
            // Said once: the conditions say it for as long as it is so.
            if self.lost.is_none() {
                tracing::warn!(%error, "the database of Open vSwitch is not there; trying again");
            } else {
                tracing::debug!(%error, "the database of Open vSwitch is not there; trying again");
            }
            self.lost = Some(error.to_string());
            self.metrics.connected(false);
            self.publish().await;
            self.wait(RETRY).await;
        }
    }

    /// Follows changes of the OVSNode for a while.
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

    /// Follows the database until the connection ends, and returns why it did.
    async fn follow(&mut self, rpc: &Rpc, mut updates: mpsc::Receiver<Value>) -> RpcError {
        let monitor = json!([database::DATABASE, "c5c3", database::watched()]);
        let rows = match rpc.call("monitor", monitor).await {
            Ok(rows) => rows,
            Err(error) => return error,
        };
        self.rows = Rows::default();
        self.rows.update(rows);
        if let Err(error) = self.count(rpc, &mut updates).await {
            return error;
        }
        self.look().await;
        self.lost = None;
        self.metrics.connected(true);
        self.publish().await;

        let (mut look, mut count) = (ticker(LOOK), ticker(COUNT));
        let mut last_write = Instant::now();
        let mut due: Option<Instant> = None;
        loop {
            let debounced = tokio::time::sleep_until(due.unwrap_or(last_write));
            tokio::select! {
                update = updates.recv() => match update {
                    None => return RpcError::Lost,
                    Some(update) => {
                        self.rows.notified(update);
                        due.get_or_insert((Instant::now() + DEBOUNCE).max(last_write + BETWEEN_WRITES));
                    }
                },
                live = self.watched.next() => {
                    self.live = live.flatten();
                    due.get_or_insert((Instant::now() + DEBOUNCE).max(last_write + BETWEEN_WRITES));
                }
                Ok(()) = self.stale.changed() => {
                    due.get_or_insert((Instant::now() + DEBOUNCE).max(last_write + BETWEEN_WRITES));
                }
                () = debounced, if due.is_some() => {
                    due = None;
                    if self.publish().await {
                        last_write = Instant::now();
                    }
                }
                _ = look.tick() => {
                    self.look().await;
                    due.get_or_insert((Instant::now() + DEBOUNCE).max(last_write + BETWEEN_WRITES));
                }
                _ = count.tick() => match self.count(rpc, &mut updates).await {
                    Err(error) => return error,
                    Ok(false) => {}
                    Ok(true) => {
                        due.get_or_insert((Instant::now() + DEBOUNCE).max(last_write + BETWEEN_WRITES));
                    }
                },
            }
        }
    }

    /// Asks the daemons how they are.
    async fn look(&mut self) {
        let run = self.options.run.clone();
        if self.rows.has_capture() {
            sweep(&run).await;
        }
        let switch = self.rows.switch();
        self.ports.send_if_modified(|known| {
            let now = ports(&switch);
            std::mem::replace(known, now.clone()) != now
        });
        let mut flows = Flows::new();
        for bridge in &switch.bridges {
            match openflow::flows(&run.join(format!("{}.mgmt", bridge.name))).await {
                Ok(tables) => drop(flows.insert(bridge.name.clone(), tables)),
                Err(error) => tracing::debug!(%error, bridge = bridge.name, "its flows are not known"),
            }
        }
        let ovn = match switch.external_ids.get("ovn-remote") {
            None => Ovn::Unused,
            Some(_) => match rpc::command(&self.options.controller, "connection-status", &[]).await {
                Ok(said) if said == "connected" => Ovn::Connected,
                Ok(_) => Ovn::Disconnected,
                Err(error) => Ovn::Unreachable(error.to_string()),
            },
        };
        self.metrics.flows(&flows);
        self.metrics.looked();
        self.around = Some(Surroundings {
            ovs_version: version(&run.join("ovs-vswitchd.ctl")).await,
            ovsdb_version: version(&run.join("ovsdb-server.ctl")).await,
            flows,
            ovn,
        });
    }

    /// Reads the counters, and says whether rows changed meanwhile.
    async fn count(&mut self, rpc: &Rpc, updates: &mut mpsc::Receiver<Value>) -> Result<bool, RpcError> {
        let (rows, mut changed) = (&mut self.rows, false);
        let take = |update| {
            rows.notified(update);
            changed = true;
        };
        let answer = rpc.call_among(updates, take, ("transact", Counters::question())).await?;
        self.counters = Counters::read(&answer);
        self.metrics.counters(self.counters.clone());
        Ok(changed)
    }

    /// Writes the status if it differs from what is there, and says whether it did.
    async fn publish(&mut self) -> bool {
        if self.live.is_none() {
            match self.create().await {
                Ok(created) => self.live = Some(created),
                Err(error) => {
                    tracing::warn!(%error, "cannot create the OVSNode; trying again");
                    return false;
                }
            }
        }
        let Some(live) = &self.live else { return false };
        // Traffic alone is no reason for a write, or there would be one every time.
        let is_old = self.traffic.1.is_none_or(|since| since.elapsed() >= TRAFFIC);
        if is_old {
            self.traffic = (status::traffic(&self.counters), Some(Instant::now()));
        }
        let wanted = self.desired(live);
        match self.publisher.publish(live, json!(wanted)).await {
            Ok(Some(stored)) => {
                self.metrics.written();
                self.live = Some(stored);
                true
            }
            Ok(None) => false,
            Err(error) => {
                tracing::warn!(%error, "cannot publish; trying again with the next look");
                false
            }
        }
    }

    /// The status as it should be.
    fn desired(&self, live: &OVSNode) -> OVSNodeStatus {
        let (before, now) = (live.status.as_ref(), Timestamp::now());
        let known = before.map(|before| before.conditions.as_slice()).unwrap_or_default();
        let dated = |states: Vec<ConditionState>| {
            let dated = states
                .iter()
                .map(|state| state.to_condition(find(known, &state.condition), live.metadata.generation, now));
            dated.collect::<Vec<_>>()
        };
        if let (None, Some(around)) = (&self.lost, &self.around) {
            let switch = self.rows.switch();
            let mut findings = health::findings(&switch);
            findings.extend(health::stale_flows(&switch, &self.stale.borrow()));
            self.metrics.issues(findings.len());
            let conditions = dated(health::conditions(&findings, &around.ovn));
            let status = status::status(&switch, around, &self.traffic.0, &findings, before, now);
            return OVSNodeStatus { conditions, ..status };
        }
        // What was known stays, but for the conditions that say that it is not known any more.
        let mut kept = before.cloned().unwrap_or_default();
        let changed = dated(health::unreachable(self.lost.as_deref().unwrap_or("it was not asked yet")));
        kept.conditions.retain(|old| !changed.iter().any(|new| new.r#type == old.r#type));
        kept.conditions.extend(changed);
        kept
    }

    /// Creates the OVSNode, which goes with the node.
    async fn create(&mut self) -> Result<OVSNode, kube::Error> {
        let node: Option<Node> = Api::all(self.client.clone()).get_opt(&self.options.node).await?;
        let owner = node.and_then(|node| {
            Some(json!([{"apiVersion": "v1", "kind": "Node", "name": node.name_any(), "uid": node.uid()?}]))
        });
        let name = &self.options.node;
        let mut object = json!({"apiVersion": "ovs.c5c3.io/v1alpha1", "kind": "OVSNode",
            "metadata": {"name": name}, "spec": {"nodeRef": {"name": name}}});
        if let Some(owner) = owner {
            object["metadata"]["ownerReferences"] = owner;
        }
        self.nodes.patch(name, &PatchParams::apply(MANAGER).force(), &Patch::Apply(&object)).await
    }
}

/// Removes what a capture left that was killed.
async fn sweep(run: &Path) {
    match capture::sweep(run).await {
        Ok(true) => tracing::info!("removed the mirror that a capture left when it was killed"),
        Ok(false) => {}
        Err(error) => tracing::warn!(%error, "cannot remove the mirror that a capture left; trying again"),
    }
}

/// The names of each bridge's ports.
fn ports(switch: &Switch) -> Ports {
    let names = |ports: &[database::Port]| ports.iter().map(|port| port.name.clone()).collect();
    switch.bridges.iter().map(|bridge| (bridge.name.clone(), names(&bridge.ports))).collect()
}

/// The version of a daemon, the last word of what it says.
async fn version(socket: &Path) -> Option<String> {
    let said = rpc::command(socket, "version", &[]).await.ok()?;
    said.lines().next()?.split_whitespace().next_back().map(|word| word.chars().take(64).collect())
}

/// A timer that first goes off after its interval.
fn ticker(period: Duration) -> tokio::time::Interval {
    let mut interval = interval_at(Instant::now() + period, period);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
}
