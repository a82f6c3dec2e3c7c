//! The control groups of the machine: which hierarchies there are (one with version 2, many with version 1, both with a
//! hybrid layout), and the removal of ours in each.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::processes::Process;

/// How long killed processes may take to leave their cgroups.
const LIMIT: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(10);

/// How the machine arranges control groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// One hierarchy for each controller.
    V1,
    /// One hierarchy for all.
    V2,
    /// Hierarchies of version 1 that have the controllers, and one of version 2 beside them.
    Hybrid,
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V1 => "version 1",
            Self::V2 => "version 2",
            Self::Hybrid => "hybrid",
        })
    }
}

/// The hierarchies of the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cgroups {
    /// How they are arranged.
    pub layout: Layout,
    /// Where each is mounted.
    pub hierarchies: Vec<PathBuf>,
}

/// No control groups are mounted, so that nothing can be limited, and runc starts nothing.
#[derive(Debug, thiserror::Error)]
#[error("no control groups are mounted: see mount(8), or install the package cgroupfs-mount")]
pub struct NoCgroups;

impl Cgroups {
    /// The hierarchies that are mounted now.
    pub fn detect() -> Result<Self, NoCgroups> {
        let mounts = std::fs::read_to_string("/proc/self/mounts").map_err(|_| NoCgroups)?;
        Self::read(&mounts)
    }

    fn read(mounts: &str) -> Result<Self, NoCgroups> {
        let (mut first, mut second) = (Vec::new(), Vec::new());
        for line in mounts.lines() {
            let mut fields = line.split(' ').skip(1);
            match (fields.next(), fields.next()) {
                (Some(point), Some("cgroup")) => first.push(PathBuf::from(point)),
                (Some(point), Some("cgroup2")) => second.push(PathBuf::from(point)),
                _ => {}
            }
        }
        let layout = match (first.is_empty(), second.is_empty()) {
            (true, true) => return Err(NoCgroups),
            (true, false) => Layout::V2,
            (false, true) => Layout::V1,
            (false, false) => Layout::Hybrid,
        };
        first.append(&mut second);
        Ok(Self { layout, hierarchies: first })
    }

    /// The folders of a cgroup, in each hierarchy that has it.
    fn folders(&self, cgroup: &str) -> Vec<PathBuf> {
        let inside = cgroup.trim_start_matches('/');
        self.hierarchies.iter().map(|root| root.join(inside)).filter(|folder| folder.is_dir()).collect()
    }

    /// Kills every process in a cgroup and below, and waits until all are gone.
    pub(crate) fn kill(&self, cgroup: &str) -> io::Result<()> {
        let deadline = Instant::now() + LIMIT;
        // Again and again, because one may have forked between the reading and the killing.
        loop {
            let mut left = Vec::new();
            for folder in self.folders(cgroup) {
                collect_processes(&folder, &mut left)?;
            }
            left.sort_unstable();
            left.dedup();
            if left.is_empty() {
                return Ok(());
            }
            if Instant::now() > deadline {
                return Err(io::Error::new(io::ErrorKind::TimedOut, format!("processes {left:?} do not end")));
            }
            for process in left.iter().filter_map(|&pid| Process::open(pid)) {
                process.signal(Signal::KILL)?;
            }
            sleep(PAUSE);
        }
    }

    /// Removes a cgroup and those below, in every hierarchy. There must be no processes in them.
    pub(crate) fn remove(&self, cgroup: &str) -> io::Result<()> {
        self.folders(cgroup).iter().try_for_each(|folder| remove_tree(folder, Instant::now() + LIMIT))
    }

    /// Removes a cgroup if there is nothing below.
    pub(crate) fn remove_if_empty(&self, cgroup: &str) {
        for folder in self.folders(cgroup) {
            let _ = std::fs::remove_dir(folder);
        }
    }
}

/// The cgroups below one. One that vanishes meanwhile has none.
fn children(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    Ok(entries.filter_map(Result::ok).filter(|e| e.file_type().is_ok_and(|t| t.is_dir())).map(|e| e.path()).collect())
}

fn collect_processes(folder: &Path, into: &mut Vec<u32>) -> io::Result<()> {
    // A threaded cgroup of version 2 refuses the reading; its processes are listed by its parent.
    let processes = std::fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
    into.extend(processes.lines().filter_map(|line| line.parse::<u32>().ok()));
    children(folder)?.iter().try_for_each(|child| collect_processes(child, into))
}

fn remove_tree(folder: &Path, deadline: Instant) -> io::Result<()> {
    for child in children(folder)? {
        remove_tree(&child, deadline)?;
    }
    loop {
        match std::fs::remove_dir(folder) {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            // A process that has just ended holds its cgroup until it is reaped.
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy && Instant::now() < deadline => sleep(PAUSE),
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_layout_is_told_by_what_is_mounted() {
        let v1 = "tmpfs /sys/fs/cgroup tmpfs rw 0 0\ncgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\n";
        let v2 = "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n";
        let hybrid = format!("{v1}cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n");
        assert_eq!(Cgroups::read(v1).unwrap().layout, Layout::V1);
        assert_eq!(Cgroups::read(v2).unwrap().layout, Layout::V2);
        let found = Cgroups::read(&hybrid).unwrap();
        assert_eq!(found.layout, Layout::Hybrid);
        let roots = ["/sys/fs/cgroup/cpu", "/sys/fs/cgroup/unified"].map(PathBuf::from);
        assert_eq!(found.hierarchies, roots);
        assert!(Cgroups::read("proc /proc proc rw 0 0\n").is_err());
    }
}
