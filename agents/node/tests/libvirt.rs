//! The agent beside a real libvirtd with QEMU, and a whole API server. Needs root, libvirtd, virsh and qemu-system-x86_64;
//! without them the test says so and ends.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use c5c3_agent_node::{CONNECTION, NodeMetrics, Options, run};
use c5c3_api::blocks::ConditionStatus;
use c5c3_api::hypervisor::Hypervisor;
use c5c3_harness::TestCluster;
use kube::api::{Api, PostParams};
use serde_json::json;
use tokio_util::sync::CancellationToken;

type Tested = Result<(), Box<dyn std::error::Error>>;

const GUEST: &str = "<domain type='qemu'><name>plum</name><memory unit='MiB'>64</memory><vcpu>1</vcpu>
<os><type arch='x86_64' machine='q35'>hvm</type></os><features><acpi/></features></domain>";

/// A libvirtd in a folder of its own. Dropping it ends it and its guests.
struct Libvirt {
    folder: PathBuf,
    daemon: Child,
}

impl Libvirt {
    /// Nothing where it cannot run.
    fn start(folder: &Path) -> Option<Self> {
        let is_root = Command::new("id").arg("-u").output().is_ok_and(|said| said.stdout == b"0\n");
        let exists = |program: &str| Command::new(program).arg("--version").output().is_ok();
        if !is_root || !["libvirtd", "virsh", "qemu-system-x86_64"].into_iter().all(exists) {
            eprintln!("SKIPPED: needs root, libvirtd, virsh and qemu-system-x86_64");
            return None;
        }
        let conf =
            format!("unix_sock_dir = \"{0}\"\nauth_unix_rw = \"none\"\nunix_sock_group = \"root\"\n", folder.display());
        std::fs::write(folder.join("libvirtd.conf"), conf).expect("a file");
        let mut command = Command::new("libvirtd");
        command.arg("--config").arg(folder.join("libvirtd.conf")).arg("--pid-file").arg(folder.join("pid"));
        let daemon = command.stderr(Stdio::null()).spawn().expect("libvirtd");
        Some(Self { folder: folder.to_owned(), daemon })
    }

    fn virsh(&self, words: &[&str]) -> String {
        let uri = format!("qemu+unix:///system?socket={}/libvirt-sock", self.folder.display());
        let said = Command::new("virsh").args(["-q", "-c", &uri]).args(words).output().expect("virsh");
        assert!(said.status.success(), "{words:?}: {}", String::from_utf8_lossy(&said.stderr));
        String::from_utf8_lossy(&said.stdout).trim().to_owned()
    }

    fn kill(&mut self) {
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
    }
}

impl Drop for Libvirt {
    fn drop(&mut self) {
        if matches!(self.daemon.try_wait(), Ok(None)) && std::thread::panicking() {
            let uri = format!("qemu+unix:///system?socket={}/libvirt-sock", self.folder.display());
            let _ = Command::new("virsh").args(["-q", "-c", &uri, "destroy", "plum"]).status();
        }
        self.kill();
    }
}

async fn until(api: &Api<Hypervisor>, what: &str, is_so: impl Fn(&Hypervisor) -> bool) -> Hypervisor {
    let began = Instant::now();
    loop {
        let found = api.get("orchard").await.expect("an answer");
        if is_so(&found) {
            return found;
        }
        assert!(began.elapsed() < Duration::from_mins(1), "{what}: {:?}", found.status);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn connected(hypervisor: &Hypervisor) -> Option<ConditionStatus> {
    let conditions = &hypervisor.status.as_ref()?.conditions;
    conditions.iter().find(|condition| condition.r#type == CONNECTION).map(|condition| condition.status)
}

fn instances(hypervisor: &Hypervisor) -> Vec<(String, bool)> {
    let all = hypervisor.status.iter().flat_map(|status| &status.instances);
    all.map(|instance| (instance.name.clone(), instance.active)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hypervisor_says_what_virsh_says() -> Tested {
    let folder = tempfile::tempdir()?;
    let Some(mut libvirt) = Libvirt::start(folder.path()) else { return Ok(()) };
    let cluster = TestCluster::start().await?;
    for (version, kind) in [("hypervisor.c5c3.io/v1", "Hypervisor"), ("hypervisor.c5c3.io/v1alpha1", "Migration")] {
        cluster.install(&c5c3_api::find(version, kind).expect("a kind").crd()).await?;
    }
    let api: Api<Hypervisor> = Api::all(cluster.client());
    let object = json!({"apiVersion": "hypervisor.c5c3.io/v1", "kind": "Hypervisor", "metadata": {"name": "orchard"}, "spec": {}});
    api.create(&PostParams::default(), &serde_json::from_value(object)?).await?;
    let (metrics, stop) = (NodeMetrics::default(), CancellationToken::new());
    let options = Options {
        node: "orchard".into(),
        namespace: cluster.namespace().into(),
        socket: folder.path().join("libvirt-sock"),
        uri: "qemu:///system".into(),
        virt_type: PathBuf::from("/nonexistent"),
        os_release: PathBuf::from("/etc/os-release"),
    };
    let agent = tokio::spawn(run(cluster.client(), options, metrics.clone(), stop.clone()));
    let found = until(&api, "libvirt answers", |one| connected(one) == Some(ConditionStatus::True)).await;

    let status = found.status.expect("a status");
    let version = libvirt.virsh(&["version"]);
    assert!(version.contains(&format!("libvirt {}", status.lib_virt_version.expect("a version"))), "{version}");
    assert!(version.contains(&format!("QEMU {}", status.hypervisor_version.expect("a version"))), "{version}");
    let info = libvirt.virsh(&["nodeinfo"]);
    let said = |name: &str| -> u64 {
        let line = info.lines().find(|line| line.starts_with(name)).expect("a line");
        line.split_whitespace().find_map(|word| word.parse().ok()).expect("a number")
    };
    let capacity = status.capacity.expect("a capacity");
    assert_eq!(capacity.cpu.expect("CPUs").as_str(), said("CPU(s)").to_string());
    assert_eq!(capacity.memory.expect("memory").as_str(), (said("Memory size") * 1024).to_string());

    // A guest that was defined by hand, without pinning: told at once, and counted.
    std::fs::write(folder.path().join("guest.xml"), GUEST)?;
    libvirt.virsh(&["define", &folder.path().join("guest.xml").display().to_string()]);
    until(&api, "it is defined", |one| instances(one) == [("plum".into(), false)]).await;
    libvirt.virsh(&["start", "plum"]);
    let found = until(&api, "it runs", |one| instances(one) == [("plum".into(), true)]).await;
    let allocation = found.status.and_then(|status| status.allocation).expect("an allocation");
    assert_eq!(
        (allocation.cpu.expect("CPUs").as_str(), allocation.memory.expect("memory").as_str()),
        ("1", "67108864")
    );

    // An event about nothing that is published causes no write: the next one is that of the end.
    let writes = metrics.writes();
    libvirt.virsh(&["suspend", "plum"]);
    libvirt.virsh(&["resume", "plum"]);
    libvirt.virsh(&["destroy", "plum"]);
    until(&api, "it is shut off", |one| instances(one) == [("plum".into(), false)]).await;
    assert_eq!(metrics.writes(), writes + 1);
    libvirt.virsh(&["undefine", "plum"]);
    until(&api, "it is gone", |one| instances(one).is_empty()).await;
    libvirt.kill();
    let ended = Instant::now();
    until(&api, "libvirt is missed", |one| connected(one) == Some(ConditionStatus::False)).await;
    assert!(ended.elapsed() < Duration::from_secs(5), "{:?}", ended.elapsed());
    assert!(!agent.is_finished(), "the agent lives");
    stop.cancel();
    agent.await?;
    Ok(())
}
