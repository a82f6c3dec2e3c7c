//! The mounts of the machine.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use rustix::mount::{MountPropagationFlags, UnmountFlags, mount_bind_recursive, mount_change, unmount};

/// A line of `mountinfo`.
#[derive(Debug, PartialEq, Eq)]
struct Mount {
    point: PathBuf,
    kind: String,
    /// Whether mounts below it appear wherever it is mounted.
    is_shared: bool,
}

fn mounts() -> io::Result<Vec<Mount>> {
    Ok(std::fs::read_to_string("/proc/self/mountinfo")?.lines().filter_map(parse).collect())
}

/// `36 35 98:0 /root /mount/point rw,noatime master:1 - ext4 /dev/root rw`: see proc(5). Optional fields stand before
/// the dash.
fn parse(line: &str) -> Option<Mount> {
    let (before, after) = line.split_once(" - ")?;
    let mut fields = before.split(' ');
    let point = unescape(fields.nth(4)?);
    let is_shared = fields.any(|field| field.starts_with("shared:"));
    let kind = after.split(' ').next()?.to_owned();
    Some(Mount { point, kind, is_shared })
}

/// Space, tab, newline and backslash are written as three octal digits.
fn unescape(word: &str) -> PathBuf {
    let mut bytes = Vec::with_capacity(word.len());
    let mut rest = word.as_bytes();
    while let [first, tail @ ..] = rest {
        let octal = tail.get(..3).filter(|_| *first == b'\\').and_then(|digits| std::str::from_utf8(digits).ok());
        if let Some(byte) = octal.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            bytes.push(byte);
            rest = &tail[3..];
        } else {
            bytes.push(*first);
            rest = tail;
        }
    }
    PathBuf::from(OsString::from_vec(bytes))
}

/// Is a namespace mounted on this file?
pub fn is_namespace(file: &Path) -> io::Result<bool> {
    Ok(mounts()?.iter().any(|mount| mount.point == file && mount.kind == "nsfs"))
}

/// Makes mounts below a folder appear in containers that have the folder, on a machine whose `/` is private: runc refuses
/// `mountPropagation` for a volume that is not on a shared mount. The folder becomes a shared mount of its own, unless it is
/// on one already. [`unmount_under`] the folder takes it back.
pub fn share(folder: &Path) -> io::Result<()> {
    // The table of mounts has no links in its paths.
    let folder = folder.canonicalize()?;
    if is_on_shared(&mounts()?, &folder) {
        return Ok(());
    }
    mount_bind_recursive(&folder, &folder)?;
    Ok(mount_change(&folder, MountPropagationFlags::SHARED | MountPropagationFlags::REC)?)
}

/// Whether the mount that a folder is on is shared: of those with the longest path, the last one covers the earlier ones.
fn is_on_shared(mounts: &[Mount], folder: &Path) -> bool {
    let around = mounts.iter().filter(|mount| folder.starts_with(&mount.point));
    around.max_by_key(|mount| mount.point.as_os_str().len()).is_some_and(|mount| mount.is_shared)
}

/// What is mounted at a path or below it.
pub(crate) fn first_under(path: &Path) -> io::Result<Option<PathBuf>> {
    Ok(mounts()?.into_iter().map(|mount| mount.point).find(|point| point.starts_with(path)))
}

/// Unmounts whatever lies at or under a folder, the last mounted first; what could not be unmounted, with the reason.
pub fn unmount_under(folder: &Path) -> io::Result<Vec<(PathBuf, io::Error)>> {
    let found = mounts()?;
    let folder = &folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    let under = found.iter().rev().filter(|mount| mount.point.starts_with(folder));
    // Detached: who still has a file open there keeps it, and the mount goes with the last of them.
    let outcomes = under.map(|mount| (mount.point.clone(), unmount(&mount.point, UnmountFlags::DETACH)));
    Ok(outcomes.filter_map(|(point, outcome)| Some((point, outcome.err()?.into()))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mount_points_are_read_with_their_odd_characters() {
        let line = r"98 25 0:4 net:[4026532] /run/a\040b/c\134 rw shared:1 master:2 - nsfs nsfs rw";
        let mount = Mount { point: PathBuf::from("/run/a b/c\\"), kind: "nsfs".to_owned(), is_shared: true };
        assert_eq!(parse(line), Some(mount));
        assert_eq!(parse("nonsense"), None);
    }

    #[test]
    fn the_innermost_and_last_mount_decides_whether_a_folder_is_shared() {
        let table = "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n23 22 0:5 / /srv rw shared:2 - tmpfs none rw\n\
                     24 23 0:6 / /srv/own rw master:2 - tmpfs none rw\n25 22 0:7 / /mnt rw shared:3 - tmpfs none rw\n\
                     26 25 0:8 / /mnt rw - tmpfs none rw";
        let mounts: Vec<_> = table.lines().filter_map(parse).collect();
        for (folder, is_shared) in
            [("/home", false), ("/srv", true), ("/srv/nodes", true), ("/srv/own/nodes", false), ("/mnt/a", false)]
        {
            assert_eq!(is_on_shared(&mounts, Path::new(folder)), is_shared, "{folder}");
        }
    }

    #[test]
    fn a_folder_on_a_private_mount_becomes_a_shared_one_once() {
        let home = tempfile::tempdir().unwrap();
        let (top, inner) = (home.path().join("top"), home.path().join("top/inner"));
        std::fs::create_dir_all(&inner).unwrap();
        rustix::mount::mount("tmpfs", &top, "tmpfs", rustix::mount::MountFlags::empty(), None).expect("takes root");
        mount_change(&top, MountPropagationFlags::PRIVATE).unwrap();
        std::fs::create_dir(&inner).unwrap();
        let at_inner = || mounts().unwrap().into_iter().filter(|mount| mount.point == inner).collect::<Vec<_>>();
        for _ in 0..2 {
            share(&inner).unwrap();
            assert!(matches!(&at_inner()[..], [mount] if mount.is_shared), "{:?}", at_inner());
        }
        assert!(unmount_under(&top).unwrap().is_empty());
        assert!(at_inner().is_empty());
    }
}
