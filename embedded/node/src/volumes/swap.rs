//! Files that change all at once: each version is a folder of its own, and one link says which counts.
//!
//! `key` links to `..data/key`, `..data` to `..VERSION`. A container that follows `..data` once sees one version.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, symlink};
use std::path::{Component, Path, PathBuf};

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
    for file in files {
        write_one(&new, file)?;
    }
    owner.apply(folder, Access::Read)?;
    for file in files {
        own(&new.join(&file.path), file)?;
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

fn write_one(root: &Path, file: &Projected) -> io::Result<()> {
    let path = root.join(&file.path);
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent)?;
    }
    // Nobody else may read it before it has its mode.
    let mut open = File::options().create_new(true).write(true).mode(0o600).open(&path)?;
    open.write_all(&file.bytes)?;
    set_mode(&path, file.mode)
}

/// A file for one user alone, whatever the group of the volume.
fn own(path: &Path, file: &Projected) -> io::Result<()> {
    let Some(user) = file.user else { return Ok(()) };
    std::os::unix::fs::chown(path, Some(user), None)?;
    set_mode(path, file.mode)
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
    fn a_write_that_was_cut_short_is_done_again() {
        let folder = tempfile::tempdir().unwrap();
        let files = [file("a", "1")];
        std::fs::create_dir(folder.path().join(version(&files, &Ownership::default()))).unwrap();
        symlink("..nowhere", folder.path().join(NEXT)).unwrap();
        write(folder.path(), &files);
        assert_eq!(std::fs::read_to_string(folder.path().join("a")).unwrap(), "1");
    }
}
