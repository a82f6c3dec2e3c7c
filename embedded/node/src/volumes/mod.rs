//! The volumes of a pod: made before its containers, kept up to date while it runs, undone when it is over.

mod claims;
mod empty_dir;
mod host_path;
pub(crate) mod ownership;
mod projection;
pub(crate) mod sub_path;
mod swap;
mod tokens;

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::Volume;
use kube::Client;

use crate::environment::fields::{FieldError, NodeFacts};
use crate::folders::Folders;
use crate::host_root::HostRoot;
use crate::pod::Pod;
use crate::references::{Kind, PodReferences, ReferenceError};
use ownership::Ownership;
pub(crate) use tokens::Tokens;

/// Why a volume is not there.
#[derive(Debug, thiserror::Error)]
pub(crate) enum VolumeError {
    #[error(transparent)]
    Reference(#[from] ReferenceError),
    #[error("{} \"{name}\" not found", .kind.lower())]
    Missing { kind: Kind, name: String },
    #[error("{} references non-existent key: {key}", .kind.lower())]
    MissingKey { kind: Kind, key: String },
    #[error(transparent)]
    Field(#[from] FieldError),
    #[error("hostPath type check failed: {path} is not {wanted}")]
    HostPath { path: String, wanted: &'static str },
    #[error("persistentvolumeclaim \"{0}\" not found")]
    NoClaim(String),
    #[error("error processing PVC {0}: PVC is not bound")]
    Unbound(String),
    #[error(
        "medium {medium}: the pod has to ask for huge pages of {}; set resources.limits of a container",
        size_of(medium)
    )]
    NoHugePages { medium: String },
    #[error("no volume plugin matched")]
    Unsupported,
    #[error("failed to fetch token: {0}")]
    Token(#[source] kube::Error),
    #[error("{0}")]
    Api(#[source] kube::Error),
    #[error("{what}: {source}")]
    Io { what: String, source: std::io::Error },
}

/// The size that a medium names.
fn size_of(medium: &str) -> String {
    medium.strip_prefix("HugePages-").map_or_else(|| "one size".to_owned(), |size| format!("hugepages-{size}"))
}

impl VolumeError {
    /// Turns an error of the file system into one that says where.
    pub(crate) fn at(path: &Path) -> impl FnOnce(std::io::Error) -> Self + '_ {
        move |source| Self::Io { what: path.display().to_string(), source }
    }
}

/// A volume that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mounted {
    /// Where on the node.
    pub(crate) path: PathBuf,
    pub(crate) is_read_only: bool,
}

/// The volumes of a pod by name.
pub(crate) type MountedVolumes = HashMap<String, Mounted>;

/// What volumes are made from.
pub(crate) struct Volumes<'a> {
    pub(crate) pod: &'a Pod,
    pub(crate) folders: &'a Folders,
    pub(crate) references: &'a PodReferences,
    pub(crate) client: &'a Client,
    pub(crate) node: &'a NodeFacts,
    /// Empty until there is a sandbox.
    pub(crate) pod_ips: &'a [String],
    pub(crate) tokens: &'a Tokens,
    pub(crate) host: &'a HostRoot,
}

impl Volumes<'_> {
    /// Makes all volumes, or brings them up to date. The first that fails is named.
    pub(crate) async fn mount(&self) -> Result<MountedVolumes, (String, VolumeError)> {
        let mut mounted = HashMap::new();
        for volume in self.pod.spec().volumes.iter().flatten() {
            let one = self.mount_one(volume).await.map_err(|error| (volume.name.clone(), error))?;
            mounted.insert(volume.name.clone(), one);
        }
        Ok(mounted)
    }

    async fn mount_one(&self, volume: &Volume) -> Result<Mounted, VolumeError> {
        let path = self.folders.volume(self.pod.uid(), &volume.name);
        if let Some(host) = &volume.host_path {
            return Ok(Mounted { path: host_path::find(self.host, host)?, is_read_only: false });
        }
        if let Some(claim) = &volume.persistent_volume_claim {
            return claims::mount(self, &claim.claim_name, claim.read_only == Some(true)).await;
        }
        if volume.ephemeral.is_some() {
            return claims::mount(self, &format!("{}-{}", self.pod.name(), volume.name), false).await;
        }
        if let Some(empty) = &volume.empty_dir {
            empty_dir::mount(&path, empty, self.pod)?;
            return Ok(Mounted { path, is_read_only: false });
        }
        let Some(recipe) = projection::recipe(volume) else { return Err(VolumeError::Unsupported) };
        let files = projection::files(self, &volume.name, &recipe).await?;
        if recipe.is_private {
            empty_dir::memory(&path, None)?;
        }
        swap::write(&path, &files, &Ownership::of(self.pod))?;
        Ok(Mounted { path, is_read_only: true })
    }
}

/// Undoes all mounts of a pod and removes its volumes; what its containers said at their end stays.
pub(crate) fn unmount(folders: &Folders, uid: &str) -> Result<(), VolumeError> {
    let folder = folders.pod(uid);
    if !folder.exists() {
        return Ok(());
    }
    let failed = c5c3_files::unmount_under(&folder).map_err(VolumeError::at(&folder))?;
    // Nothing is removed while a mount is left: it may be someone's data.
    if let Some((path, source)) = failed.into_iter().next() {
        return Err(VolumeError::Io { what: path.display().to_string(), source });
    }
    remove_folder(&folders.sub_paths(uid))?;
    remove_folder(&folders.volumes(uid))
}

/// Removes a pod's folder, with all that is in it.
pub(crate) fn remove(folders: &Folders, uid: &str) -> Result<(), VolumeError> {
    unmount(folders, uid)?;
    remove_folder(&folders.pod(uid))
}

fn remove_folder(folder: &Path) -> Result<(), VolumeError> {
    // A bind of a claim's folder that was made since is not entered.
    match c5c3_files::remove_tree(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(VolumeError::at(folder)(error)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn what_was_mounted_in_a_pods_folder_since_it_was_unmounted_is_kept() {
        let home = tempfile::tempdir().unwrap();
        let (folder, claim) = (home.path().join("volumes"), home.path().join("claim"));
        let point = folder.join("claim");
        std::fs::create_dir_all(&point).unwrap();
        std::fs::create_dir(&claim).unwrap();
        std::fs::write(claim.join("precious"), "data").unwrap();
        let bound = Command::new("mount").arg("--bind").arg(&claim).arg(&point).status().unwrap();
        assert!(bound.success(), "mounting takes root");
        let removed = remove_folder(&folder);
        assert!(Command::new("umount").arg(&point).status().unwrap().success());
        removed.unwrap_err();
        assert!(claim.join("precious").exists());
    }
}
