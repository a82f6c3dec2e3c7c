//! What the agent of Open vSwitch holds in memory beside a switch with a thousand ports, as a process of its own.

#[path = "../../agents/ovs/tests/scripted/database.rs"]
mod database;

use std::fs::File;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use c5c3_api::ovs::OVSNode;
use c5c3_harness::TestCluster;
use database::Database;
use kube::Api;

const PORTS: usize = 1000;

/// What an agent may hold, in KiB.
const MOST: u64 = 15 << 10;

/// Ends the agent.
struct Agent(Child);

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The memory of a process, in KiB, that it has written to and that is no part of its program's file: heap, stacks, and what
/// libraries hold. The program's own pages are left out, because those of a debug build are several times those of a release: code
/// that the kernel reads again when it needs to, and tables that the loader fills in.
fn held(pid: u32) -> u64 {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/smaps")).unwrap();
    let (mut is_program, mut sum) = (false, 0);
    for line in maps.lines() {
        let mut words = line.split_whitespace();
        match words.next() {
            Some("Anonymous:") if !is_program => sum += words.next().unwrap().parse::<u64>().unwrap(),
            // The head of a mapping begins with its addresses, and ends with its file.
            Some(first) if !first.ends_with(':') => is_program = line.ends_with(env!("CARGO_BIN_EXE_c5c3")),
            _ => {}
        }
    }
    sum
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_agent_of_open_vswitch_holds_less_than_15_mib_beside_a_thousand_ports() {
    let cluster = TestCluster::in_process().await.unwrap();
    cluster.install(&c5c3_api::find("ovs.c5c3.io/v1alpha1", "OVSNode").unwrap().crd()).await.unwrap();
    let (folder, port) = (tempfile::tempdir().unwrap(), cluster.listen().unwrap());
    let database = Database::start(folder.path(), PORTS);
    let log = File::create(folder.path().join("log")).unwrap();
    let args =
        ["agent", "ovs", "--node", "orchard", "--metrics-address", "127.0.0.1:0", "--namespace", cluster.namespace()];
    let mut command = Command::new(env!("CARGO_BIN_EXE_c5c3"));
    command.args(args).arg("--ovs-run").arg(folder.path()).env("KUBECONFIG", port.kubeconfig());
    let agent = Agent(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn().unwrap());

    let nodes: Api<OVSNode> = Api::default_namespaced(cluster.client());
    let until = async |what: &str, issues: usize| {
        let began = Instant::now();
        loop {
            let status = nodes.get_opt("orchard").await.unwrap().and_then(|node| node.status);
            let is_so = |status: &c5c3_api::ovs::OVSNodeStatus| {
                status.issues.len() == issues && status.bridges.iter().any(|bridge| bridge.ports == Some(1000))
            };
            if status.is_some_and(|status| is_so(&status)) {
                return;
            }
            let log = || std::fs::read_to_string(folder.path().join("log")).unwrap_or_default();
            assert!(began.elapsed() < Duration::from_mins(2), "never: {what}: {}", log());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    until("all ports are counted", 0).await;
    (0..PORTS).for_each(|index| database.bind(index, false));
    until("as many issues as there may be", 128).await;
    (0..PORTS).for_each(|index| database.bind(index, true));
    until("no issue is left", 0).await;
    let held = held(agent.0.id());
    // Less than this would not be an agent that has read a thousand ports: then it is measured wrongly.
    assert!((1 << 10..MOST).contains(&held), "{held} KiB");
}
