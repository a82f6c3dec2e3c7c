//! The agent beside a database of Open vSwitch that says what a test wants: many ports, many changes, and agents that are killed.

mod database;
mod restart;
mod thousand;

use std::path::Path;
use std::time::{Duration, Instant};

use c5c3_agent_ovs::{Options, OvsMetrics, run};
use c5c3_api::ovs::OVSNode;
use c5c3_harness::TestCluster;
use kube::api::Api;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// A whole API server that knows OVSNodes.
async fn cluster() -> TestCluster {
    let cluster = TestCluster::start().await.unwrap();
    cluster.install(&c5c3_api::find("ovs.c5c3.io/v1alpha1", "OVSNode").unwrap().crd()).await.unwrap();
    cluster
}

/// An agent of the node `orchard`. Aborting it is how it is killed: it does nothing at its end.
fn agent(cluster: &TestCluster, folder: &Path, metrics: &OvsMetrics) -> JoinHandle<()> {
    let options = Options {
        node: "orchard".into(),
        namespace: cluster.namespace().into(),
        run: folder.into(),
        controller: folder.join("controller.ctl"),
    };
    tokio::spawn(run(cluster.client(), options, metrics.clone(), CancellationToken::new()))
}

async fn kill(agent: JoinHandle<()>) {
    agent.abort();
    assert!(agent.await.unwrap_err().is_cancelled());
}

/// Waits until the OVSNode is as it should be.
async fn until(nodes: &Api<OVSNode>, what: &str, is_so: impl Fn(&OVSNode) -> bool) -> OVSNode {
    let began = Instant::now();
    loop {
        let found = nodes.get_opt("orchard").await.unwrap();
        if let Some(found) = found.clone().filter(|found| is_so(found)) {
            return found;
        }
        assert!(began.elapsed() < Duration::from_mins(1), "{what}: {:?}", found.and_then(|found| found.status));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
