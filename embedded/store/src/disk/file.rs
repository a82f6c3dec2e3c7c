//! New files and directories: private, and under their names only when they are complete and safe.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// What a file is called until it is complete. One that a crash left behind is removed when the store is opened.
pub(super) const UNFINISHED: &str = "tmp";

/// Makes a file that has its name only once `write` has written all of it, and is gone if `write` fails or gives up.
/// Returns it if it is there. When it has its name, the only thing left that can fail is the disk.
pub(super) fn create(path: &Path, write: impl FnOnce(&File) -> io::Result<bool>) -> io::Result<Option<File>> {
    let unfinished = path.with_extension(UNFINISHED);
    let made = make(&unfinished, path, write);
    if !matches!(made, Ok(Some(_))) {
        // It may hold the space that is lacking.
        let _ = fs::remove_file(&unfinished);
    }
    made
}

fn make(unfinished: &Path, path: &Path, write: impl FnOnce(&File) -> io::Result<bool>) -> io::Result<Option<File>> {
    let dir = File::open(above(path))?;
    let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(unfinished)?;
    if !write(&file)? {
        return Ok(None);
    }
    file.sync_all()?;
    fs::rename(unfinished, path)?;
    dir.sync_all()?;
    Ok(Some(file))
}

/// Makes the directory of the store if it is not there. One that is there and empty is made private; one that holds
/// anything is not touched, lest a mistyped path closes a directory that others use. The files are private anyway.
pub(super) fn prepare_directory(dir: &Path) -> io::Result<()> {
    if !dir.is_dir() {
        return create_directory(dir);
    }
    if fs::read_dir(dir)?.next().is_none() {
        fs::set_permissions(dir, Permissions::from_mode(0o700))?;
    }
    Ok(())
}

fn create_directory(dir: &Path) -> io::Result<()> {
    if !above(dir).is_dir() {
        create_directory(above(dir))?;
    }
    DirBuilder::new().mode(0o700).create(dir)?;
    sync_directory(above(dir))
}

/// Makes new, renamed and removed names in a directory safe.
pub(super) fn sync_directory(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

fn above(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
