//! An empty folder for a pod, on disk or in memory.

use std::ffi::CString;
use std::path::Path;

use k8s_openapi::api::core::v1::EmptyDirVolumeSource;
use rustix::mount::{MountFlags, mount as mount_at};

use super::VolumeError;
use super::ownership::{Access, Ownership, set_mode};
use crate::pod::units;

/// Everybody in the pod may write.
const MODE: u32 = 0o777;

pub(super) fn mount(path: &Path, source: &EmptyDirVolumeSource, owner: &Ownership) -> Result<(), VolumeError> {
    let is_new = !path.exists();
    if source.medium.as_deref() == Some("Memory") {
        memory(path, units(source.size_limit.as_ref()).filter(|bytes| *bytes > 0))?;
    }
    if is_new || source.medium.as_deref() == Some("Memory") {
        std::fs::create_dir_all(path).map_err(VolumeError::at(path))?;
        set_mode(path, MODE).map_err(VolumeError::at(path))?;
        owner.apply(path, Access::Write).map_err(VolumeError::at(path))?;
    }
    Ok(())
}

/// A file system in memory, unless it is there already. Files in it never reach a disk.
pub(super) fn memory(path: &Path, size: Option<i64>) -> Result<(), VolumeError> {
    std::fs::create_dir_all(path).map_err(VolumeError::at(path))?;
    if is_mount_point(path).map_err(VolumeError::at(path))? {
        return Ok(());
    }
    let size = size.map(|bytes| CString::new(format!("size={bytes}")).expect("digits"));
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    mount_at("tmpfs", path, "tmpfs", flags, size.as_deref()).map_err(|error| VolumeError::at(path)(error.into()))
}

/// Whether something is mounted right here: then it is on another device than its parent.
fn is_mount_point(path: &Path) -> std::io::Result<bool> {
    use std::os::unix::fs::MetadataExt;
    let parent = path.parent().unwrap_or(path);
    Ok(std::fs::metadata(path)?.dev() != std::fs::metadata(parent)?.dev())
}
