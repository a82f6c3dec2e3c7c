//! The mounts of the machine.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use rustix::mount::{UnmountFlags, unmount};

/// A line of `mountinfo`.
#[derive(Debug, PartialEq, Eq)]
struct Mount {
    point: PathBuf,
    kind: String,
}

fn mounts() -> io::Result<Vec<Mount>> {
    Ok(std::fs::read_to_string("/proc/self/mountinfo")?.lines().filter_map(parse).collect())
}

/// `36 35 98:0 /root /mount/point rw,noatime master:1 - ext4 /dev/root rw`: see proc(5). Optional fields stand before
/// the dash.
fn parse(line: &str) -> Option<Mount> {
    let (before, after) = line.split_once(" - ")?;
    let point = unescape(before.split(' ').nth(4)?);
    let kind = after.split(' ').next()?.to_owned();
    Some(Mount { point, kind })
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

/// What is mounted at a path or below it.
pub(crate) fn first_under(path: &Path) -> io::Result<Option<PathBuf>> {
    Ok(mounts()?.into_iter().map(|mount| mount.point).find(|point| point.starts_with(path)))
}

/// Unmounts whatever lies under a folder, the last mounted first; what could not be unmounted, with the reason.
pub fn unmount_under(folder: &Path) -> io::Result<Vec<(PathBuf, io::Error)>> {
    let found = mounts()?;
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
        let mount = Mount { point: PathBuf::from("/run/a b/c\\"), kind: "nsfs".to_owned() };
        assert_eq!(parse(line), Some(mount));
        assert_eq!(parse("nonsense"), None);
    }
}
