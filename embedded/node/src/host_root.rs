//! The file system that a `hostPath` volume refers to. Several nodes share one machine: each has a root folder of its own,
//! so that `/run/openvswitch` of one node is not that of another. Devices, `/sys`, `/proc` and kernel modules are the
//! machine's.

use std::fs;
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat, openat2};
use rustix::io::Errno;

use crate::volumes::ownership::set_mode;

/// What every node has of the machine itself.
const OF_THE_MACHINE: [&str; 5] = ["/dev", "/sys", "/proc", "/lib/modules", "/usr/lib/modules"];

/// Where a node keeps what does not outlive a reboot; the first name is the real one.
const RUN: [&str; 2] = ["/run", "/var/run"];

/// Files of the machine that are the same on every node, copied at the node's start.
const COPIED: [&str; 3] = ["etc/resolv.conf", "etc/os-release", "etc/localtime"];

/// The root folder of a node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostRoot(Option<Own>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Own {
    root: PathBuf,
    run: PathBuf,
    shared: Vec<PathBuf>,
}

impl HostRoot {
    /// The machine's own file system, for a node that has the machine to itself.
    pub fn machine() -> Self {
        Self(None)
    }

    /// A root of the node's own: files that stay in `root`, those of `/run` in `run`. Paths in `shared`, such as the
    /// folder of a cluster's volumes, are the machine's.
    pub fn own(root: impl Into<PathBuf>, run: impl Into<PathBuf>, shared: impl IntoIterator<Item = PathBuf>) -> Self {
        let shared = OF_THE_MACHINE.iter().map(PathBuf::from).chain(shared).collect();
        Self(Some(Own { root: root.into(), run: run.into(), shared }))
    }

    /// Makes the folders and files that programs expect on any machine. `name` is the node's.
    pub fn prepare(&self, name: &str) -> io::Result<()> {
        let Some(Own { root, run, .. }) = &self.0 else { return Ok(()) };
        for folder in ["etc", "opt", "srv", "var/lib", "var/log", "var/cache", "tmp", "var/tmp"] {
            fs::create_dir_all(root.join(folder))?;
        }
        fs::create_dir_all(run.join("lock"))?;
        for folder in ["tmp", "var/tmp"] {
            set_mode(&root.join(folder), 0o1777)?;
        }
        fs::write(root.join("etc/hostname"), format!("{name}\n"))?;
        for file in COPIED {
            match fs::copy(Path::new("/").join(file), root.join(file)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    /// Where on the machine a path of the node is. Links are followed within the node's root, as they are in a root file
    /// system. What does not exist yet keeps its name.
    pub fn place(&self, path: &Path) -> io::Result<PathBuf> {
        let Some(Own { root, run, shared }) = &self.0 else { return Ok(path.to_owned()) };
        if path.components().any(|component| component == Component::ParentDir) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "a hostPath must not contain `..`"));
        }
        if shared.iter().any(|prefix| path.starts_with(prefix)) {
            return Ok(path.to_owned());
        }
        let (root, inner) = RUN
            .iter()
            .find_map(|prefix| Some((run, path.strip_prefix(prefix).ok()?)))
            .unwrap_or_else(|| (root, path.strip_prefix("/").unwrap_or(path)));
        resolve(root, inner)
    }
}

/// Follows `inner` as far as it exists, without leaving `root`, and appends the rest.
fn resolve(root: &Path, inner: &Path) -> io::Result<PathBuf> {
    let folder = openat(CWD, root, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    for existing in inner.ancestors() {
        let path = if existing.as_os_str().is_empty() { Path::new(".") } else { existing };
        match openat2(&folder, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), ResolveFlags::IN_ROOT) {
            Ok(found) => {
                let place = fs::read_link(format!("/proc/self/fd/{}", found.as_raw_fd()))?;
                let rest = inner.strip_prefix(existing).unwrap_or(inner);
                return Ok(if rest.as_os_str().is_empty() { place } else { place.join(rest) });
            }
            Err(Errno::NOENT) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(io::ErrorKind::NotFound.into())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn two() -> (tempfile::TempDir, PathBuf, [HostRoot; 2]) {
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path().canonicalize().unwrap();
        let roots = ["one", "two"].map(|name| {
            let root = HostRoot::own(top.join(name).join("root"), top.join(name).join("run"), [top.join("volumes")]);
            root.prepare(name).unwrap();
            root
        });
        (folder, top, roots)
    }

    #[test]
    fn the_same_path_of_two_nodes_is_two_places() {
        let (_folder, top, [one, two]) = two();
        let socket = Path::new("/run/openvswitch/db.sock");
        assert_eq!(one.place(socket).unwrap(), top.join("one/run/openvswitch/db.sock"));
        assert_eq!(two.place(socket).unwrap(), top.join("two/run/openvswitch/db.sock"));
        assert_eq!(one.place(Path::new("/var/run/libvirt")).unwrap(), top.join("one/run/libvirt"));
        assert_eq!(two.place(Path::new("/var/lib/nova")).unwrap(), top.join("two/root/var/lib/nova"));
        assert_eq!(two.place(Path::new("/")).unwrap(), top.join("two/root"));
        assert_eq!(fs::read_to_string(one.place(Path::new("/etc/hostname")).unwrap()).unwrap(), "one\n");
    }

    #[test]
    fn devices_modules_and_volumes_are_the_machines() {
        let (_folder, top, [one, _]) = two();
        for path in ["/dev/kvm", "/sys/fs/cgroup", "/proc/1", "/lib/modules"] {
            assert_eq!(one.place(Path::new(path)).unwrap(), Path::new(path));
        }
        let volume = top.join("volumes/pvc-1");
        assert_eq!(one.place(&volume).unwrap(), volume);
        assert_eq!(one.place(Path::new("/devices")).unwrap(), top.join("one/root/devices"));
        assert_eq!(HostRoot::machine().place(Path::new("/etc")).unwrap(), Path::new("/etc"));
    }

    #[test]
    fn links_stay_within_the_nodes_root() {
        let (_folder, top, [one, _]) = two();
        let root = top.join("one/root");
        symlink("/", root.join("all")).unwrap();
        symlink("../../../..", root.join("up")).unwrap();
        assert_eq!(one.place(Path::new("/all/etc/hostname")).unwrap(), root.join("etc/hostname"));
        assert_eq!(one.place(Path::new("/up/etc/new")).unwrap(), root.join("etc/new"));
        assert!(one.place(Path::new("/etc/../../two")).is_err());
    }
}
