//! The controllers that turn workloads into pods, as they would run against any Kubernetes API: they see a
//! [`kube::Client`] and nothing else of the cluster.
//!
//! ```text
//! watched ─► queue ─► read ─► decide ─► act ─► status
//!  each kind  one per   live    pure     thin    written only
//!  once for   object    lists            calls   when it changed
//!  all
//! ```
//!
//! What to do is decided on live lists, never on a cache: a cache that lags behind makes a second pod where there is
//! one already. The caches here only say whom a change concerns.

#![cfg_attr(not(test), warn(clippy::unwrap_used))]

mod claims;
mod context;
mod cronjobs;
mod daemon_sets;
mod deployments;
mod disruption;
mod endpoints;
mod error;
mod hash;
mod history;
mod jobs;
mod nodes;
mod owners;
mod pods;
mod queue;
mod replicas;
mod shares;
mod stateful_sets;
mod supervise;
#[cfg(test)]
mod testing;
mod volumes;
mod watched;

use std::path::PathBuf;
use std::time::Duration;

use kube::Client;
use tokio_util::sync::CancellationToken;

use context::Context;
use supervise::Task;
pub use supervise::keep_running;

/// What the controllers are told about the machine.
#[derive(Clone, Debug)]
pub struct Options {
    /// The folder that the local-path provisioner makes volumes in.
    pub volumes: PathBuf,
    /// How long a node may be silent before nothing is known of it.
    pub node_grace: Duration,
    /// How long a node has to be missing before its pods are taken to be gone, too.
    pub orphan_quarantine: Duration,
    /// How many pods that are over are kept.
    pub finished_pods: usize,
}

impl Options {
    /// The usual ones, with volumes in this folder.
    pub fn new(volumes: impl Into<PathBuf>) -> Self {
        Self {
            volumes: volumes.into(),
            node_grace: Duration::from_secs(40),
            orphan_quarantine: Duration::from_secs(40),
            finished_pods: 12_500,
        }
    }
}

/// Runs every controller until `stop`. One that panics or ends is started again; the others go on.
pub async fn run(client: Client, options: Options, stop: CancellationToken) {
    let context = Context::new(client, options, stop);
    supervise::all(&context, &tasks()).await;
}

/// What runs: a name, which is also the component that its events come from, and what it does.
fn tasks() -> Vec<Task> {
    vec![
        Task::new("pods", |context| async move { context.pods.follow(&context).await }),
        Task::new("nodes", |context| async move { context.nodes.follow(&context).await }),
        Task::new("jobs", |context| async move { context.jobs.follow(&context).await }),
        Task::new("job-controller", jobs::run),
        Task::new("cronjob-controller", cronjobs::run),
        Task::new("replica sets", |context| async move { context.replica_sets.follow(&context).await }),
        Task::new("daemonset-controller", daemon_sets::run),
        Task::new("deployment-controller", deployments::run),
        Task::new("replicaset-controller", replicas::replica_sets),
        Task::new("replication-controller", replicas::replication_controllers),
        Task::new("statefulset-controller", stateful_sets::run),
        Task::new("endpoint-slice-controller", endpoints::run),
        Task::new("controllermanager", disruption::run),
        Task::new("node-controller", nodes::run),
        Task::new("persistentvolume-controller", volumes::run),
    ]
}
