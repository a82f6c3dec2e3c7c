//! Reading a backup.

use std::fs::{self, File};
use std::io::{BufReader, Read};
use std::path::Path;

use flate2::read::GzDecoder;
use tar::Archive;

use super::{ArchiveError, DESCRIPTION, Description, FORM, Progress, seal, size, stopped};
use crate::folder::{Folder, private};

/// Where a cluster is unpacked, in its data folder, before it takes its place.
pub(super) const NEW: &str = ".restoring";

/// Where the one that it replaces goes until then.
pub(super) const OLD: &str = ".replaced";

/// What a restore leaves where it is.
const STAYS: &[&str] = &["lock", "images", NEW, OLD];

/// What may be in a folder that holds no cluster.
const NO_CLUSTER: &[&str] = &["lock", "images", "c5c3.log", NEW];

/// Puts the cluster of a file into its data folder, which must be empty unless it is to be replaced. The file is checked
/// first, and nothing is changed unless all of it could be unpacked.
pub fn restore(folder: &Folder, file: &Path, replace: bool, say: &(dyn Fn(&str) + Sync)) -> Result<(), ArchiveError> {
    seal::check(file, say)?;
    let description = describe(file)?;
    if description.folder != folder.path() {
        return Err(ArchiveError::Elsewhere(description.folder));
    }
    private(folder.path())?;
    let _lock = folder.lock()?;
    stopped(folder)?;
    if !replace && holds_something(folder)? {
        return Err(ArchiveError::NotEmpty(folder.path().to_owned()));
    }
    let (new, old) = (folder.path().join(NEW), folder.path().join(OLD));
    for left in [&new, &old] {
        remove(left)?;
        private(left)?;
    }
    let unpacked = unpack(file, &new, Progress::new(say, "unpacking", description.bytes));
    if unpacked.is_err() {
        let _ = remove(&new);
        let _ = fs::remove_dir(&old);
    }
    unpacked?;
    // Containers may have mounted shares in volumes; those are unmounted, and their data stays.
    c5c3_files::unmount_under(folder.path()).map_err(ArchiveError::file(folder.path()))?;
    for name in names(folder.path())?.iter().filter(|name| !STAYS.contains(&name.as_str())) {
        rename(&folder.path().join(name), &old.join(name))?;
    }
    // A folder whose restoration was interrupted here holds no cluster, until it is restored again.
    let entries = names(&new)?;
    let (last, first): (Vec<_>, Vec<_>) = entries.iter().partition(|name| *name == "cluster.json");
    for name in first.iter().filter(|name| !STAYS.contains(&name.as_str())).chain(&last) {
        rename(&new.join(name), &folder.path().join(name))?;
    }
    remove(&new)?;
    remove(&old)?;
    for name in &description.left_out {
        say(&format!("not in it  {name}"));
    }
    let Description { version, made, bytes, .. } = &description;
    say(&format!("{} is as it was at {made}, by c5c3 {version}: {}", folder.path().display(), size(*bytes)));
    Ok(())
}

fn open(path: &Path) -> Result<Archive<GzDecoder<BufReader<File>>>, ArchiveError> {
    let file = File::open(path).map_err(ArchiveError::file(path))?;
    Ok(Archive::new(GzDecoder::new(BufReader::with_capacity(1 << 20, file))))
}

/// What a backup says of itself, which its first entry is.
fn describe(path: &Path) -> Result<Description, ArchiveError> {
    let damaged = |why: String| ArchiveError::Damaged { path: path.to_owned(), why };
    let no_backup = || damaged("it is no backup of a cluster".into());
    let mut archive = open(path)?;
    let mut entries = archive.entries().map_err(ArchiveError::file(path))?;
    let mut first = entries.next().and_then(Result::ok).ok_or_else(no_backup)?;
    if first.path().ok().as_deref() != Some(Path::new(DESCRIPTION)) {
        return Err(no_backup());
    }
    let mut text = String::new();
    first.read_to_string(&mut text).map_err(ArchiveError::file(path))?;
    let value: serde_json::Value = serde_json::from_str(&text).map_err(|error| damaged(error.to_string()))?;
    if value["form"].as_u64().is_none_or(|form| form > u64::from(FORM)) {
        let version = value["version"].as_str().unwrap_or("another version").to_owned();
        return Err(ArchiveError::Newer { path: path.to_owned(), version });
    }
    serde_json::from_value(value).map_err(|error| damaged(error.to_string()))
}

fn unpack(path: &Path, to: &Path, mut progress: Progress<'_>) -> Result<(), ArchiveError> {
    let failed = || ArchiveError::file(path);
    let mut archive = open(path)?;
    archive.set_preserve_permissions(true);
    archive.set_preserve_ownerships(true);
    archive.set_preserve_mtime(true);
    let mut written = 0;
    for entry in archive.entries().map_err(failed())? {
        let mut entry = entry.map_err(failed())?;
        let name = entry.path().map_err(failed())?.into_owned();
        if name == Path::new(DESCRIPTION) {
            continue;
        }
        // What is stored of a sparse file is what is on the disk.
        let stored = entry.header().entry_size().unwrap_or(0);
        if !entry.unpack_in(to).map_err(ArchiveError::file(&to.join(&name)))? {
            let why = format!("it has a file outside of the data folder, {}", name.display());
            return Err(ArchiveError::Damaged { path: path.to_owned(), why });
        }
        written += stored;
        progress.add(stored);
    }
    progress.add(progress.total.saturating_sub(written));
    rustix::fs::syncfs(File::open(to).map_err(ArchiveError::file(to))?)
        .map_err(|error| ArchiveError::file(to)(error.into()))
}

fn holds_something(folder: &Folder) -> Result<bool, ArchiveError> {
    let names = names(folder.path())?;
    let empty = |name: &str| fs::read_dir(folder.path().join(name)).is_ok_and(|mut entries| entries.next().is_none());
    Ok(names.iter().any(|name| !NO_CLUSTER.contains(&name.as_str()) && !empty(name)))
}

fn names(folder: &Path) -> Result<Vec<String>, ArchiveError> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(ArchiveError::file(folder))? {
        names.push(entry.map_err(ArchiveError::file(folder))?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}

fn rename(from: &Path, to: &Path) -> Result<(), ArchiveError> {
    fs::rename(from, to).map_err(ArchiveError::file(to))
}

fn remove(path: &Path) -> Result<(), ArchiveError> {
    match c5c3_files::remove_tree(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(ArchiveError::file(path)(error)),
        _ => Ok(()),
    }
}
