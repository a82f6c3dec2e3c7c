//! A path of the node: what is there has to be what the pod expects.

use std::fs::{File, FileType};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::HostPathVolumeSource;

use super::VolumeError;
use super::ownership::set_mode;
use crate::host_root::HostRoot;

/// Where the volume is on the machine, once what is there is what the pod expects.
pub(super) fn find(root: &HostRoot, source: &HostPathVolumeSource) -> Result<PathBuf, VolumeError> {
    let path = root.place(Path::new(&source.path)).map_err(VolumeError::at(Path::new(&source.path)))?;
    check(&path, source)?;
    Ok(path)
}

fn check(path: &Path, source: &HostPathVolumeSource) -> Result<(), VolumeError> {
    let there = std::fs::metadata(path).ok().map(|metadata| metadata.file_type());
    let expect = |is: fn(&FileType) -> bool, wanted| match &there {
        Some(kind) if is(kind) => Ok(()),
        _ => Err(VolumeError::HostPath { path: source.path.clone(), wanted }),
    };
    match source.type_.as_deref().unwrap_or_default() {
        "DirectoryOrCreate" if there.is_none() => make(path, true),
        "FileOrCreate" if there.is_none() => make(path, false),
        "Directory" | "DirectoryOrCreate" => expect(FileType::is_dir, "a directory"),
        "File" | "FileOrCreate" => expect(FileType::is_file, "a file"),
        "Socket" => expect(FileType::is_socket, "a socket file"),
        "CharDevice" => expect(FileType::is_char_device, "a character device"),
        "BlockDevice" => expect(FileType::is_block_device, "a block device"),
        _ => Ok(()),
    }
}

fn make(path: &Path, is_folder: bool) -> Result<(), VolumeError> {
    let made = if is_folder {
        std::fs::create_dir_all(path).and_then(|()| set_mode(path, 0o755))
    } else {
        File::options().create_new(true).write(true).open(path).and_then(|_| set_mode(path, 0o644))
    };
    made.map_err(VolumeError::at(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(path: &Path, kind: &str) -> Result<(), String> {
        let source = HostPathVolumeSource { path: path.display().to_string(), type_: Some(kind.to_owned()) };
        find(&HostRoot::machine(), &source).map(drop).map_err(|error| error.to_string())
    }

    #[test]
    fn what_is_there_is_checked_and_what_is_missing_may_be_made() {
        let folder = tempfile::tempdir().unwrap();
        let (inner, file) = (folder.path().join("a/b"), folder.path().join("file"));
        assert!(checked(&inner, "Directory").unwrap_err().ends_with("/a/b is not a directory"));
        assert_eq!(checked(&inner, "DirectoryOrCreate"), Ok(()));
        assert_eq!(checked(&inner, "Directory"), Ok(()));
        assert_eq!(checked(&file, "FileOrCreate"), Ok(()));
        assert_eq!(checked(&file, "File"), Ok(()));
        assert!(checked(&file, "Socket").unwrap_err().ends_with("is not a socket file"));
        assert!(checked(&file, "DirectoryOrCreate").is_err());
        assert_eq!(checked(Path::new("/dev/null"), "CharDevice"), Ok(()));
        assert!(checked(Path::new("/dev/null"), "BlockDevice").is_err());
        assert_eq!(checked(&folder.path().join("none"), ""), Ok(()));
    }
}
