//! What every layer is rid of before it is packed.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use crate::Problem;
use crate::stage::within;

/// Left behind by installing, and different each time or of no use; among them what should be one machine's secret.
const LEFT: [&str; 15] = [
    "etc/group-",
    "etc/gshadow-",
    "etc/nvme/hostid",
    "etc/nvme/hostnqn",
    "etc/passwd-",
    "etc/shadow-",
    "etc/.pwd.lock",
    "root",
    "var/cache/ldconfig/aux-cache",
    "var/lib/dbus/machine-id",
    "var/lib/dpkg/lock",
    "var/lib/dpkg/lock-frontend",
    "var/lib/dpkg/triggers/Lock",
    "var/lib/rabbitmq/.erlang.cookie",
    "var/log",
];
/// Folders whose files of this ending are copies of what they were before.
const OLD: [&str; 2] = ["var/lib/dpkg", "var/cache/debconf"];

/// Removes what was left, and the bits by which a program becomes root; how many bytes the files have.
pub(super) fn tidy(root: &Path) -> Result<u64, Problem> {
    // The base keeps its folders; layers have only what they have put into them.
    let is_base = root.join("etc/debian_version").exists();
    for left in LEFT {
        let path = root.join(left);
        if !(is_base && path.is_dir()) {
            crate::cache::remove(&path).map_err(within)?;
        }
    }
    if !is_base {
        // Another one each time; below it is the base's, which is empty.
        crate::cache::remove(&root.join("etc/machine-id")).map_err(within)?;
    }
    for folder in OLD.map(|folder| root.join(folder)) {
        for name in crate::cache::names(&folder).unwrap_or_default().iter().filter(|name| name.ends_with("-old")) {
            crate::cache::remove(&folder.join(name)).map_err(within)?;
        }
    }
    walk(root)
}

fn walk(folder: &Path) -> Result<u64, Problem> {
    let mut size = 0;
    for entry in fs::read_dir(folder).map_err(Problem::file(folder))? {
        let path = entry.map_err(Problem::file(folder))?.path();
        let data = path.symlink_metadata().map_err(Problem::file(&path))?;
        if data.is_dir() {
            size += walk(&path)?;
        } else if data.is_file() {
            size += data.len();
            if data.mode() & 0o6000 != 0 {
                let mode = fs::Permissions::from_mode(data.mode() & 0o1777);
                fs::set_permissions(&path, mode).map_err(Problem::file(&path))?;
            }
        }
    }
    Ok(size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_stays_that_differs_or_that_makes_root() {
        let root = tempfile::tempdir().unwrap();
        for (file, mode) in
            [("usr/bin/su", 0o4755), ("var/lib/dpkg/status-old", 0o644), ("var/log/apt/term.log", 0o644)]
        {
            let path = root.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, "12345").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        }
        assert_eq!(tidy(root.path()).unwrap(), 5);
        assert_eq!(fs::metadata(root.path().join("usr/bin/su")).unwrap().mode() & 0o7777, 0o755);
        assert!(!root.path().join("var/lib/dpkg/status-old").exists() && !root.path().join("var/log").exists());
    }
}
