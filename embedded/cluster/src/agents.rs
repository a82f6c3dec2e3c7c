//! The processes of the nodes: started in their network namespaces, started again when they end, ended when asked.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::{mpsc, oneshot};
use tokio_util::task::TaskTracker;

/// How long an agent that ended is left alone before it is started again.
const PAUSE: Duration = Duration::from_secs(1);

/// How an agent is started.
#[derive(Clone, Debug)]
pub(crate) struct Agent {
    pub(crate) node: String,
    /// The network namespace that it lives in.
    pub(crate) namespace: PathBuf,
    pub(crate) nsenter: PathBuf,
    pub(crate) unshare: PathBuf,
    /// This program.
    pub(crate) program: PathBuf,
    /// What it is told.
    pub(crate) config: PathBuf,
    pub(crate) log: PathBuf,
}

enum Order {
    Stop(oneshot::Sender<()>),
    Start(oneshot::Sender<()>),
}

/// The agents of all nodes, each looked after by a task of its own.
pub(crate) struct Agents {
    orders: BTreeMap<String, mpsc::Sender<Order>>,
    tasks: TaskTracker,
}

impl Agents {
    pub(crate) fn start(agents: impl IntoIterator<Item = Agent>) -> Self {
        let tasks = TaskTracker::new();
        let look_after = |agent: Agent| {
            let (order, orders) = mpsc::channel(1);
            let node = agent.node.clone();
            tasks.spawn(look_after(agent, orders));
            (node, order)
        };
        let orders = agents.into_iter().map(look_after).collect();
        tasks.close();
        Self { orders, tasks }
    }

    /// Kills the agent of a node; it stays dead until it is started.
    pub(crate) async fn kill(&self, node: &str) {
        self.order(node, Order::Stop).await;
    }

    /// Starts the agent of a node, unless it runs.
    pub(crate) async fn revive(&self, node: &str) {
        self.order(node, Order::Start).await;
    }

    async fn order(&self, node: &str, order: impl FnOnce(oneshot::Sender<()>) -> Order) {
        let (done, finished) = oneshot::channel();
        if let Some(orders) = self.orders.get(node)
            && orders.send(order(done)).await.is_ok()
        {
            let _ = finished.await;
        }
    }

    /// Ends all agents, and waits until they have ended. Their containers go on.
    pub(crate) async fn end(self) {
        drop(self.orders);
        self.tasks.wait().await;
    }
}

/// Keeps an agent running as ordered, until there can be no more orders.
async fn look_after(agent: Agent, mut orders: mpsc::Receiver<Order>) {
    let mut wanted = true;
    let mut child: Option<Process> = None;
    loop {
        if wanted && child.is_none() {
            child = launch(&agent);
        }
        tokio::select! {
            order = orders.recv() => match order {
                Some(Order::Stop(done)) => {
                    wanted = false;
                    end(child.take(), true).await;
                    let _ = done.send(());
                }
                Some(Order::Start(done)) => {
                    wanted = true;
                    let _ = done.send(());
                }
                None => return end(child.take(), false).await,
            },
            () = ended(child.as_mut(), wanted), if wanted => {
                child = None;
                tracing::warn!(node = agent.node, log = %agent.log.display(), "the agent ended; it is started again");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

/// An agent that runs.
struct Process {
    child: Child,
    /// The agent ends when this is gone: even SIGKILL of this process ends it.
    lifeline: Option<ChildStdin>,
}

/// Returns when the process has ended; at once if it could not be started.
async fn ended(process: Option<&mut Process>, wanted: bool) {
    match process {
        Some(process) => {
            let _ = process.child.wait().await;
        }
        None if wanted => {}
        None => std::future::pending().await,
    }
}

fn launch(agent: &Agent) -> Option<Process> {
    let log = std::fs::File::options().create(true).append(true).open(&agent.log);
    let started = log.and_then(|log| {
        let mut command = Command::new(&agent.nsenter);
        command.arg(format!("--net={}", agent.namespace.display())).arg("--");
        // The agent sets the node's hostname, and must not change the machine's.
        command.arg(&agent.unshare).arg("--uts").arg("--").arg(&agent.program);
        command.arg("node-agent").arg("--config").arg(&agent.config);
        command.stdin(Stdio::piped()).stdout(log.try_clone()?).stderr(log).process_group(0);
        let mut child = command.spawn()?;
        // Taken away from the child, which would close it when it is waited for.
        Ok(Process { lifeline: child.stdin.take(), child })
    });
    started.inspect_err(|error| tracing::error!(node = agent.node, %error, "the agent cannot be started")).ok()
}

/// Ends a process, at once or after it has finished what it does.
async fn end(process: Option<Process>, at_once: bool) {
    let Some(Process { mut child, lifeline }) = process else { return };
    if at_once {
        let _ = child.kill().await;
        return;
    }
    drop(lifeline);
    if tokio::time::timeout(Duration::from_secs(10), child.wait()).await.is_err() {
        let _ = child.kill().await;
    }
}

/// Kills agents that a process before this one has left behind.
pub(crate) fn kill_stray(configs: &[PathBuf]) {
    let stray = |pid: &u32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let words: Vec<_> = line.split(|byte| *byte == 0).collect();
        words.contains(&b"node-agent".as_slice()) && configs.iter().any(|config| words.contains(&bytes(config)))
    };
    let numbers = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = numbers.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    for pid in pids.filter(stray) {
        let raw = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw);
        if let Some(raw) = raw {
            let _ = rustix::process::kill_process(raw, rustix::process::Signal::KILL);
        }
    }
}

fn bytes(path: &Path) -> &[u8] {
    path.as_os_str().as_encoded_bytes()
}
