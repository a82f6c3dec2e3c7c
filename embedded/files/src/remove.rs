//! Removing a folder with all that is in it, on its own file system only.

use std::ffi::{CString, OsStr};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags, ResolveFlags, openat, openat2, unlinkat};
use rustix::io::Errno;

use crate::mounts::first_under;

/// Removes a file or a folder with all that is in it, like [`std::fs::remove_dir_all`], but for mounts: nothing is removed
/// while something is mounted at or below `path`, and what is mounted there in the meantime, a bind of the same file system
/// included, is not entered.
pub fn remove_tree(path: &Path) -> io::Result<()> {
    let name = path.file_name().ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // The table of mounts has no links in its paths.
    let parent = parent.canonicalize()?;
    if let Some(mount) = first_under(&parent.join(name))? {
        let why = format!("{} is mounted; unmount it, then this can be removed", mount.display());
        return Err(io::Error::new(io::ErrorKind::ResourceBusy, why));
    }
    remove_at(&parent, name)
}

fn remove_at(parent: &Path, name: &OsStr) -> io::Result<()> {
    let parent = openat(CWD, parent, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let name = CString::new(name.as_encoded_bytes())?;
    Ok(remove(parent.as_fd(), &name)?)
}

fn remove(parent: BorrowedFd<'_>, name: &CString) -> Result<(), Errno> {
    match unlinkat(parent, name, AtFlags::empty()) {
        // EPERM is what POSIX says of a folder, and what some file systems do.
        Err(Errno::ISDIR | Errno::PERM) => {}
        done => return done,
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    // The kernel resolves one name, and refuses to cross into another mount: EXDEV.
    let within = ResolveFlags::NO_XDEV | ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    let folder = openat2(parent, name, flags, Mode::empty(), within)?;
    let mut inside = Vec::new();
    for entry in Dir::read_from(&folder)? {
        let name = entry?.file_name().to_owned();
        if !matches!(name.to_bytes(), b"." | b"..") {
            inside.push(name);
        }
    }
    for name in &inside {
        match remove(folder.as_fd(), name) {
            // Another process was faster.
            Err(Errno::NOENT) => {}
            done => done?,
        }
    }
    drop(folder);
    unlinkat(parent, name, AtFlags::REMOVEDIR)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use rustix::mount::{MountFlags, UnmountFlags, mount, mount_bind, unmount};

    use super::*;

    #[test]
    fn a_folder_goes_with_all_that_is_in_it_and_what_it_links_to_stays() {
        let home = tempfile::tempdir().unwrap();
        let (tree, other) = (home.path().join("tree"), home.path().join("other"));
        fs::create_dir_all(tree.join("a/b/c")).unwrap();
        fs::create_dir(&other).unwrap();
        fs::write(other.join("kept"), "x").unwrap();
        fs::write(tree.join("a/file"), "x").unwrap();
        symlink(&other, tree.join("a/link")).unwrap();
        symlink("nowhere", tree.join("a/dangling")).unwrap();
        remove_tree(&tree).unwrap();
        assert!(!tree.exists() && other.join("kept").exists());
        assert_eq!(remove_tree(&tree).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    /// Something that is mounted at a path, until it is dropped.
    struct Mounted<'a>(&'a Path);

    impl Drop for Mounted<'_> {
        fn drop(&mut self) {
            let _ = unmount(self.0, UnmountFlags::DETACH);
        }
    }

    #[test]
    fn what_is_mounted_below_a_folder_is_neither_removed_nor_entered() {
        let home = tempfile::tempdir().unwrap();
        let share = home.path().join("share");
        fs::create_dir(&share).unwrap();
        for is_bind in [false, true] {
            let tree = home.path().join("tree");
            let point = tree.join("mnt/here");
            fs::create_dir_all(&point).unwrap();
            if is_bind {
                mount_bind(&share, &point).expect("mounting takes root");
            } else {
                mount("tmpfs", &point, "tmpfs", MountFlags::empty(), None).expect("mounting takes root");
            }
            let mounted = Mounted(&point);
            fs::write(point.join("precious"), "data").unwrap();

            let refused = remove_tree(&tree).unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::ResourceBusy);
            assert!(refused.to_string().starts_with(&point.display().to_string()), "{refused}");
            // One that was mounted after the look at the table of mounts.
            let crossed = remove_at(home.path(), OsStr::new("tree")).unwrap_err();
            assert_eq!(crossed.kind(), io::ErrorKind::CrossesDevices);
            let at_the_point = remove_at(&tree.join("mnt"), OsStr::new("here")).unwrap_err();
            assert_eq!(at_the_point.kind(), io::ErrorKind::CrossesDevices);
            assert_eq!(fs::read_to_string(point.join("precious")).unwrap(), "data");
            drop(mounted);
            remove_tree(&tree).unwrap();
        }
        assert!(share.join("precious").exists());
    }
}
