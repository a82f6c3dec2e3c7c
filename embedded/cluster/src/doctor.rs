//! Whether the machine can run a cluster, and what to do about it if not. Looks only; touches nothing.

mod devices;
mod forwarding;

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};

use c5c3_cri::{Addresses, Programs};

use crate::addresses;
use crate::folder::Folder;

const GIB: u64 = 1 << 30;

/// Free disk below which no cluster is started: images and logs need room.
const LEAST_DISK: u64 = 2 * GIB;

/// Free memory below which no cluster is started: what the cluster itself and a few small pods need.
const LEAST_MEMORY: u64 = GIB / 2;

/// The outcome of one check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What was looked at.
    pub check: &'static str,
    /// What was seen.
    pub seen: String,
    /// How to mend it; none when it is good.
    pub fix: Option<String>,
    /// Whether a cluster can be started in spite of it.
    is_bearable: bool,
}

impl Finding {
    fn good(check: &'static str, seen: impl Into<String>) -> Self {
        Self { check, seen: seen.into(), fix: None, is_bearable: true }
    }

    fn bad(check: &'static str, seen: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { check, seen: seen.into(), fix: Some(fix.into()), is_bearable: false }
    }

    fn warning(check: &'static str, seen: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { is_bearable: true, ..Self::bad(check, seen, fix) }
    }

    /// Whether a cluster can be started: it is as it should be, or something is that a cluster can do without.
    pub fn is_bearable(&self) -> bool {
        self.is_bearable
    }
}

impl std::fmt::Display for Finding {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.fix {
            None => write!(to, "ok       {:<12} {}", self.check, self.seen),
            Some(fix) => {
                let word = if self.is_bearable { "WARNING" } else { "PROBLEM" };
                write!(to, "{word}  {:<12} {}\n         {:<12} → {fix}", self.check, self.seen, "")
            }
        }
    }
}

/// Looks at everything.
pub fn examine(folder: &Folder) -> Vec<Finding> {
    let mut findings =
        vec![root(), packages(), kernel(), cgroups(), nftables(), forwarding(), memory(), disk(folder.path()), git()];
    findings.extend(devices::look(Path::new("/dev")));
    let saved = folder.load();
    match &saved {
        Err(error) => findings.push(Finding::bad("data", error.to_string(), "choose another folder with --data")),
        Ok(Some(saved)) if folder.owner().is_none() => findings.push(port(saved.port)),
        Ok(Some(_)) => findings.push(Finding::good("data", format!("{}: the cluster runs", folder.path().display()))),
        Ok(None) => findings.push(addresses()),
    }
    findings
}

fn root() -> Finding {
    if rustix::process::geteuid().is_root() {
        Finding::good("user", "root")
    } else {
        Finding::bad("user", "not root: namespaces, mounts and cgroups can't be made", "run the same command with sudo")
    }
}

fn packages() -> Finding {
    let Err(missing) = Programs::find() else {
        return Finding::good("packages", "containerd, runc, CNI plugins, nftables, iproute2 and catatonit are there");
    };
    let (names, mut packages): (Vec<_>, Vec<_>) = missing.programs.into_iter().unzip();
    packages.sort_unstable();
    packages.dedup();
    Finding::bad(
        "packages",
        format!("not found: {}", names.join(", ")),
        format!("apt-get install -y {}", packages.join(" ")),
    )
}

/// Only commits need git, so that a machine without it is as it should be.
fn git() -> Finding {
    let asked = Command::new("git").arg("--version").stdin(Stdio::null()).output();
    match asked {
        Ok(answer) if answer.status.success() => {
            Finding::good("git", String::from_utf8_lossy(&answer.stdout).trim().to_owned())
        }
        _ => Finding::good("git", "not installed; GitRepositories need it: apt-get install -y git"),
    }
}

fn kernel() -> Finding {
    let filesystems = fs::read_to_string("/proc/filesystems").unwrap_or_default();
    if !filesystems.lines().any(|line| line.ends_with("\toverlay")) {
        return Finding::bad("kernel", "no overlay file system, which containers are made of", "modprobe overlay");
    }
    if !Path::new("/proc/self/ns/net").exists() {
        return Finding::bad("kernel", "no network namespaces", "use a kernel with CONFIG_NET_NS");
    }
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    Finding::good("kernel", format!("{} with overlay and network namespaces", release.trim()))
}

fn cgroups() -> Finding {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let of_kind = |kind: &str| mounts.lines().any(|line| line.split(' ').nth(2) == Some(kind));
    let memory = mounts.lines().any(|line| {
        let fields: Vec<_> = line.split(' ').collect();
        matches!(fields[..], [_, _, "cgroup", options, ..] if options.split(',').any(|option| option == "memory"))
    });
    match (of_kind("cgroup"), of_kind("cgroup2")) {
        (true, both) if memory => Finding::good("cgroups", if both { "version 1, hybrid" } else { "version 1" }),
        (true, _) => {
            Finding::bad("cgroups", "version 1 without a memory hierarchy", "mount it at /sys/fs/cgroup/memory")
        }
        (false, true) => Finding::good("cgroups", "version 2"),
        (false, false) => Finding::bad("cgroups", "none are mounted", "mount -t cgroup2 none /sys/fs/cgroup"),
    }
}

fn nftables() -> Finding {
    let asked = Command::new("nft").args(["list", "tables"]).stdin(Stdio::null()).output();
    match asked {
        Ok(answer) if answer.status.success() => Finding::good("nftables", "the kernel answers"),
        Ok(answer) => {
            let said = String::from_utf8_lossy(&answer.stderr);
            let first = said.lines().next().unwrap_or("it says nothing").to_owned();
            let is_root = rustix::process::geteuid().is_root();
            let fix = if is_root { "modprobe nf_tables" } else { "run the same command with sudo" };
            Finding::bad("nftables", format!("nft fails: {first}"), fix)
        }
        Err(_) => Finding::bad("nftables", "there is no nft", "apt-get install -y nftables"),
    }
}

fn forwarding() -> Finding {
    match forwarding::look() {
        None => Finding::good("forwarding", "no chain of the machine's drops it"),
        Some(barrier) => Finding::warning("forwarding", barrier.seen(), barrier.fix()),
    }
}

fn memory() -> Finding {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let available = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kibibytes = available.and_then(|rest| rest.trim().trim_end_matches(" kB").parse::<u64>().ok()).unwrap_or(0);
    room("memory", kibibytes * 1024, LEAST_MEMORY, "end other programs, or use a larger machine")
}

fn disk(path: &Path) -> Finding {
    let existing = path.ancestors().find(|folder| folder.exists()).unwrap_or(Path::new("/"));
    let free = rustix::fs::statvfs(existing).map_or(0, |stat| stat.f_bavail * stat.f_frsize);
    room(
        "disk",
        free,
        LEAST_DISK,
        &format!("free some of {}, or choose another folder with --data", existing.display()),
    )
}

fn room(check: &'static str, free: u64, least: u64, fix: &str) -> Finding {
    let gibibytes = |bytes: u64| format!("{}.{} GiB", bytes / GIB, bytes % GIB * 10 / GIB);
    let seen = format!("{} free", gibibytes(free));
    if free >= least {
        Finding::good(check, seen)
    } else {
        Finding::bad(check, format!("{seen}, and {} are the least", gibibytes(least)), fix)
    }
}

/// Another program may have taken the port while the cluster was stopped. The cluster starts nevertheless.
fn port(port: u16) -> Finding {
    match TcpListener::bind(("127.0.0.1", port)) {
        Ok(_) => Finding::good("port", format!("127.0.0.1:{port} is free")),
        Err(error) => Finding::warning(
            "port",
            format!("127.0.0.1:{port}, where the API was, cannot be had: {error}; `c5c3 up` takes another port"),
            format!(
                "use the kubeconfig that `c5c3 env` names, not a copy; or end what listens there (ss -ltnp 'sport = :{port}')"
            ),
        ),
    }
}

fn addresses() -> Finding {
    match addresses::used().map(|used| addresses::choose(&used)) {
        Some(Some(block)) => {
            let Addresses { nodes, pods, services, .. } = addresses::of(block);
            Finding::good("addresses", format!("{nodes} for nodes, {pods} for pods, {services} for Services"))
        }
        Some(None) => Finding::bad(
            "addresses",
            "routes of this machine overlap with all of 10.123.0.0 to 10.242.255.255",
            "take the route away that covers them (ip route)",
        ),
        None => Finding::bad("addresses", "the routes of this machine cannot be read", "apt-get install -y iproute2"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_little_room_says_how_much_there_is_and_what_to_do() {
        let finding = room("disk", GIB / 2, LEAST_DISK, "free some");
        assert_eq!(
            finding.to_string(),
            "PROBLEM  disk         0.5 GiB free, and 2.0 GiB are the least\n                      → free some"
        );
        assert!(room("disk", 3 * GIB, LEAST_DISK, "free some").is_bearable());
    }

    #[test]
    fn what_a_cluster_can_do_without_is_a_warning() {
        let finding = Finding::warning("forwarding", "dropped", "let it through");
        assert!(finding.is_bearable());
        assert_eq!(finding.to_string(), "WARNING  forwarding   dropped\n                      → let it through");
    }

    #[test]
    fn a_stopped_cluster_whose_port_is_taken_can_start() {
        let parent = tempfile::tempdir().unwrap();
        let folder = Folder::new(&parent.path().join("cluster")).unwrap();
        folder.create().unwrap();
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = taken.local_addr().unwrap().port();
        folder.save(&crate::folder::Saved::new(123, port, Vec::new())).unwrap();
        let finding = examine(&folder).into_iter().find(|finding| finding.check == "port").unwrap();
        assert!(finding.is_bearable(), "{finding}");
        assert!(finding.seen.contains(&port.to_string()) && finding.seen.contains("takes another port"), "{finding}");
    }
}
