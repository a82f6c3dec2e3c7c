//! Files that change all at once: each version is a folder of its own, and one link says which counts.
//!
//! `key` links to `..data/key`, `..data` to `..VERSION`. A container that follows `..data` once sees one version.

use std::collections::BTreeSet;
use std::fs::{File, Permissions};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, fchmod, mkdirat, openat, openat2};
use rustix::io::Errno;
use sha2::{Digest, Sha256};

use super::VolumeError;
use super::ownership::{Access, Ownership, set_mode};
use super::projection::Projected;

const CURRENT: &str = "..data";
const NEXT: &str = "..data_next";

/// Makes the folder show these files and no others. Nothing is touched if it shows them already.
pub(super) fn write(folder: &Path, files: &[Projected], owner: &Ownership) -> Result<(), VolumeError> {
    write_all(folder, files, owner).map_err(VolumeError::at(folder))
}

fn write_all(folder: &Path, files: &[Projected], owner: &Ownership) -> io::Result<()> {
    files.iter().try_for_each(|file| check(&file.path))?;
    std::fs::create_dir_all(folder)?;
    set_mode(folder, 0o755)?;
    let version = version(files, owner);
    let old = std::fs::read_link(folder.join(CURRENT)).ok();
    if old.as_deref() == Some(Path::new(&version)) {
        return Ok(());
    }
    let new = folder.join(&version);
    // Left over from a write that was cut short.
    remove(&new)?;
    std::fs::create_dir(&new)?;
    set_mode(&new, 0o755)?;
    let root = openat(CWD, &new, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    for file in files {
        write_one(&root, file).map_err(|error| named(&file.path, &error))?;
    }
    owner.apply(folder, Access::Read)?;
    for file in files {
        own(&root, file).map_err(|error| named(&file.path, &error))?;
    }
    remove(&folder.join(NEXT))?;
    symlink(&version, folder.join(NEXT))?;
    std::fs::rename(folder.join(NEXT), folder.join(CURRENT))?;
    link(folder, files)?;
    match old {
        Some(old) => remove(&folder.join(old)),
        None => Ok(()),
    }
}

/// The API server checks paths as well, but a node writes as root and trusts no one with that.
fn check(path: &str) -> io::Result<()> {
    let is_below = |component: Component<'_>| matches!(component, Component::Normal(_) | Component::CurDir);
    let why = if path.starts_with('/') {
        "must be a relative path"
    } else if !Path::new(path).components().all(is_below) {
        "must not contain '..'"
    } else if path.starts_with("..") {
        "must not start with '..'"
    } else if first(path).is_none() {
        "must name a file"
    } else {
        return Ok(());
    };
    Err(io::Error::new(io::ErrorKind::InvalidInput, format!("invalid path \"{path}\": {why}")))
}

fn named(path: &str, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("cannot write \"{path}\": {error}"))
}

/// Opens a path of a version. The kernel resolves it, and leaves the version neither by `..` nor by a link.
fn open(root: &OwnedFd, path: &Path, flags: OFlags, mode: Mode) -> io::Result<OwnedFd> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    Ok(openat2(root, path, flags | OFlags::CLOEXEC, mode, resolve)?)
}

fn write_one(root: &OwnedFd, file: &Projected) -> io::Result<()> {
    let path = Path::new(&file.path);
    let mut parent = PathBuf::from(".");
    for name in path.parent().into_iter().flat_map(Path::components) {
        let Component::Normal(name) = name else { continue };
        let above = open(root, &parent, OFlags::PATH | OFlags::DIRECTORY, Mode::empty())?;
        match mkdirat(&above, name, Mode::from_raw_mode(0o755)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        parent.push(name);
        // The mask of the process took some of the mode.
        let made = open(root, &parent, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty())?;
        fchmod(made, Mode::from_raw_mode(0o755))?;
    }
    // No one else may read it before it has its mode.
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY;
    let mut made = File::from(open(root, path, flags, Mode::from_raw_mode(0o600))?);
    made.write_all(&file.bytes)?;
    made.set_permissions(Permissions::from_mode(file.mode))
}

/// A file for one user alone, whatever the group of the volume.
fn own(root: &OwnedFd, file: &Projected) -> io::Result<()> {
    let Some(user) = file.user else { return Ok(()) };
    let made = File::from(open(root, Path::new(&file.path), OFlags::RDONLY, Mode::empty())?);
    std::os::unix::fs::fchown(&made, Some(user), None)?;
    made.set_permissions(Permissions::from_mode(file.mode))
}

/// The names that are seen in the folder, each a link into the version that counts.
fn link(folder: &Path, files: &[Projected]) -> io::Result<()> {
    let wanted: BTreeSet<PathBuf> = files.iter().filter_map(|file| first(&file.path)).collect();
    for entry in std::fs::read_dir(folder)? {
        let name = PathBuf::from(entry?.file_name());
        if !name.to_string_lossy().starts_with("..") && !wanted.contains(&name) {
            remove(&folder.join(name))?;
        }
    }
    for name in wanted {
        let (link, target) = (folder.join(&name), Path::new(CURRENT).join(&name));
        if std::fs::read_link(&link).ok().as_deref() != Some(&target) {
            remove(&link)?;
            symlink(target, link)?;
        }
    }
    Ok(())
}

fn first(path: &str) -> Option<PathBuf> {
    let component = Path::new(path).components().find(|component| matches!(component, Component::Normal(_)))?;
    Some(PathBuf::from(component.as_os_str()))
}

fn remove(path: &Path) -> io::Result<()> {
    let Ok(metadata) = std::fs::symlink_metadata(path) else { return Ok(()) };
    if metadata.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) }
}

/// A name for the content: equal files have an equal name.
fn version(files: &[Projected], owner: &Ownership) -> String {
    let mut digest = Sha256::new();
    digest.update(format!("{owner:?}"));
    for file in files {
        digest.update(format!("\0{}\0{:o}\0{:?}\0{}\0", file.path, file.mode, file.user, file.bytes.len()));
        digest.update(&file.bytes);
    }
    let digest = digest.finalize();
    digest.iter().take(8).fold("..".to_owned(), |name, byte| format!("{name}{byte:02x}"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    fn file(path: &str, text: &str) -> Projected {
        Projected { path: path.to_owned(), bytes: text.as_bytes().to_vec(), mode: 0o640, user: None }
    }

    fn write(folder: &Path, files: &[Projected]) {
        write_all(folder, files, &Ownership::default()).unwrap();
    }

    #[test]
    fn all_files_change_at_once_and_only_the_version_that_counts_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).ok();
        write(folder.path(), &[file("a", "1"), file("deep/b", "2")]);
        assert_eq!((read("a").as_deref(), read("deep/b").as_deref()), (Some("1"), Some("2")));
        assert_eq!(std::fs::metadata(folder.path().join("a")).unwrap().mode() & 0o777, 0o640);
        let before = std::fs::read_link(folder.path().join(CURRENT)).unwrap();
        write(folder.path(), &[file("a", "1"), file("deep/b", "2")]);
        assert_eq!(std::fs::read_link(folder.path().join(CURRENT)).unwrap(), before);
        write(folder.path(), &[file("a", "3"), file("c", "4")]);
        assert_eq!((read("a").as_deref(), read("deep/b"), read("c").as_deref()), (Some("3"), None, Some("4")));
        let versions =
            std::fs::read_dir(folder.path()).unwrap().filter(|entry| entry.as_ref().unwrap().path().is_dir());
        // The folder of the version, and the link to it.
        assert_eq!(versions.count(), 2);
    }

    #[test]
    fn a_file_never_leaves_its_volume_whatever_its_path_says() {
        let machine = tempfile::tempdir().unwrap();
        let (volume, outside) = (machine.path().join("volume"), machine.path().join("outside"));
        let outside_path = outside.display().to_string();
        for path in [&*outside_path, "../../outside", "a/../../../outside", "..", "..data", ".", "", "a/.."] {
            let refused = write_all(&volume, &[file("good", "1"), file(path, "2")], &Ownership::default());
            assert!(refused.unwrap_err().to_string().starts_with(&format!("invalid path {path:?}: ")), "{path:?}");
            assert!(!outside.exists() && !volume.exists(), "{path:?}");
        }
    }

    #[test]
    fn a_link_that_is_in_the_way_is_not_followed() {
        let machine = tempfile::tempdir().unwrap();
        let (version, outside) = (machine.path().join("version"), machine.path().join("outside"));
        std::fs::create_dir(&version).unwrap();
        std::fs::create_dir(&outside).unwrap();
        symlink(&outside, version.join("link")).unwrap();
        symlink(outside.join("file"), version.join("dangling")).unwrap();
        let root = openat(CWD, &version, OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).unwrap();
        for path in ["link/file", "dangling"] {
            assert!(write_one(&root, &file(path, "x")).is_err(), "{path}");
        }
        assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 0);
    }

    #[test]
    fn a_write_that_was_cut_short_is_done_again() {
        let folder = tempfile::tempdir().unwrap();
        let files = [file("a", "1")];
        std::fs::create_dir(folder.path().join(version(&files, &Ownership::default()))).unwrap();
        symlink("..nowhere", folder.path().join(NEXT)).unwrap();
        write(folder.path(), &files);
        assert_eq!(std::fs::read_to_string(folder.path().join("a")).unwrap(), "1");
    }
}
