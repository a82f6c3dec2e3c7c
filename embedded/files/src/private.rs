//! Files that only their owner may read, written whole or not at all.

use std::fs::{self, DirBuilder, File};
use std::io::{Result, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

/// Makes `path` and what is missing above it, each closed to others. What exists stays as it is.
pub fn create_private_folder(path: &Path) -> Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Replaces `path` by a file with mode 0600; a reader or a crash sees the old content or the new, never a part.
pub fn write_private(path: &Path, content: &[u8]) -> Result<()> {
    // A relative path without a folder has an empty parent, which is the current one.
    let directory = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    create_private_folder(directory)?;
    // Links are followed, or renaming would replace the link and leave the file that it names.
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let directory = target.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(directory);
    // Created with mode 0600 and a name that no one can guess.
    let mut file = tempfile::NamedTempFile::new_in(directory)?;
    file.write_all(content)?;
    file.as_file().sync_all()?;
    file.persist(&target)?;
    // The rename itself is on disk only when the directory is.
    File::open(directory)?.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn a_file_is_replaced_whole_for_its_owner_alone_and_links_are_followed() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("inner/secret");
        write_private(&path, b"long enough").unwrap();
        write_private(&path, b"short").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"short");
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));

        let link = home.path().join("link");
        symlink(&path, &link).unwrap();
        write_private(&link, b"through").unwrap();
        assert!(link.is_symlink());
        assert_eq!(fs::read(&path).unwrap(), b"through");
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "nothing is left beside it");
    }
}
