//! Agents that are killed at the worst moments, and those that come after them.

use c5c3_agent_ovs::OvsMetrics;
use c5c3_api::ovs::OVSNode;
use c5c3_harness::{Fault, TestCluster};
use kube::ResourceExt as _;
use kube::api::Api;

use crate::database::Database;
use crate::{agent, cluster, kill, until};

fn issues(node: &OVSNode) -> Vec<String> {
    let status = node.status.as_ref();
    status.iter().flat_map(|status| &status.issues).map(|issue| issue.message.clone()).collect()
}

/// Waits until the agent has seen all and has written what it wants.
async fn until_at_rest(nodes: &Api<OVSNode>, metrics: &OvsMetrics) -> OVSNode {
    let looks = metrics.looks();
    until(nodes, "the daemons are asked twice", |_| metrics.looks() >= looks + 2).await
}

/// Waits until a fault has struck.
async fn until_struck(cluster: &TestCluster, nodes: &Api<OVSNode>) {
    let began = std::time::Instant::now();
    while !cluster.faults_left().is_empty() {
        assert!(began.elapsed().as_secs() < 60, "no request is struck");
        // The test's own requests match no fault.
        assert!(nodes.list(&kube::api::ListParams::default()).await.is_ok());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_is_started_again_changes_nothing_that_is_right() {
    let (cluster, folder) = (cluster().await, tempfile::tempdir().unwrap());
    let database = Database::start(folder.path(), 3);
    let nodes: Api<OVSNode> = Api::default_namespaced(cluster.client());
    database.bind(1, false);
    let metrics = OvsMetrics::default();
    let first = agent(&cluster, folder.path(), &metrics);
    let before = until_at_rest(&nodes, &metrics).await;
    assert_eq!(issues(&before).len(), 1);
    kill(first).await;

    let metrics = OvsMetrics::default();
    let second = agent(&cluster, folder.path(), &metrics);
    let after = until_at_rest(&nodes, &metrics).await;
    assert_eq!((after.resource_version(), after.uid()), (before.resource_version(), before.uid()));
    assert_eq!(metrics.writes(), 1, "it makes sure once");

    // What happens while none runs is seen by the next.
    kill(second).await;
    database.bind(1, true);
    database.bind(2, false);
    let third = agent(&cluster, folder.path(), &OvsMetrics::default());
    let found =
        until(&nodes, "the issue of tap2", |node| issues(node).iter().any(|one| one.contains("port tap2 "))).await;
    assert_eq!(issues(&found).len(), 1);
    kill(third).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_is_killed_between_a_write_and_its_answer_leaves_nothing_that_the_next_does_twice() {
    let (cluster, folder) = (cluster().await, tempfile::tempdir().unwrap());
    let database = Database::start(folder.path(), 3);
    database.bind(1, false);
    let nodes: Api<OVSNode> = Api::default_namespaced(cluster.client());
    // The OVSNode is created, its status is written, and it is killed before it knows of either.
    for path in ["/ovsnodes/orchard", "/ovsnodes/orchard/status"] {
        cluster.inject(Fault::lose_answer().to("patch", path));
        let killed = agent(&cluster, folder.path(), &OvsMetrics::default());
        until_struck(&cluster, &nodes).await;
        let has_status = path.ends_with("status");
        until(&nodes, path, |node| node.status.is_some() == has_status).await;
        kill(killed).await;
        assert_eq!(nodes.get("orchard").await.unwrap().status.is_some(), has_status, "{path}");
    }
    let written = nodes.get("orchard").await.unwrap();
    assert_eq!(issues(&written).len(), 1);

    let metrics = OvsMetrics::default();
    let next = agent(&cluster, folder.path(), &metrics);
    let after = until_at_rest(&nodes, &metrics).await;
    assert_eq!((after.resource_version(), after.uid()), (written.resource_version(), written.uid()));
    assert_eq!(nodes.list(&kube::api::ListParams::default()).await.unwrap().items.len(), 1);
    kill(next).await;
}
