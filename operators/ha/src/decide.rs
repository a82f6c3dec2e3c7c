//! What to do about a host: a pure function of what is known.

use std::collections::BTreeSet;

use c5c3_openstack::compute::evacuation::{ComputeService, Migration, Server};
use jiff::Timestamp;

use crate::Policy;
use crate::task::{self, Tried};

/// How a node is, as its cluster says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Power {
    /// It is ready.
    Ready,
    /// It is not, since then.
    Lost(Timestamp),
    /// There is no node, or it has never said anything.
    Unknown,
}

/// What is known of a host without asking Nova.
#[derive(Clone, Debug)]
pub struct Host {
    /// The name of the node, of the Hypervisor and of the compute service.
    pub name: String,
    /// Whether its servers are to be started elsewhere when it fails.
    pub high_availability: bool,
    /// How the node is.
    pub power: Power,
    /// When the host was confirmed to be off; none when it was not, or when that is over.
    pub fenced_at: Option<Timestamp>,
    /// The servers that ran when it was fenced, once they were recorded.
    pub running: Option<BTreeSet<String>>,
    /// For which reason it is reported as failed, if it is.
    pub reported: Option<String>,
}

impl Host {
    /// Whether the fence holds: a node that was ready after it has been switched on again.
    pub fn is_fenced(&self) -> bool {
        match (self.fenced_at, self.power) {
            (Some(fenced), Power::Lost(since)) => since <= fenced,
            (fenced, _) => fenced.is_some(),
        }
    }

    /// Whether its servers are elsewhere and nothing is left to do until it comes back.
    pub fn is_evacuated(&self) -> bool {
        self.is_fenced() && self.power != Power::Ready && self.reported.as_deref() == Some(EVACUATED)
    }

    /// Whether there may be something to do about it, or to tell.
    pub fn is_of_interest(&self) -> bool {
        let concerns = matches!(self.power, Power::Lost(_)) || self.fenced_at.is_some() || self.reported.is_some();
        concerns && !self.is_evacuated()
    }

    /// Since when it is failed: lost for longer than the policy's patience.
    fn failed_since(&self, policy: &Policy, now: Timestamp) -> Option<Timestamp> {
        match self.power {
            Power::Lost(since) => {
                let lost = std::time::Duration::try_from(now.duration_since(since)).unwrap_or_default();
                (lost >= policy.patience).then_some(since)
            }
            Power::Ready | Power::Unknown => None,
        }
    }
}

/// What Nova knows of a fenced host.
#[derive(Clone, Debug, Default)]
pub struct NovaHost {
    /// Its compute service.
    pub service: Option<ComputeService>,
    /// The servers on it.
    pub here: Vec<Server>,
    /// The servers that ran on it and are elsewhere now, as they are there.
    pub moved: Vec<Server>,
    /// The evacuations since it was fenced.
    pub evacuations: Vec<Migration>,
}

/// What is known of a host and of the others.
#[derive(Clone, Debug)]
pub struct Known {
    /// The host.
    pub host: Host,
    /// What Nova knows, if the host is fenced; or why Nova does not say.
    pub nova: Option<Result<NovaHost, String>>,
    /// Why no host may be given up now, if too many are lost.
    pub cliff: Option<String>,
    /// Why nothing can be fenced, if so.
    pub fencing: Option<String>,
}

/// A call that is to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Have the host switched off; since when it is lost is the identity of the failure.
    Fence(Timestamp),
    /// Write down which servers ran.
    Record(BTreeSet<String>),
    /// Declare the compute service down.
    ForceDown(String),
    /// Disable the compute service, or change the reason.
    Disable(String, String),
    /// Start a server elsewhere.
    Evacuate(String),
    /// Start a server that was evacuated.
    Start(String),
    /// Start a server again on the host where it crashed.
    Restart(String),
    /// The compute service may be up again.
    LiftForceDown(String),
    /// Enable the compute service.
    Enable(String),
    /// The failure is over.
    Forget,
}

/// What is to be done and told.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Decided {
    /// The calls, in order. A later turn sees what came of them.
    pub actions: Vec<Action>,
    /// What is told of the host: whether it is failed, a reason for programs and a message for people. What was told before stays
    /// when absent.
    pub report: Option<(bool, &'static str, String)>,
}

impl Decided {
    fn told(reason: &'static str, message: impl Into<String>) -> Self {
        Self { actions: Vec::new(), report: Some((true, reason, message.into())) }
    }

    fn with(mut self, actions: impl IntoIterator<Item = Action>) -> Self {
        self.actions.extend(actions);
        self
    }
}

/// The prefix of the reason for which we disable a compute service. One with another reason is not ours.
pub(crate) const OURS: &str = "c5c3 ha: ";

/// The longest reason that Nova takes.
const LONGEST_REASON: usize = 255;

/// The reason of a host whose servers are all elsewhere.
const EVACUATED: &str = "Evacuated";

/// Why no host may be given up now: too many are lost at once. A host whose servers are elsewhere counts no more.
pub fn cliff(hosts: &[Host], policy: &Policy) -> Option<String> {
    let total = hosts.len();
    let lost: Vec<&str> = hosts
        .iter()
        .filter(|host| matches!(host.power, Power::Lost(_)) && !host.is_evacuated())
        .map(|host| host.name.as_str())
        .collect();
    let most = (total * policy.most_failed_percent / 100).max(1);
    (lost.len() > most).then(|| {
        let (count, shown) = (lost.len(), lost.iter().take(10).copied().collect::<Vec<_>>().join(", "));
        format!(
            "{count} of {total} hosts are not ready ({shown}), and at most {most} may fail at once: the network or the control plane \
             may be at fault, and the hosts may still run; bring some back, or switch them off and delete their nodes"
        )
    })
}

/// What to do about a host.
pub fn decide(known: &Known, policy: &Policy, now: Timestamp) -> Decided {
    let host = &known.host;
    if host.is_evacuated() {
        return Decided::default();
    }
    if host.is_fenced() {
        return match &known.nova {
            Some(Ok(nova)) => fenced(host, nova, policy),
            Some(Err(why)) => {
                Decided::told("NovaUnavailable", format!("the host is off, and Nova cannot be asked: {why}"))
            }
            None => Decided::told("NovaUnavailable", "the host is off, and Nova was not asked yet"),
        };
    }
    let Some(since) = host.failed_since(policy, now) else {
        let recovered = host.reported.is_some() && host.power == Power::Ready;
        let report = recovered.then(|| (false, "Returned", "the node is ready again".to_owned()));
        return Decided { actions: Vec::new(), report };
    };
    if !host.high_availability {
        return Decided::told("NotWanted", format!("not ready since {since}, and spec.highAvailability is false"));
    }
    if let Some(why) = &known.cliff {
        return Decided::told("TooManyHosts", format!("nothing is evacuated: {why}"));
    }
    if let Some(why) = &known.fencing {
        return Decided::told(
            "FencingUnavailable",
            format!(
                "not ready since {since}, and nothing can switch it off: {why}; nothing is evacuated before that is confirmed"
            ),
        );
    }
    Decided::told(
        "Fencing",
        format!("not ready since {since}: it is to be switched off before its servers start elsewhere"),
    )
    .with([Action::Fence(since)])
}

/// A host that is off, or was and has come back.
fn fenced(host: &Host, nova: &NovaHost, policy: &Policy) -> Decided {
    let name = &host.name;
    let is_back = host.power == Power::Ready;
    let Some(service) = &nova.service else {
        return if is_back {
            Decided {
                actions: vec![Action::Forget],
                report: Some((false, "Returned", "Nova has no compute service of it".into())),
            }
        } else {
            Decided::told(EVACUATED, "the host is off, and Nova has no compute service of it")
        };
    };
    let Some(running) = &host.running else { return begin(host, nova, is_back) };
    // A service that is disabled while it counts as up waits for an answer of the host. Of one that is back this is over.
    if !service.forced_down && !is_back {
        return Decided::told("Evacuating", format!("{name} is off: its compute service is declared down"))
            .with([Action::ForceDown(service.id.clone())]);
    }
    if service.status != "disabled" && !is_back {
        let reason = format!("{OURS}the host failed and is off; its servers are being evacuated");
        return Decided::told("Evacuating", format!("{name} is off: its compute service is disabled"))
            .with([Action::Disable(service.id.clone(), reason)]);
    }
    let progress = Progress::of(nova, running, policy, is_back);
    if !progress.is_done() {
        return Decided::told("Evacuating", progress.told(name)).with(progress.actions);
    }
    let result = progress.result();
    if is_back { returned(service, &progress, &result) } else { finished(service, &progress, result) }
}

/// The first turn after the fence: which servers run is written down before anything changes it. A host that came back before
/// anything was done keeps its servers.
fn begin(host: &Host, nova: &NovaHost, is_back: bool) -> Decided {
    if is_back {
        let report = Some((false, "Returned", "the node is ready again, and nothing was evacuated".to_owned()));
        return Decided { actions: vec![Action::Forget], report };
    }
    let running = nova.here.iter().filter(|server| task::ran(server)).map(|server| server.id.clone()).collect();
    Decided::told("Evacuating", format!("{} is off: its servers are recorded", host.name))
        .with([Action::Record(running)])
}

/// What opens a service again; the failure is forgotten when nothing is left to do.
fn returning(service: &ComputeService, ours: bool) -> Vec<Action> {
    match (service.forced_down, ours && service.status == "disabled") {
        (true, _) => vec![Action::LiftForceDown(service.id.clone())],
        (false, true) => vec![Action::Enable(service.id.clone())],
        (false, false) => vec![Action::Forget],
    }
}

/// Every evacuation has ended and the host stays off.
fn finished(service: &ComputeService, progress: &Progress, result: String) -> Decided {
    let reason = shortened(format!("{OURS}{result}"));
    let is_told = service.disabled_reason.as_deref() == Some(reason.as_str());
    let ours = service.disabled_reason.as_deref().is_some_and(|reason| reason.starts_with(OURS));
    // A service that someone else disabled keeps their reason.
    let tell = (ours && !is_told).then(|| Action::Disable(service.id.clone(), reason));
    let word = match (progress.failed.is_empty(), tell.is_none()) {
        (true, true) => EVACUATED,
        (true, false) => "Evacuating",
        // What failed is looked at again.
        (false, _) => "EvacuationIncomplete",
    };
    Decided::told(word, result).with(tell)
}

/// Every evacuation has ended and the host is back.
fn returned(service: &ComputeService, progress: &Progress, result: &str) -> Decided {
    let ours = service.disabled_reason.as_deref().is_some_and(|reason| reason.starts_with(OURS));
    let actions = returning(service, ours);
    let is_over = actions == [Action::Forget];
    let (failed, reason) = if is_over { (false, "Returned") } else { (true, "Returning") };
    let kept = if progress.failed.is_empty() { String::new() } else { "; these start again with the host".into() };
    Decided { actions, report: Some((failed, reason, format!("{result}{kept}"))) }
}

/// How far the evacuation of a host is.
struct Progress {
    actions: Vec<Action>,
    under_way: usize,
    waiting: usize,
    moved: usize,
    /// The servers that could not be moved or started, and why.
    failed: Vec<(String, String)>,
}

impl Progress {
    fn of(nova: &NovaHost, running: &BTreeSet<String>, policy: &Policy, is_back: bool) -> Self {
        let moved = nova.moved.iter().filter(|server| running.contains(&server.id)).count();
        let mut progress = Self { actions: Vec::new(), under_way: 0, waiting: 0, moved, failed: Vec::new() };
        for server in &nova.here {
            progress.here(server, &nova.evacuations, policy, is_back);
        }
        let room = policy.parallel.saturating_sub(progress.under_way);
        progress.waiting += progress.actions.len();
        progress.actions.truncate(room);
        for server in nova.moved.iter().filter(|server| running.contains(&server.id)) {
            match (server.status.as_str(), server.task_state.as_deref()) {
                (_, Some(_)) => progress.under_way += 1,
                ("SHUTOFF", None) => {
                    progress.waiting += 1;
                    progress.actions.push(Action::Start(server.id.clone()));
                }
                ("ERROR", None) => progress.failed.push((server.id.clone(), "it is in ERROR on its new host".into())),
                _ => {}
            }
        }
        progress
    }

    /// A server that is on the host still.
    fn here(&mut self, server: &Server, evacuations: &[Migration], policy: &Policy, is_back: bool) {
        let tried = Tried::of(server, evacuations);
        if tried.is_under_way(server, is_back) {
            self.under_way += 1;
        } else if is_back || task::is_deleted(server) {
            // With the host it starts again, or is deleted: elsewhere it would run a second time.
        } else if let Some(why) = task::keeps(server, tried.failures) {
            self.failed.push((server.id.clone(), why));
        } else if tried.failures >= policy.attempts {
            self.failed.push((server.id.clone(), format!("its evacuation failed {} times", tried.failures)));
        } else {
            self.actions.push(Action::Evacuate(server.id.clone()));
        }
    }

    fn is_done(&self) -> bool {
        self.under_way == 0 && self.waiting == 0
    }

    fn told(&self, name: &str) -> String {
        let Self { under_way, waiting, moved, failed, .. } = self;
        format!("{name} is off: {moved} moved, {under_way} under way, {waiting} to do, {} failed", failed.len())
    }

    fn result(&self) -> String {
        let moved = format!("the host failed and was fenced; {} servers that ran were moved", self.moved);
        if self.failed.is_empty() {
            return moved;
        }
        let failed: Vec<String> = self.failed.iter().map(|(id, why)| format!("{id}: {why}")).collect();
        format!("{moved}, {} were not: {}", failed.len(), failed.join("; "))
    }
}

fn shortened(text: String) -> String {
    if text.chars().count() <= LONGEST_REASON {
        return text;
    }
    let kept: String = text.chars().take(LONGEST_REASON - 1).collect();
    format!("{kept}…")
}

#[cfg(test)]
mod tests;
