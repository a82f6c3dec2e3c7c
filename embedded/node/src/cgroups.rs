//! The cgroup of a pod: made with the pod's limits before its containers, removed after them. Both versions.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use c5c3_cri::{Cgroups, v1};

/// Makes a pod's cgroup in every hierarchy and sets what the pod as a whole may use. A setting that the kernel does not
/// take is passed over: each container has its own.
pub(crate) fn make(cgroup: &str, limits: &v1::LinuxContainerResources) -> io::Result<()> {
    let Ok(all) = Cgroups::detect() else { return Ok(()) };
    for root in &all.hierarchies {
        let folder = place(root, cgroup);
        if root.join("cgroup.controllers").exists() {
            make_delegated(root, cgroup)?;
        } else {
            fs::create_dir_all(&folder)?;
            inherit_cpus(root, cgroup);
        }
        for (file, value) in settings(limits) {
            let path = folder.join(file);
            if path.exists() {
                let _ = fs::write(path, value);
            }
        }
    }
    Ok(())
}

/// Removes a pod's cgroup, which has no processes any more.
pub(crate) fn remove(cgroup: &str) {
    let Ok(all) = Cgroups::detect() else { return };
    for root in &all.hierarchies {
        remove_tree(&place(root, cgroup));
    }
}

/// The uids of the pods that have a cgroup below this one, with the cgroup.
pub(crate) fn pods(node: &str) -> Vec<(String, String)> {
    let Ok(all) = Cgroups::detect() else { return Vec::new() };
    let mut found = Vec::new();
    for root in &all.hierarchies {
        for class in ["", "/burstable", "/besteffort"] {
            let parent = format!("{node}{class}");
            for entry in fs::read_dir(place(root, &parent)).into_iter().flatten().flatten() {
                if let Some(uid) = entry.file_name().to_string_lossy().strip_prefix("pod") {
                    found.push((uid.to_owned(), format!("{parent}/pod{uid}")));
                }
            }
        }
    }
    found.sort();
    found.dedup();
    found
}

fn place(root: &Path, cgroup: &str) -> PathBuf {
    root.join(cgroup.trim_start_matches('/'))
}

fn remove_tree(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove_tree(&entry.path());
        }
    }
    let _ = fs::remove_dir(folder);
}

/// In version 2 each level passes its controllers on to the next.
fn make_delegated(root: &Path, cgroup: &str) -> io::Result<()> {
    let mut folder = root.to_owned();
    for name in cgroup.split('/').filter(|name| !name.is_empty()) {
        let controllers = fs::read_to_string(folder.join("cgroup.controllers")).unwrap_or_default();
        for controller in controllers.split_whitespace() {
            // One that is in use by processes right here cannot be passed on.
            let _ = fs::write(folder.join("cgroup.subtree_control"), format!("+{controller}"));
        }
        folder.push(name);
        fs::create_dir_all(&folder)?;
    }
    Ok(())
}

/// In version 1 a new group of cpus is empty, and takes no process.
fn inherit_cpus(root: &Path, cgroup: &str) {
    let mut folder = root.to_owned();
    for name in cgroup.split('/').filter(|name| !name.is_empty()) {
        let parent = folder.clone();
        folder.push(name);
        for file in ["cpuset.cpus", "cpuset.mems"] {
            let own = fs::read_to_string(folder.join(file)).unwrap_or_default();
            if let (true, Ok(value)) = (own.trim().is_empty(), fs::read_to_string(parent.join(file))) {
                let _ = fs::write(folder.join(file), value);
            }
        }
    }
}

/// The files of both versions; those of the other one are not there.
fn settings(limits: &v1::LinuxContainerResources) -> Vec<(&'static str, String)> {
    let shares = limits.cpu_shares.max(2);
    // The kernel's own mapping from shares to weights.
    let weight = 1 + (shares - 2) * 9999 / 262_142;
    let mut files = vec![("cpu.shares", shares.to_string()), ("cpu.weight", weight.to_string())];
    if limits.cpu_quota > 0 {
        files.push(("cpu.cfs_period_us", limits.cpu_period.to_string()));
        files.push(("cpu.cfs_quota_us", limits.cpu_quota.to_string()));
        files.push(("cpu.max", format!("{} {}", limits.cpu_quota, limits.cpu_period)));
    }
    if limits.memory_limit_in_bytes > 0 {
        files.push(("memory.limit_in_bytes", limits.memory_limit_in_bytes.to_string()));
        files.push(("memory.max", limits.memory_limit_in_bytes.to_string()));
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_written_for_both_versions() {
        let limits = v1::LinuxContainerResources {
            cpu_shares: 1024,
            cpu_quota: 50_000,
            cpu_period: 100_000,
            ..v1::LinuxContainerResources::default()
        };
        let files: Vec<String> = settings(&limits).into_iter().map(|(file, value)| format!("{file}={value}")).collect();
        assert_eq!(
            files,
            [
                "cpu.shares=1024",
                "cpu.weight=39",
                "cpu.cfs_period_us=100000",
                "cpu.cfs_quota_us=50000",
                "cpu.max=50000 100000"
            ]
        );
    }
}
