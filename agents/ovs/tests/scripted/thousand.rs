//! A thousand ports.

use std::time::{Duration, Instant};

use c5c3_agent_ovs::OvsMetrics;
use c5c3_api::ovs::OVSNode;
use kube::ResourceExt as _;
use kube::api::Api;

use crate::database::Database;
use crate::{agent, cluster, kill, until};

const PORTS: usize = 1000;

/// How far apart writes are at least.
const BETWEEN_WRITES: Duration = Duration::from_secs(5);

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_ports_are_one_write_and_any_number_of_changes_one_in_five_seconds() {
    let (cluster, folder, metrics) = (cluster().await, tempfile::tempdir().unwrap(), OvsMetrics::default());
    let database = Database::start(folder.path(), PORTS);
    let nodes: Api<OVSNode> = Api::default_namespaced(cluster.client());
    let began = Instant::now();
    let agent = agent(&cluster, folder.path(), &metrics);
    let ports = |node: &OVSNode| node.status.as_ref().and_then(|status| status.bridges.first()?.ports);
    let issues = |node: &OVSNode| node.status.as_ref().map_or(0, |status| status.issues.len());
    let is_whole = |node: &OVSNode| (ports(node), issues(node)) == (Some(1000), 0);
    let first = until(&nodes, "all ports are counted", is_whole).await;
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
    let traffic = first.status.as_ref().unwrap().metrics.as_ref().unwrap();
    assert_eq!(traffic.packets_received, Some(2000));

    // At rest the daemons are asked and nothing is written.
    let looks = metrics.looks();
    until(&nodes, "the daemons are asked twice", |_| metrics.looks() >= looks + 2).await;
    assert_eq!(metrics.writes(), 1);

    // Each port changes ten times, and in the end none is bound.
    let (began, writes) = (Instant::now(), metrics.writes());
    for round in 0..10 {
        (0..PORTS).for_each(|index| database.bind(index, round % 2 == 1));
        tokio::task::yield_now().await;
    }
    (0..PORTS).for_each(|index| database.bind(index, false));
    until(&nodes, "as many issues as there may be", |node| issues(node) == 128).await;
    (0..PORTS).for_each(|index| database.bind(index, true));
    let last = until(&nodes, "all are bound again", is_whole).await;
    let most = began.elapsed().as_secs() / BETWEEN_WRITES.as_secs() + 1;
    assert!(metrics.writes() - writes <= most, "{} writes in {:?}", metrics.writes() - writes, began.elapsed());

    // A change of what is not published is no write.
    let looks = metrics.looks();
    database.bind(0, true);
    until(&nodes, "the daemons are asked twice", |_| metrics.looks() >= looks + 2).await;
    let now = nodes.get("orchard").await.unwrap();
    assert_eq!(now.resource_version(), last.resource_version());
    kill(agent).await;
}
