//! A path within a volume, bound to a place of the container's own.
//!
//! A container can put links into its volume; the path is resolved by the kernel, which does not leave the volume, and
//! what it found is bound by its descriptor, so that nothing can change in between.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, fchmod, mkdirat, openat, openat2};
use rustix::io::Errno;

use super::VolumeError;

/// Binds `inner` of the volume at `root` to `target`; what is missing is made as a folder.
pub(crate) fn bind(root: &Path, inner: &str, target: &Path) -> Result<(), VolumeError> {
    let failed = |source: io::Error| VolumeError::Io {
        what: format!("failed to prepare subPath \"{inner}\" of {}", root.display()),
        source,
    };
    let found = resolve(root, inner).map_err(failed)?;
    let by_descriptor = PathBuf::from(format!("/proc/self/fd/{}", found.as_raw_fd()));
    let is_folder = std::fs::metadata(&by_descriptor).map_err(failed)?.is_dir();
    make_target(target, is_folder).map_err(failed)?;
    if is_bound(&by_descriptor, target).map_err(failed)? {
        return Ok(());
    }
    rustix::mount::mount_bind_recursive(&by_descriptor, target).map_err(|error| failed(error.into()))
}

fn is_bound(source: &Path, target: &Path) -> io::Result<bool> {
    let (source, target) = (std::fs::metadata(source)?, std::fs::metadata(target)?);
    Ok((source.dev(), source.ino()) == (target.dev(), target.ino()))
}

fn make_target(target: &Path, is_folder: bool) -> io::Result<()> {
    if is_folder {
        return std::fs::create_dir_all(target);
    }
    if let Some(parent) = target.parent() {
        std::fs::create_dir_all(parent)?;
    }
    File::options().create(true).append(true).open(target).map(drop)
}

/// What the path stands for, without leaving the volume.
fn resolve(root: &Path, inner: &str) -> io::Result<OwnedFd> {
    let volume = openat(CWD, root, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let open =
        |path: &Path| openat2(&volume, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), ResolveFlags::BENEATH);
    match open(Path::new(inner)) {
        Ok(found) => return Ok(found),
        Err(Errno::NOENT) => {}
        Err(error) => return Err(error.into()),
    }
    let mode = Mode::from_raw_mode(std::fs::metadata(root)?.mode() & 0o777);
    let mut made = PathBuf::from(".");
    for component in Path::new(inner).components() {
        let Component::Normal(name) = component else { continue };
        let parent = open(&made)?;
        match mkdirat(&parent, name, mode) {
            Ok(()) => {
                // The mask of the process took some of the mode.
                let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
                fchmod(openat2(&parent, name, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)?, mode)?;
            }
            Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        made.push(name);
    }
    Ok(open(&made)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(root: &Path, inner: &str) -> io::Result<PathBuf> {
        let found = resolve(root, inner)?;
        std::fs::read_link(format!("/proc/self/fd/{}", found.as_raw_fd()))
    }

    #[test]
    fn a_path_is_made_within_the_volume_and_never_leaves_it() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap().join("volume");
        std::fs::create_dir(&root).unwrap();
        assert_eq!(place(&root, "a/b").unwrap(), root.join("a/b"));
        std::fs::write(root.join("file"), "").unwrap();
        assert_eq!(place(&root, "file").unwrap(), root.join("file"));
        std::os::unix::fs::symlink("a/b", root.join("inside")).unwrap();
        assert_eq!(place(&root, "inside").unwrap(), root.join("a/b"));
        for (name, target) in [("up", ".."), ("etc", "/etc"), ("deep", "../../etc")] {
            std::os::unix::fs::symlink(target, root.join(name)).unwrap();
            assert!(place(&root, name).is_err(), "{name}");
            assert!(place(&root, &format!("{name}/x")).is_err(), "{name}/x");
        }
    }
}
