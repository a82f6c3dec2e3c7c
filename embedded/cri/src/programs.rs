//! The programs that do the work, where they are on this machine, and which Debian package brings one that is missing.

use std::fmt;
use std::path::{Path, PathBuf};

/// Where programs are looked for, and what containerd and its plugins get as `PATH`.
pub(crate) const SEARCH_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The CNI plugins of Debian, then those of everybody else.
const PLUGIN_FOLDERS: [&str; 2] = ["/usr/lib/cni", "/opt/cni/bin"];
const PLUGINS: [&str; 4] = ["host-local", "loopback", "portmap", "ptp"];

/// What is run, each as an absolute path.
#[derive(Clone, Debug)]
pub struct Programs {
    /// containerd itself.
    pub containerd: PathBuf,
    /// containerd's tool, which imports images.
    pub ctr: PathBuf,
    /// What starts containers.
    pub runc: PathBuf,
    /// The CNI plugins' folder.
    pub plugins: PathBuf,
    /// Makes links, addresses and routes.
    pub ip: PathBuf,
    /// Writes packet filter rules.
    pub nft: PathBuf,
    /// Enters a namespace.
    pub nsenter: PathBuf,
    /// Makes a namespace.
    pub unshare: PathBuf,
    /// Starts a session.
    pub setsid: PathBuf,
    /// The process of a sandbox, a static binary.
    pub catatonit: PathBuf,
}

/// Programs that are not there.
#[derive(Debug, Default, PartialEq, Eq, thiserror::Error)]
pub struct Missing {
    /// Each with the package that has it.
    pub programs: Vec<(&'static str, &'static str)>,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.programs.iter().map(|&(program, _)| program).collect();
        let mut packages: Vec<_> = self.programs.iter().map(|&(_, package)| package).collect();
        packages.sort_unstable();
        packages.dedup();
        write!(f, "not found: {}; to install: apt-get install {}", names.join(", "), packages.join(" "))
    }
}

impl Programs {
    /// Finds all programs, or says which ones are missing.
    pub fn find() -> Result<Self, Missing> {
        Self::find_in(SEARCH_PATH, &PLUGIN_FOLDERS)
    }

    fn find_in(search: &str, plugin_folders: &[&str]) -> Result<Self, Missing> {
        let mut missing = Missing::default();
        let mut find = |program: &'static str, package: &'static str| {
            let found = search.split(':').map(|folder| Path::new(folder).join(program)).find(|path| path.is_file());
            found.unwrap_or_else(|| {
                missing.programs.push((program, package));
                PathBuf::new()
            })
        };
        // Not called by us: containerd starts the shim, the plugin for host ports runs iptables.
        find("containerd-shim-runc-v2", "containerd");
        find("iptables", "iptables");
        let mut programs = Self {
            containerd: find("containerd", "containerd"),
            ctr: find("ctr", "containerd"),
            runc: find("runc", "runc"),
            plugins: PathBuf::new(),
            ip: find("ip", "iproute2"),
            nft: find("nft", "nftables"),
            nsenter: find("nsenter", "util-linux"),
            unshare: find("unshare", "util-linux"),
            setsid: find("setsid", "util-linux"),
            catatonit: find("catatonit", "catatonit"),
        };
        let complete = |folder: &&&str| PLUGINS.iter().all(|plugin| Path::new(folder).join(plugin).is_file());
        match plugin_folders.iter().find(complete) {
            Some(folder) => programs.plugins = PathBuf::from(folder),
            None => missing.programs.push(("the CNI plugins", "containernetworking-plugins")),
        }
        if missing.programs.is_empty() { Ok(programs) } else { Err(missing) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_machine_is_told_all_packages_at_once() {
        let missing = Programs::find_in("/nowhere", &["/nowhere"]).unwrap_err().to_string();
        assert!(missing.starts_with("not found: containerd-shim-runc-v2, iptables, containerd, "), "{missing}");
        assert!(
            missing.ends_with(
                "apt-get install catatonit containerd containernetworking-plugins iproute2 iptables nftables runc util-linux"
            ),
            "{missing}"
        );
    }
}
