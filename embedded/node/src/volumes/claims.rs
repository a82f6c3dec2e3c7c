//! A claim's volume: a path of this node, by a PersistentVolume of kind `hostPath` or `local`.

use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, PersistentVolumeSpec};
use kube::Api;

use super::host_path;
use super::ownership::{Access, Ownership};
use super::{Mounted, VolumeError, Volumes};
use crate::host_root::HostRoot;

pub(super) async fn mount(volumes: &Volumes<'_>, name: &str, is_read_only: bool) -> Result<Mounted, VolumeError> {
    let namespace = volumes.pod.namespace();
    let claims = Api::<PersistentVolumeClaim>::namespaced(volumes.client.clone(), namespace);
    let claim = claims.get_opt(name).await.map_err(VolumeError::Api)?;
    let claim = claim.ok_or_else(|| VolumeError::NoClaim(name.to_owned()))?;
    let unbound = || VolumeError::Unbound(format!("{namespace}/{name}"));
    let phase = claim.status.as_ref().and_then(|status| status.phase.as_deref());
    let volume = claim.spec.as_ref().and_then(|spec| spec.volume_name.clone()).filter(|name| !name.is_empty());
    let volume = volume.filter(|_| phase == Some("Bound")).ok_or_else(unbound)?;
    let found = Api::<PersistentVolume>::all(volumes.client.clone()).get_opt(&volume).await;
    let spec = found.map_err(VolumeError::Api)?.and_then(|volume| volume.spec).ok_or_else(unbound)?;
    let is_ours = spec.claim_ref.as_ref().is_some_and(|claim_ref| claim_ref.uid == claim.metadata.uid);
    if !is_ours {
        return Err(unbound());
    }
    let path = place(&spec, volumes.host, &Ownership::of(volumes.pod)).await?;
    Ok(Mounted { path, is_read_only })
}

/// Where the volume is, with its group set if it is one that has such.
async fn place(spec: &PersistentVolumeSpec, root: &HostRoot, owner: &Ownership) -> Result<PathBuf, VolumeError> {
    if let Some(host) = &spec.host_path {
        return host_path::find(root, host);
    }
    let local = spec.local.as_ref().ok_or(VolumeError::Unsupported)?;
    let path = root.place(Path::new(&local.path)).map_err(VolumeError::at(Path::new(&local.path)))?;
    if !path.exists() {
        return Err(VolumeError::Io { what: path.display().to_string(), source: std::io::ErrorKind::NotFound.into() });
    }
    let (walked, owner) = (path.clone(), owner.clone());
    // A volume may hold many files.
    let done = tokio::task::spawn_blocking(move || owner.apply(&walked, Access::Write)).await;
    done.unwrap_or_else(|error| Err(std::io::Error::other(error))).map_err(VolumeError::at(&path))?;
    Ok(path)
}
