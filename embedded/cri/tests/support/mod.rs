//! Pods for tests, and a look at what the machine has of them.
#![allow(dead_code, reason = "each test file takes what it needs")]

use std::fs;
use std::future::Future;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use c5c3_cri::testing::{Machine, pods};
use c5c3_cri::{Runtime, Site, images, v1};

pub use c5c3_cri::testing::pods::sandbox;

/// Long enough for a machine with other things to do.
pub const DEADLINE: Duration = Duration::from_mins(1);

pub struct Pod {
    pub sandbox: String,
    pub container: String,
    pub address: String,
    pub log: String,
}

pub fn container(image: &str, script: &str) -> v1::ContainerConfig {
    v1::ContainerConfig { command: words("sh -c"), args: vec![script.into()], ..pods::container(image) }
}

pub fn words(line: &str) -> Vec<String> {
    line.split(' ').map(str::to_owned).collect()
}

/// Runs a pod with one container of the test image.
pub async fn run(site: &Site, runtime: &Runtime, config: v1::PodSandboxConfig, script: &str) -> Pod {
    let sandbox = runtime.run_pod_sandbox(config.clone(), "").await.unwrap();
    let log = format!("{}/main.log", config.log_directory);
    let container = runtime.create_container(&sandbox, container(images::BUSYBOX, script), config).await.unwrap();
    runtime.start_container(&container).await.unwrap();
    let status = runtime.pod_sandbox_status(&sandbox).await.unwrap();
    assert_eq!(status.state(), v1::PodSandboxState::SandboxReady, "{status:?} of {}", site.node());
    Pod { sandbox, container, address: status.network.unwrap().ip, log }
}

/// Serves a word by HTTP on port 8080.
pub fn web(word: &str) -> String {
    format!("echo {word} >/var/www/index.html; exec httpd -f -p 8080 -h /var/www")
}

/// The word that a server answers with.
pub fn get(address: SocketAddr) -> String {
    let answer = pods::ask(address, DEADLINE, |answer| answer.contains("200 OK"));
    answer.lines().last().unwrap_or_default().to_owned()
}

/// Waits until something is there.
pub async fn eventually<T, F: Future<Output = Option<T>>>(what: &str, mut look: impl FnMut() -> F) -> T {
    let deadline = Instant::now() + DEADLINE;
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(Instant::now() < deadline, "{what} did not come true within {DEADLINE:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// What CNI keeps of a sandbox, in a folder of the whole machine.
pub fn plugin_results(sandbox: &str) -> Vec<String> {
    entries("/var/lib/cni/results").into_iter().filter(|file| file.contains(sandbox)).collect()
}

/// Whatever the machine has of an instance: processes, mounts, links, rules, cgroups, files.
pub fn traces(machine: &Machine) -> Vec<String> {
    let instance = machine.instance.to_string();
    let (run, folder) = (format!("/run/c5c3-{instance}/"), machine.folder().to_string_lossy().into_owned());
    let ours = |text: &str| text.contains(&run) || text.contains(&folder);
    let mut found = Vec::new();
    for process in entries("/proc") {
        let line = fs::read(format!("{process}/cmdline")).unwrap_or_default();
        let cgroup = fs::read_to_string(format!("{process}/cgroup")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        if !process.ends_with(&std::process::id().to_string())
            && (ours(&line) || cgroup.contains(&format!("/c5c3-{instance}/")))
        {
            found.push(format!("process {process} {line}"));
        }
    }
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    found.extend(mounts.lines().filter(|line| ours(line)).map(|line| format!("mount {line}")));
    let links = entries("/sys/class/net").into_iter().filter(|link| link.ends_with(&format!("-{instance}")));
    found.extend(links.map(|link| format!("link {link}")));
    let rules = Command::new("nft").args(["list", "tables"]).output().unwrap().stdout;
    let rules = String::from_utf8(rules).unwrap();
    let tables = rules.lines().filter(|table| table.ends_with(&format!("-{instance}")));
    found.extend(tables.map(|table| format!("rules {table}")));
    for hierarchy in c5c3_cri::Cgroups::detect().unwrap().hierarchies {
        let cgroup = hierarchy.join(format!("c5c3-{instance}"));
        found.extend(cgroup.exists().then(|| format!("cgroup {}", cgroup.display())));
    }
    let forwarding = format!("/run/c5c3-forwarding/instance-{instance}");
    for file in [machine.instance.run().as_path(), Path::new(&forwarding)] {
        found.extend(file.exists().then(|| format!("file {}", file.display())));
    }
    found
}

fn entries(folder: &str) -> Vec<String> {
    let found = fs::read_dir(folder).into_iter().flatten();
    found.filter_map(|entry| Some(entry.ok()?.path().to_string_lossy().into_owned())).collect()
}
