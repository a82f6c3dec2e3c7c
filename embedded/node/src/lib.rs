//! The kubelet of the embedded cluster: registers a node and runs its pods over the CRI.
//!
//! ```text
//!  pods of the API ─► a worker for each ─► observe ─► decide ─► act ─► look again
//!  ends, probes, changes ─► the worker's bell       └► status ─► report ─► the API
//! ```
//!
//! What to do (`decide`), what to say (`status`), what a container is to the runtime (`cri_config`) and what it has
//! in its environment (`environment`) are pure functions; the worker does no more than carry out. Containers carry the
//! labels of their pods, so that a node that is killed finds them again; they go on running meanwhile.
//!
//! What containers say, and connections into them, are served to the API server by `server/`.
//!
//! Simpler than upstream, on purpose: no in-place resize, no eviction by the node, no static pods,
//! volumes of the kinds that one machine has, one address family.

#![cfg_attr(not(test), warn(clippy::unwrap_used))]
#![cfg_attr(test, allow(clippy::needless_pass_by_value, reason = "`json!(..)` reads better than `&json!(..)`"))]

mod admission;
mod back_off;
mod bell;
mod cgroups;
mod config;
mod cri_config;
mod decide;
mod devices;
mod directory;
mod environment;
mod folders;
mod hooks;
mod host_root;
mod huge_pages;
mod images;
mod labels;
mod last_words;
mod lifecycle;
mod machine;
mod memory;
mod node;
mod observe;
mod orphans;
mod pod;
mod pods;
mod probes;
mod references;
mod registration;
mod report;
mod server;
mod status;
mod upkeep;
mod voice;
mod volumes;
mod worker;

use std::sync::Arc;

use c5c3_cri::Runtime;
use futures::StreamExt;
use k8s_openapi::api::core::v1::Service;
use kube::runtime::WatchStreamExt;
use kube::runtime::reflector::{self, store};
use kube::runtime::watcher::{Config, watcher};
use kube::{Api, Client};
use tokio_util::sync::CancellationToken;

pub use config::{Capacity, NodeConfig, Serving};
pub use directory::{Directory, Found, NotFound, Run};
pub use host_root::HostRoot;
use node::Node;
use voice::Voice;

/// Runs a node until `stop`. Its containers go on: the next one to run finds them again.
pub async fn run(client: Client, runtime: Runtime, config: NodeConfig, stop: CancellationToken) {
    let (services, writer) = store::<Service>();
    let (voice, _speaker) = Voice::new(client.clone());
    let watched = watcher(Api::<Service>::all(client.clone()), Config::default()).default_backoff();
    let watched = reflector::reflector(writer, watched);
    let node = Arc::new(Node::new(client, runtime, config, services, voice));
    let work = async {
        tokio::join!(
            registration::run(&node),
            pods::run(Arc::clone(&node)),
            lifecycle::run(Arc::clone(&node)),
            upkeep::run(Arc::clone(&node)),
            server::run(Arc::clone(&node), stop.clone()),
            watched.for_each(|event| async move {
                if let Err(error) = event {
                    tracing::warn!(%error, "cannot follow the Services");
                }
            }),
        )
    };
    tokio::select! {
        _ = work => {}
        () = stop.cancelled() => {}
    }
}
