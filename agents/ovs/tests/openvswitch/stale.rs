//! Flows of ports that do not exist.

use c5c3_agent_ovs::{Options, OvsMetrics, run};
use c5c3_api::ovs::OVSNode;
use c5c3_harness::TestCluster;
use kube::api::Api;
use tokio_util::sync::CancellationToken;

use crate::switch::{Switch, has_issue, until};

#[tokio::test(flavor = "multi_thread")]
async fn flows_of_ports_that_do_not_exist_are_issues_until_they_are_deleted() {
    let Some(switch) = Switch::start("stale") else { return };
    switch.shell("for tap in tap0 tap1; do $IN ip link add $tap type veth peer name ${tap}p; done");
    switch.vsctl("add-br br-int -- set bridge br-int datapath_type=netdev fail_mode=secure -- add-port br-int tap0");
    // One bridge speaks all versions, and is asked in the highest; the other the lowest.
    switch.vsctl("add-br br-ex -- set bridge br-ex datapath_type=netdev fail_mode=secure protocols=OpenFlow13");
    for flow in ["in_port=tap0,actions=LOCAL", "in_port=LOCAL,actions=output:tap0", "in_port=77,actions=drop"] {
        switch.shell(&format!("ovs-ofctl -O OpenFlow15 add-flow $D/br-int.mgmt {flow}"));
    }
    switch.shell("ovs-ofctl -O OpenFlow13 add-flow $D/br-ex.mgmt 'table=3,ip,actions=clone(output:55),LOCAL'");

    let cluster = TestCluster::start().await.unwrap();
    cluster.install(&c5c3_api::find("ovs.c5c3.io/v1alpha1", "OVSNode").unwrap().crd()).await.unwrap();
    let (stop, run_folder) = (CancellationToken::new(), switch.path().to_owned());
    let options = Options {
        node: "orchard".into(),
        namespace: cluster.namespace().into(),
        controller: run_folder.join("controller.ctl"),
        run: run_folder,
    };
    let agent = tokio::spawn(run(cluster.client(), options, OvsMetrics::default(), stop.clone()));
    let nodes: Api<OVSNode> = Api::default_namespaced(cluster.client());
    let (ours, other) = ("bridge br-int has flows of port 77, ", "bridge br-ex has flows of port 55, ");
    let node = until(&nodes, "both are found", |node| has_issue(node, ours) && has_issue(node, other)).await;
    let issues = node.status.unwrap().issues;
    let stale: Vec<&str> =
        issues.iter().map(|one| one.message.as_str()).filter(|text| text.contains("flows")).collect();
    assert_eq!(stale.len(), 2, "flows of ports that exist are none: {stale:?}");

    // They are read again when a port comes.
    switch.shell("ovs-ofctl -O OpenFlow15 del-flows $D/br-int.mgmt in_port=77");
    switch.vsctl("add-port br-int tap1");
    until(&nodes, "one is gone", |node| !has_issue(node, ours) && has_issue(node, other)).await;
    stop.cancel();
    agent.await.unwrap();
}
