//! An empty folder for a pod, on disk, in memory or in huge pages.

use std::ffi::{CStr, CString};
use std::path::Path;

use k8s_openapi::api::core::v1::EmptyDirVolumeSource;
use rustix::mount::{MountFlags, mount as mount_at};

use super::VolumeError;
use super::ownership::{Access, Ownership, set_mode};
use crate::huge_pages;
use crate::pod::{Pod, units};

/// Everybody in the pod may write.
const MODE: u32 = 0o777;

pub(super) fn mount(path: &Path, source: &EmptyDirVolumeSource, pod: &Pod) -> Result<(), VolumeError> {
    let is_new = !path.exists();
    let medium = source.medium.as_deref().unwrap_or_default();
    if medium == "Memory" {
        memory(path, units(source.size_limit.as_ref()).filter(|bytes| *bytes > 0))?;
    } else if medium.starts_with("HugePages") {
        let size = huge_pages::page_size(medium, pod);
        let size = size.ok_or_else(|| VolumeError::NoHugePages { medium: medium.to_owned() })?;
        mount_once(path, "hugetlbfs", Some(&option(&format!("pagesize={size}"))))?;
    }
    if is_new || !medium.is_empty() {
        std::fs::create_dir_all(path).map_err(VolumeError::at(path))?;
        set_mode(path, MODE).map_err(VolumeError::at(path))?;
        Ownership::of(pod).apply(path, Access::Write).map_err(VolumeError::at(path))?;
    }
    Ok(())
}

/// A file system in memory, unless it is there already. Files in it never reach a disk.
pub(super) fn memory(path: &Path, size: Option<i64>) -> Result<(), VolumeError> {
    mount_once(path, "tmpfs", size.map(|bytes| option(&format!("size={bytes}"))).as_deref())
}

fn option(text: &str) -> CString {
    CString::new(text.replace('\0', "")).expect("it has no NUL")
}

/// Mounts a file system that needs no device, unless something is mounted there already.
fn mount_once(path: &Path, kind: &str, options: Option<&CStr>) -> Result<(), VolumeError> {
    std::fs::create_dir_all(path).map_err(VolumeError::at(path))?;
    if is_mount_point(path).map_err(VolumeError::at(path))? {
        return Ok(());
    }
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    mount_at(kind, path, kind, flags, options).map_err(|error| VolumeError::at(path)(error.into()))
}

/// Whether something is mounted right here: then it is on another device than its parent.
fn is_mount_point(path: &Path) -> std::io::Result<bool> {
    use std::os::unix::fs::MetadataExt;
    let parent = path.parent().unwrap_or(path);
    Ok(std::fs::metadata(path)?.dev() != std::fs::metadata(parent)?.dev())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::pod::testing::pod;

    #[test]
    fn huge_pages_are_a_file_system_of_their_own_for_a_pod_that_asks_for_them() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pages");
        let source = EmptyDirVolumeSource { medium: Some("HugePages".to_owned()), ..EmptyDirVolumeSource::default() };
        let with = |limits| pod(json!({"containers": [{"name": "c", "image": "a", "resources": {"limits": limits}}]}));

        let refused = mount(&path, &source, &with(json!({"memory": "1Gi"}))).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "medium HugePages: the pod has to ask for huge pages of one size; set resources.limits of a container"
        );
        assert!(!path.exists());
        let asks = with(json!({"hugepages-2Mi": "4Mi"}));
        for _ in 0..2 {
            mount(&path, &source, &asks).expect("mounting takes root");
        }
        assert_eq!(rustix::fs::statfs(&path).unwrap().f_bsize, 2 << 20);
        assert!(c5c3_files::unmount_under(&path).unwrap().is_empty());
        assert!(!is_mount_point(&path).unwrap(), "mounted once");
    }
}
