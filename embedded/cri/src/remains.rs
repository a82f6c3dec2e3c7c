//! The end of a node: its processes, mounts, cgroups and files in `/run`, wherever a crash may have left them. The data
//! folder stays. Nothing here needs containerd to answer, or to run at all: for the containers it is a power failure.

use std::borrow::Cow;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::Site;
use crate::cgroups::Cgroups;
use crate::processes;

/// How long containerd may take to close its files.
const GRACE: Duration = Duration::from_secs(10);
/// Where every containerd of a machine keeps the sockets of its shims.
const SHIM_SOCKETS: &str = "/run/containerd/s";
/// Where CNI keeps what its plugins answered.
const PLUGIN_RESULTS: &str = "/var/lib/cni/results";

/// What could not be removed, each with the reason.
#[derive(Debug, Default, thiserror::Error)]
pub struct Remains(Vec<String>);

impl fmt::Display for Remains {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "left behind: {}", self.0.join("; "))
    }
}

impl Remains {
    fn note<T>(&mut self, what: impl fmt::Display, outcome: io::Result<T>) -> Option<T> {
        outcome.inspect_err(|error| self.0.push(format!("{what}: {error}"))).ok()
    }

    fn result(self) -> Result<(), Self> {
        if self.0.is_empty() { Ok(()) } else { Err(self) }
    }
}

/// Ends a node and removes what it has outside its data folder, except its namespace and links. Goes on where something
/// fails, and can be repeated. Blocks for as long as it takes.
pub fn end_node(site: &Site) -> Result<(), Remains> {
    let mut remains = Remains::default();
    // containerd first: it would start to clean up behind its containers.
    end_processes(site, &mut remains, |program| program != "containerd-shim-runc-v2", GRACE);
    // Then the containers, while their shims can still reap them.
    let cgroups = Cgroups::detect().ok();
    if let Some(cgroups) = &cgroups {
        remains.note("containers", cgroups.kill(&site.cgroup_parent()));
    }
    end_processes(site, &mut remains, |_| true, Duration::ZERO);
    for folder in [site.run(), site.data().to_owned()] {
        for (point, error) in remains.note("mounts", c5c3_files::unmount_under(&folder)).unwrap_or_default() {
            remains.note(point.display(), Err::<(), _>(error));
        }
    }
    if let Some(cgroups) = &cgroups {
        let parent = site.cgroup_parent();
        remains.note(&parent, cgroups.remove(&parent));
        cgroups.remove_if_empty(parent.trim_end_matches(site.node()));
    }
    remove_shim_sockets(site, &mut remains);
    remove_plugin_results(site, &mut remains);
    remains.note(site.run().display(), absent_is_fine(fs::remove_dir_all(site.run())));
    remove_if_empty(&[&site.instance().run().join("nodes"), &site.instance().run()]);
    remains.result()
}

fn end_processes(site: &Site, remains: &mut Remains, which: impl Fn(&str) -> bool, grace: Duration) {
    let found = remains.note("processes", processes::with_argument(&site.socket())).unwrap_or_default();
    for (program, process) in found.iter().filter(|(program, _)| which(program)) {
        remains.note(program, process.end(grace));
    }
}

/// A shim that was killed leaves its socket in a folder of the whole machine; its bundle says which one.
fn remove_shim_sockets(site: &Site, remains: &mut Remains) {
    let bundles = site.state().join("io.containerd.runtime.v2.task/k8s.io");
    for bundle in entries(&bundles) {
        let address = fs::read_to_string(bundle.join("address")).unwrap_or_default();
        let socket = Path::new(address.trim().trim_start_matches("unix://"));
        if socket.starts_with(SHIM_SOCKETS) {
            remains.note(socket.display(), absent_is_fine(fs::remove_file(socket)));
        }
    }
    remove_if_unused(&[Path::new(SHIM_SOCKETS), Path::new("/run/containerd")]);
}

/// What the plugins answered for a sandbox is kept until the sandbox is stopped, as `NETWORK-SANDBOX-LINK`: for our
/// network, and for the loopback that containerd gives to all.
fn remove_plugin_results(site: &Site, remains: &mut Remains) {
    let folder = Path::new(PLUGIN_RESULTS);
    let results = entries(folder);
    for sandbox in entries(&site.state().join("io.containerd.grpc.v1.cri/sandboxes")) {
        let part = format!("-{}-", file_name(&sandbox));
        for result in results.iter().filter(|result| file_name(result).contains(&part)) {
            remains.note(result.display(), absent_is_fine(fs::remove_file(result)));
        }
    }
    remove_if_unused(&[folder, Path::new("/var/lib/cni")]);
}

fn file_name(path: &Path) -> Cow<'_, str> {
    path.file_name().unwrap_or_default().to_string_lossy()
}

/// Removes empty folders that all of the machine share, unless another containerd may be about to put something there.
fn remove_if_unused(folders: &[&Path]) {
    let others = entries(Path::new("/proc")).into_iter().any(|process| {
        // One that has ended and waits for its parent still has a name, and no command line.
        let runs = fs::read(process.join("cmdline")).is_ok_and(|line| !line.is_empty());
        runs && fs::read_to_string(process.join("comm")).is_ok_and(|name| name.starts_with("containerd"))
    });
    if !others {
        remove_if_empty(folders);
    }
}

/// Removes folders, each if it is empty.
pub(crate) fn remove_if_empty(folders: &[&Path]) {
    for folder in folders {
        // Not being empty is the one reason to expect, and a good one.
        let _ = fs::remove_dir(folder);
    }
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let found = fs::read_dir(folder).into_iter().flatten();
    found.filter_map(Result::ok).map(|entry| entry.path()).collect()
}

fn absent_is_fine(outcome: io::Result<()>) -> io::Result<()> {
    outcome.or_else(|error| if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) })
}
