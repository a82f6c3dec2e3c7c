//! The agent beside a real Open vSwitch in userspace, and a whole API server. Needs root and the programs of the package
//! `openvswitch-switch`; without them the test says so and ends.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use c5c3_agent_ovs::{Options, OvsMetrics, run, trace};
use c5c3_api::blocks::ConditionStatus;
use c5c3_api::ovs::OVSNode;
use c5c3_harness::TestCluster;
use kube::api::Api;
use tokio_util::sync::CancellationToken;

type Tested = Result<(), Box<dyn std::error::Error>>;

/// Daemons in a folder and in a network namespace of their own. Dropping them ends them.
struct Switch {
    folder: tempfile::TempDir,
    namespace: String,
}

impl Switch {
    /// Nothing where they cannot run.
    fn start() -> Option<Self> {
        let is_root = Command::new("id").arg("-u").output().is_ok_and(|said| said.stdout == b"0\n");
        let exists = |program: &str| Command::new(program).arg("--version").output().is_ok();
        if !is_root || !exists("ovsdb-server") || !exists(&vswitchd()) {
            eprintln!("SKIPPED: needs root, ovsdb-server and ovs-vswitchd (apt-get install openvswitch-switch)");
            return None;
        }
        let switch =
            Self { folder: tempfile::tempdir().expect("a folder"), namespace: format!("c5ovs{}", std::process::id()) };
        switch.shell(&format!("ip netns add {0}; ip -n {0} link set lo up", switch.namespace));
        switch.shell("ovsdb-tool create $D/conf.db /usr/share/openvswitch/vswitch.ovsschema");
        switch.database();
        switch.vsctl("--no-wait init");
        switch
            .vsctl("--no-wait set open . external-ids:system-id=orchard external-ids:ovn-bridge-datapath-type=netdev");
        switch.shell(&format!(
            "$IN {} --disable-system --detach --no-chdir --log-file=$D/v.log --unixctl=$D/ovs-vswitchd.ctl \
             --pidfile=$D/ovs-vswitchd.pid unix:$D/db.sock",
            vswitchd()
        ));
        Some(switch)
    }

    fn database(&self) {
        self.shell(
            "$IN ovsdb-server --detach --no-chdir --log-file=$D/db.log --pidfile=$D/ovsdb-server.pid \
             --unixctl=$D/ovsdb-server.ctl --remote=punix:$D/db.sock $D/conf.db",
        );
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Runs a command of the shell: `$D` is the folder, `$IN` runs a program in the network namespace.
    fn shell(&self, command: &str) -> String {
        let inside = format!("ip netns exec {}", self.namespace);
        let mut shell = Command::new("sh");
        shell.args(["-ec", command]).env("D", self.path()).env("IN", inside).env("OVS_RUNDIR", self.path());
        let said = shell.output().expect("a shell");
        assert!(said.status.success(), "{command}: {}", String::from_utf8_lossy(&said.stderr));
        String::from_utf8_lossy(&said.stdout).trim().to_owned()
    }

    fn vsctl(&self, words: &str) -> String {
        self.shell(&format!("ovs-vsctl -t 10 --db=unix:$D/db.sock {words}"))
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        for name in ["ovs-vswitchd", "ovsdb-server"] {
            let Ok(pid) = std::fs::read_to_string(self.path().join(format!("{name}.pid"))) else { continue };
            let _ = Command::new("kill").args(["-9", pid.trim()]).status();
        }
        let _ = Command::new("ip").args(["netns", "del", &self.namespace]).status();
    }
}

/// Debian 13 has it at a place of its own.
fn vswitchd() -> String {
    let places = ["/usr/lib/openvswitch-switch/ovs-vswitchd", "/usr/sbin/ovs-vswitchd"];
    places.into_iter().find(|place| Path::new(place).exists()).unwrap_or("ovs-vswitchd").to_owned()
}

/// Waits until the OVSNode is as it should be.
async fn until(nodes: &Api<OVSNode>, what: &str, is_so: impl Fn(&OVSNode) -> bool) -> OVSNode {
    let began = Instant::now();
    loop {
        let found = nodes.get_opt("orchard").await.expect("an answer");
        if let Some(found) = found.clone().filter(|found| is_so(found)) {
            return found;
        }
        assert!(began.elapsed() < Duration::from_secs(20), "{what}: {:?}", found.and_then(|found| found.status));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn has_issue(node: &OVSNode, words: &str) -> bool {
    node.status.iter().flat_map(|status| &status.issues).any(|issue| issue.message.contains(words))
}

fn condition(node: &OVSNode, name: &str) -> Option<ConditionStatus> {
    let conditions = &node.status.as_ref()?.conditions;
    conditions.iter().find(|condition| condition.r#type == name).map(|condition| condition.status)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_ovsnode_says_what_ovs_vsctl_says() -> Tested {
    let Some(switch) = Switch::start() else { return Ok(()) };
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

    // The daemons are asked again, and nothing is written when they say the same.
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
