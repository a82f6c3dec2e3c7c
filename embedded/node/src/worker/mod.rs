//! One pod's worker: looks, decides, acts, tells, and waits for the next occasion.

mod calls;
mod mounts;
mod start;
mod stop;

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use c5c3_cri::CallError;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::PodStatus;
use tokio::sync::watch;
use tokio::time::sleep;

use self::calls::Calls;
use crate::bell::Bell;
use crate::decide::{Action, Situation, decide};
use crate::memory::Memory;
use crate::node::Node;
use crate::observe::{Observed, observe};
use crate::pod::Pod;
use crate::probes::{self, Probes};
use crate::references::PodReferences;
use crate::report::Report;
use crate::status::{self, Facts};
use crate::volumes::{MountedVolumes, Tokens, VolumeError, Volumes};

/// After a failure that no one but the log hears of.
const RETRY: Duration = Duration::from_secs(1);

/// A pod as the API has it.
#[derive(Clone)]
pub(crate) struct Wanted {
    pub(crate) pod: Pod,
    /// The API has it no more.
    pub(crate) is_gone: bool,
}

impl Wanted {
    /// Whether this leaves less time than another: then what is under way for the other is cut short.
    fn is_more_urgent_than(&self, other: &Self) -> bool {
        let is_ending = |wanted: &Self| wanted.is_gone || wanted.pod.is_deleted();
        is_ending(self) && (!is_ending(other) || self.pod.grace_period() < other.pod.grace_period())
    }
}

/// What came of a look at the pod.
enum Next {
    /// Look again then, if nothing happens before.
    At(Option<Timestamp>),
    /// Nothing is left of it.
    Over,
}

/// What was decided last, as far as the status shows it.
#[derive(Default)]
struct Outlook {
    crash_loops: BTreeMap<String, String>,
    is_ending: bool,
}

pub(crate) struct Worker {
    node: Arc<Node>,
    bell: Arc<Bell>,
    memory: Arc<Mutex<Memory>>,
    references: PodReferences,
    tokens: Tokens,
    volumes: Mutex<Option<MountedVolumes>>,
    probes: Mutex<Probes>,
    observed: Mutex<Arc<Observed>>,
    outlook: Mutex<Outlook>,
    last: Mutex<Option<PodStatus>>,
    report: Report,
    calls: Calls,
}

/// Works on a pod until nothing of it is left; its uid.
pub(crate) async fn run(node: Arc<Node>, mut inbox: watch::Receiver<Wanted>) -> String {
    let first = inbox.borrow().clone();
    let uid = first.pod.uid().to_owned();
    let worker = Worker::new(node, &first.pod);
    loop {
        let wanted = inbox.borrow_and_update().clone();
        let next = worker.sync_or_cut(&wanted, &inbox).await;
        match next {
            None => {}
            Some(Next::Over) => break,
            Some(Next::At(time)) => {
                tokio::select! {
                    changed = inbox.changed() => if changed.is_err() { break },
                    () = worker.bell.heard() => {}
                    () = until(time) => {}
                }
            }
        }
    }
    worker.node.directory.remove(&uid);
    worker.node.discharge(&uid);
    uid
}

async fn until(time: Option<Timestamp>) {
    match time {
        Some(time) => sleep(Duration::try_from(time.duration_since(Timestamp::now())).unwrap_or_default()).await,
        None => std::future::pending().await,
    }
}

fn later(pod: &Pod, error: &dyn std::fmt::Display) -> Next {
    tracing::warn!(pod = pod.description(), %error, "will be tried again");
    Next::At(Timestamp::now().checked_add(RETRY).ok())
}

/// A lock whose holder never panics halfway.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Worker {
    fn new(node: Arc<Node>, pod: &Pod) -> Self {
        let bell = Arc::<Bell>::default();
        let mut memory = Memory::default();
        if !pod.is_deleted() && !pod.is_over() {
            memory.verdict = node.admit(pod);
        }
        if let Some(verdict) = &memory.verdict {
            let reason = if verdict.reason.starts_with("OutOf") { "OutOfResources" } else { "FailedAdmission" };
            node.voice.warning(pod, None, reason, verdict.message.clone());
        }
        Self {
            references: PodReferences::new(&node.references, pod.namespace(), Arc::clone(&bell)),
            report: Report::new(node.client.clone(), pod),
            memory: Arc::new(Mutex::new(memory)),
            tokens: Tokens::default(),
            volumes: Mutex::default(),
            probes: Mutex::default(),
            observed: Mutex::default(),
            outlook: Mutex::default(),
            last: Mutex::default(),
            calls: Calls::default(),
            node,
            bell,
        }
    }

    /// Does all there is to do, unless the pod has to end sooner. What happens meanwhile is told and looked at after.
    async fn sync_or_cut(&self, wanted: &Wanted, inbox: &watch::Receiver<Wanted>) -> Option<Next> {
        let mut again = false;
        // Another receiver: a change that is looked at here is still to be taken up afterwards.
        let mut newer = inbox.clone();
        let mut step = pin!(self.sync(wanted));
        loop {
            tokio::select! {
                next = &mut step => return if again { None } else { Some(next) },
                cut = newer.wait_for(|newer| newer.is_more_urgent_than(wanted)) => {
                    if cut.is_err() {
                        return Some(Next::Over);
                    }
                    return None;
                }
                () = self.bell.heard() => {
                    again = true;
                    self.tell(wanted);
                }
            }
        }
    }

    async fn sync(&self, wanted: &Wanted) -> Next {
        self.calls.finished().await;
        loop {
            let has_changed = self.bell.take_change();
            if has_changed {
                lock(&self.memory).end_holds();
            }
            let before = lock(&self.observed).clone();
            let observed = match observe(&self.node.runtime, wanted.pod.uid(), &before).await {
                Ok(observed) => Arc::new(observed),
                Err(error) => return later(&wanted.pod, &error),
            };
            self.remember(&wanted.pod, &observed);
            let plan = self.decide(wanted, &observed);
            self.tell(wanted);
            if plan.actions.is_empty() {
                return self.rest(wanted, plan.wake, has_changed).await;
            }
            for action in plan.actions {
                tracing::debug!(pod = wanted.pod.description(), ?action, "acts");
                let is_last = action == Action::Release;
                if let Err(error) = self.act(wanted, action).await {
                    return later(&wanted.pod, &error);
                }
                if is_last {
                    return Next::Over;
                }
            }
        }
    }

    fn remember(&self, pod: &Pod, observed: &Arc<Observed>) {
        *lock(&self.observed) = Arc::clone(observed);
        lock(&self.memory).forget_all_but(observed);
        self.node.directory.put(pod, observed, &self.bell);
        let ips = self.pod_ips(pod);
        let around = probes::Surroundings {
            pod,
            runtime: &self.node.runtime,
            voice: &self.node.voice,
            memory: &self.memory,
            bell: &self.bell,
            pod_ip: ips.first().map_or("", String::as_str),
        };
        lock(&self.probes).follow(&around, observed);
    }

    fn decide(&self, wanted: &Wanted, observed: &Observed) -> crate::decide::Plan {
        let memory = lock(&self.memory).clone();
        let (pod, is_gone) = (&wanted.pod, wanted.is_gone);
        let plan = decide(Situation { pod, observed, memory: &memory, now: Timestamp::now(), is_gone });
        let mut outlook = lock(&self.outlook);
        for name in plan.crash_loops.keys().filter(|name| !outlook.crash_loops.contains_key(*name)) {
            let message = format!("Back-off restarting failed container {name} in pod {}", pod.description());
            self.node.voice.warning(pod, Some(name), "BackOff", message);
        }
        *outlook = Outlook { crash_loops: plan.crash_loops.clone(), is_ending: plan.is_ending };
        plan
    }

    /// Tells the API how the pod is now.
    fn tell(&self, wanted: &Wanted) {
        if wanted.is_gone {
            return;
        }
        let observed = lock(&self.observed).clone();
        let (memory, outlook, mut last) = (lock(&self.memory).clone(), lock(&self.outlook), lock(&self.last));
        let status = status::status(Facts {
            pod: &wanted.pod,
            observed: &observed,
            memory: &memory,
            last: last.as_ref(),
            crash_loops: &outlook.crash_loops,
            is_ending: outlook.is_ending,
            host_ip: &self.node.facts.address,
            now: Timestamp::now(),
        });
        *last = Some(status.clone());
        self.report.tell(status, wanted.pod.status());
    }

    /// Nothing to do: the volumes are brought up to date, and the next occasion is waited for.
    async fn rest(&self, wanted: &Wanted, wake: Option<Timestamp>, has_changed: bool) -> Next {
        let is_live = !lock(&self.outlook).is_ending && lock(&self.observed).sandbox().is_some();
        if !is_live {
            return Next::At(wake);
        }
        let renewal = self.tokens.next_renewal();
        let is_due = renewal.is_some_and(|at| at <= Timestamp::now());
        if has_changed || is_due || lock(&self.volumes).is_none() || mounts::has_downward_files(&wanted.pod) {
            self.mount_volumes(&wanted.pod).await;
        }
        Next::At([wake, self.tokens.next_renewal()].into_iter().flatten().min())
    }

    async fn act(&self, wanted: &Wanted, action: Action) -> Result<(), Failed> {
        let (pod, runtime) = (&wanted.pod, &self.node.runtime);
        match action {
            Action::CreateSandbox { attempt } => self.create_sandbox(pod, attempt).await,
            Action::StartContainer { name, attempt } => self.start_container(pod, &name, attempt).await,
            Action::StopContainer { id, why } => self.stop_one(pod, &id, why).await?,
            Action::StopAll => self.stop_all(pod).await?,
            Action::StopSandbox { id } => runtime.stop_pod_sandbox(&id).await?,
            Action::RemoveContainer { id } => runtime.remove_container(&id).await?,
            Action::RemoveSandbox { id } => runtime.remove_pod_sandbox(&id).await?,
            Action::CleanUp => self.clean_up(pod).await?,
            Action::Release => self.release(wanted).await?,
        }
        Ok(())
    }

    /// The addresses of the pod's sandbox, or the node's for a pod in its network.
    fn pod_ips(&self, pod: &Pod) -> Vec<String> {
        let observed = lock(&self.observed);
        match observed.sandbox() {
            Some(_) if pod.is_host_network() => vec![self.node.facts.address.clone()],
            Some(sandbox) => sandbox.ips.clone(),
            None => Vec::new(),
        }
    }

    fn volumes_of<'a>(&'a self, pod: &'a Pod, pod_ips: &'a [String]) -> Volumes<'a> {
        Volumes {
            pod,
            folders: &self.node.folders,
            references: &self.references,
            client: &self.node.client,
            node: &self.node.facts,
            pod_ips,
            tokens: &self.tokens,
            host: &self.node.config.host_root,
        }
    }
}

/// An action that failed without anybody but the log to hear of it.
#[derive(Debug, thiserror::Error)]
enum Failed {
    #[error(transparent)]
    Call(#[from] CallError),
    #[error(transparent)]
    Volume(#[from] VolumeError),
}
