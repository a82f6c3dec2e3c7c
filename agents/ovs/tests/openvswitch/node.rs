//! What an OVSNode says of a switch whose devices, bridges and daemons come and go.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use c5c3_agent_ovs::{Options, OvsMetrics, run, trace};
use c5c3_api::blocks::ConditionStatus;
use c5c3_api::ovs::OVSNode;
use c5c3_harness::TestCluster;
use kube::api::Api;
use tokio_util::sync::CancellationToken;

use crate::switch::{Switch, has_issue, until};

type Tested = Result<(), Box<dyn std::error::Error>>;

fn condition(node: &OVSNode, name: &str) -> Option<ConditionStatus> {
    let conditions = &node.status.as_ref()?.conditions;
    conditions.iter().find(|condition| condition.r#type == name).map(|condition| condition.status)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_ovsnode_says_what_ovs_vsctl_says() -> Tested {
    let Some(switch) = Switch::start("node") else { return Ok(()) };
    switch.shell("$IN ip link add tap0 type veth peer name tap0p; $IN ip link set tap0 up; $IN ip link set tap0p up");
    switch.vsctl("add-br br-int -- set bridge br-int datapath_type=netdev fail_mode=secure");
    switch.vsctl("add-port br-int tap0 -- set interface tap0 external-ids:iface-id=p0 external-ids:ovn-installed=true");
    switch.shell("ovs-ofctl -O OpenFlow13 add-flow $D/br-int.mgmt table=5,actions=drop");

    let cluster = TestCluster::start().await?;
    cluster.install(&c5c3_api::find("ovs.c5c3.io/v1alpha1", "OVSNode").expect("a kind").crd()).await?;
    let (metrics, stop) = (OvsMetrics::default(), CancellationToken::new());
    let options = Options {
        node: "orchard".into(),
        namespace: cluster.namespace().into(),
        run: switch.path().into(),
        controller: PathBuf::from("/nonexistent/controller.ctl"),
    };
    let agent = tokio::spawn(run(cluster.client(), options, metrics.clone(), stop.clone()));
    let nodes: Api<OVSNode> = Api::default_namespaced(cluster.client());

    let node = until(&nodes, "flows are counted", |node| {
        let stats = node.status.as_ref().and_then(|status| status.flow_stats.as_ref());
        stats.is_some_and(|stats| stats.flows_per_table.iter().any(|one| (one.table, one.flows) == (5, 1)))
    })
    .await;
    let status = node.status.clone().expect("a status");
    let names: Vec<&str> = status.bridges.iter().map(|bridge| bridge.name.as_str()).collect();
    assert_eq!(names.join("\n"), switch.vsctl("list-br"));
    // ovs-vsctl does not list the bridge's own port.
    let ports = switch.vsctl("list-ports br-int").lines().count() + 1;
    assert_eq!(status.bridges[0].ports, Some(i32::try_from(ports)?));
    let version = switch.shell("ovs-appctl -t $D/ovs-vswitchd.ctl version");
    assert!(version.ends_with(status.ovs_version.as_deref().expect("a version")), "{version}");
    assert_eq!(condition(&node, "OVSDBConnected"), Some(ConditionStatus::True));
    assert_eq!(condition(&node, "AllBridgesHealthy"), Some(ConditionStatus::True));
    assert_eq!(condition(&node, "OVNControllerConnected"), Some(ConditionStatus::False), "it is not configured");

    let said = trace(switch.path(), "br-int", "in_port=tap0").await?;
    assert!(said.contains("bridge(\"br-int\")") && said.ends_with("Datapath actions: drop"), "{said}");
    let said = trace(switch.path(), "br-none", "in_port=tap0").await.expect_err("no such bridge").to_string();
    assert!(said.contains("br-none"), "{said}");

    // A device that is deleted is an issue, and none once it is back.
    switch.shell("$IN ip link del tap0");
    let deleted = Instant::now();
    let node =
        until(&nodes, "the device is missed", |node| has_issue(node, "port tap0 on bridge br-int has no device")).await;
    assert!(deleted.elapsed() < Duration::from_secs(10), "{:?}", deleted.elapsed());
    assert!(node.status.iter().flat_map(|status| &status.issues).all(|issue| issue.detected_at.is_some()));
    switch.shell("$IN ip link add tap0 type veth peer name tap0p; $IN ip link set tap0 up");
    until(&nodes, "it is mended", |node| !has_issue(node, "has no device")).await;

    // A bridge that is deleted is an issue, and takes the node's readiness.
    switch.vsctl("del-br br-int");
    let node = until(&nodes, "the bridge is missed", |node| has_issue(node, "bridge br-int is missing")).await;
    assert_eq!(condition(&node, "AllBridgesHealthy"), Some(ConditionStatus::False));

    // Its flows are gone with the next look. Then the daemons are asked again, and nothing is written when they say the same.
    let flows = |node: &OVSNode| node.status.as_ref()?.flow_stats.as_ref()?.total_flows;
    until(&nodes, "its flows are counted no more", |node| flows(node) == Some(0)).await;
    let looks = metrics.looks();
    until(&nodes, "the write is counted", |_| metrics.looks() > looks).await;
    let (writes, looks) = (metrics.writes(), metrics.looks());
    until(&nodes, "the daemons are asked again", |_| metrics.looks() >= looks + 2).await;
    assert_eq!(metrics.writes(), writes);

    // A database that ends is told, and one that is back too.
    switch.shell("kill -9 $(cat $D/ovsdb-server.pid)");
    until(&nodes, "the database is missed", |node| condition(node, "OVSDBConnected") == Some(ConditionStatus::False))
        .await;
    switch.database();
    until(&nodes, "the database is back", |node| condition(node, "OVSDBConnected") == Some(ConditionStatus::True))
        .await;
    stop.cancel();
    agent.await?;
    Ok(())
}
