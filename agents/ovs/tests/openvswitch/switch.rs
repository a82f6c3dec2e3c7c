//! A real Open vSwitch in userspace for a test.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use c5c3_api::ovs::OVSNode;
use kube::api::Api;

/// Daemons in a folder and in a network namespace of their own. Dropping them ends them.
pub struct Switch {
    folder: tempfile::TempDir,
    namespace: String,
}

impl Switch {
    /// Nothing where they cannot run. The network namespace gets a name with this in it.
    pub fn start(name: &str) -> Option<Self> {
        let is_root = Command::new("id").arg("-u").output().is_ok_and(|said| said.stdout == b"0\n");
        let exists = |program: &str| Command::new(program).arg("--version").output().is_ok();
        if !is_root || !exists("ovsdb-server") || !exists(&vswitchd()) {
            eprintln!("SKIPPED: needs root, ovsdb-server and ovs-vswitchd (apt-get install openvswitch-switch)");
            return None;
        }
        let switch = Self {
            folder: tempfile::tempdir().expect("a folder"),
            namespace: format!("c5{name}{}", std::process::id()),
        };
        switch.shell(&format!("ip netns add {0}; ip -n {0} link set lo up", switch.namespace));
        switch.shell("ovsdb-tool create $D/conf.db ${OVS_PKGDATADIR:-/usr/share/openvswitch}/vswitch.ovsschema");
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

    pub fn database(&self) {
        self.shell(
            "$IN ovsdb-server --detach --no-chdir --log-file=$D/db.log --pidfile=$D/ovsdb-server.pid \
             --unixctl=$D/ovsdb-server.ctl --remote=punix:$D/db.sock $D/conf.db",
        );
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Runs a command of the shell: `$D` is the folder, `$IN` runs a program in the network namespace.
    pub fn shell(&self, command: &str) -> String {
        let inside = format!("ip netns exec {}", self.namespace);
        let mut shell = Command::new("sh");
        shell.args(["-ec", command]).env("D", self.path()).env("IN", inside).env("OVS_RUNDIR", self.path());
        let said = shell.output().expect("a shell");
        assert!(said.status.success(), "{command}: {}", String::from_utf8_lossy(&said.stderr));
        String::from_utf8_lossy(&said.stdout).trim().to_owned()
    }

    pub fn vsctl(&self, words: &str) -> String {
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
pub async fn until(nodes: &Api<OVSNode>, what: &str, is_so: impl Fn(&OVSNode) -> bool) -> OVSNode {
    let began = Instant::now();
    loop {
        let found = nodes.get_opt("orchard").await.expect("an answer");
        if let Some(found) = found.clone().filter(|found| is_so(found)) {
            return found;
        }
        assert!(began.elapsed() < Duration::from_mins(1), "{what}: {:?}", found.and_then(|found| found.status));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

pub fn has_issue(node: &OVSNode, words: &str) -> bool {
    node.status.iter().flat_map(|status| &status.issues).any(|issue| issue.message.contains(words))
}
