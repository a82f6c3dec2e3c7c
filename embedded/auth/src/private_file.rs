//! Files that only their owner may read, written whole or not at all.

use std::fs::{self, DirBuilder, File};
use std::io::{Result, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

/// Makes `path` and what is missing above it, each closed to others. What exists stays as it is.
pub(crate) fn create_directory(path: &Path) -> Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Replaces `path` by a file with mode 0600; a reader or a crash sees the old content or the new, never a part.
pub(crate) fn write(path: &Path, content: &[u8]) -> Result<()> {
    // A relative path without a folder has an empty parent, which is the current one.
    let directory = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    create_directory(directory)?;
    // Links are followed, or renaming would replace the link and leave the file that it names.
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let directory = target.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(directory);
    // Created with mode 0600 and a name that nobody can guess.
    let mut file = tempfile::NamedTempFile::new_in(directory)?;
    file.write_all(content)?;
    file.as_file().sync_all()?;
    file.persist(&target)?;
    // The rename itself is on disk only when the directory is.
    File::open(directory)?.sync_all()
}
