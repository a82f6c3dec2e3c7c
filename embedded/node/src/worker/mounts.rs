//! What a container sees of the node: its volumes, `/etc/hosts`, the file for its last words.

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use c5c3_cri::v1;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, VolumeMount};

use super::{Worker, lock};
use crate::cri_config::container::{propagation, termination_path};
use crate::cri_config::hosts;
use crate::environment::expand;
use crate::memory::PodHold;
use crate::pod::Pod;
use crate::volumes::{Mounted, VolumeError, ownership, sub_path};

/// The longest that a volume which cannot be mounted is left alone.
const LONGEST_HOLD: Duration = Duration::from_secs(122);
const FIRST_HOLD: Duration = Duration::from_millis(500);

/// Why a container cannot be given what it should see.
#[derive(Debug, thiserror::Error)]
pub(super) enum MountError {
    #[error("mount \"{0}\" has no volume")]
    NoVolume(String),
    #[error(transparent)]
    Volume(#[from] VolumeError),
}

impl Worker {
    /// Mounts the volumes or brings them up to date; a failure is told and holds the pod. Whether it succeeded.
    pub(super) async fn mount_volumes(&self, pod: &Pod) -> bool {
        let ips = self.pod_ips(pod);
        match self.volumes_of(pod, &ips).mount().await {
            Ok(mounted) => {
                *lock(&self.volumes) = Some(mounted);
                let mut memory = lock(&self.memory);
                memory.pod_hold = memory.pod_hold.take().filter(|hold| !hold.ends_with_change);
                true
            }
            Err((name, error)) => {
                let message = format!("MountVolume.SetUp failed for volume \"{name}\" : {error}");
                self.node.voice.warning(pod, None, "FailedMount", message);
                self.hold_pod(FIRST_HOLD, LONGEST_HOLD, true);
                false
            }
        }
    }

    /// Leaves a pod alone for a while that doubles with each failure.
    pub(super) fn hold_pod(&self, first: Duration, longest: Duration, ends_with_change: bool) {
        let mut memory = lock(&self.memory);
        let failures = memory.pod_hold.as_ref().map_or(0, |hold| hold.failures);
        let delay = (first * 2_u32.saturating_pow(failures.min(16))).min(longest);
        let until = Timestamp::now().checked_add(delay).unwrap_or(Timestamp::MAX);
        memory.pod_hold = Some(PodHold { until, failures: failures + 1, ends_with_change });
    }

    /// The mounts of a container.
    pub(super) fn container_mounts(
        &self,
        pod: &Pod,
        container: &Container,
        attempt: u32,
        environment: &[(String, String)],
    ) -> Result<Vec<v1::Mount>, MountError> {
        let volumes = lock(&self.volumes).clone().unwrap_or_default();
        let mut mounts = Vec::new();
        for (index, mount) in container.volume_mounts.iter().flatten().enumerate() {
            let volume = volumes.get(&mount.name).ok_or_else(|| MountError::NoVolume(mount.name.clone()))?;
            mounts.push(self.volume_mount(pod, container, (index, mount), volume, environment)?);
        }
        let own = mounts.iter().map(|mount| mount.container_path.clone()).collect::<Vec<_>>();
        if !own.iter().any(|path| path == "/etc/hosts") {
            mounts.push(self.hosts_file(pod)?);
        }
        mounts.push(self.last_words_file(pod, container, attempt)?);
        Ok(mounts)
    }

    fn volume_mount(
        &self,
        pod: &Pod,
        container: &Container,
        (index, mount): (usize, &VolumeMount),
        volume: &Mounted,
        environment: &[(String, String)],
    ) -> Result<v1::Mount, MountError> {
        let known: HashMap<String, String> = environment.iter().cloned().collect();
        let expression = mount.sub_path_expr.as_deref().filter(|path| !path.is_empty());
        let inner = expression.map(|path| expand(path, &known)).or(mount.sub_path.clone());
        let host_path = match inner.filter(|inner| !inner.is_empty()) {
            None => volume.path.clone(),
            Some(inner) => {
                let target = self.node.folders.sub_path(pod.uid(), &container.name, index);
                sub_path::bind(&volume.path, &inner, &target)?;
                target
            }
        };
        // A path without a slash in front is one from the container's root.
        let inside = if mount.mount_path.starts_with('/') { "" } else { "/" };
        Ok(v1::Mount {
            container_path: format!("{inside}{}", mount.mount_path),
            host_path: host_path.display().to_string(),
            readonly: mount.read_only == Some(true) || volume.is_read_only,
            propagation: propagation(mount),
            ..v1::Mount::default()
        })
    }

    fn hosts_file(&self, pod: &Pod) -> Result<v1::Mount, VolumeError> {
        let path = self.node.folders.etc_hosts(pod.uid());
        let of_node = std::fs::read_to_string("/etc/hosts").unwrap_or_default();
        let text = hosts::file(pod, &self.pod_ips(pod), &self.node.config.cluster_domain, &of_node);
        write(&path, &text, 0o644)?;
        Ok(bind(&path, "/etc/hosts"))
    }

    fn last_words_file(&self, pod: &Pod, container: &Container, attempt: u32) -> Result<v1::Mount, VolumeError> {
        let path = self.node.folders.last_words(pod.uid(), &container.name, attempt);
        // Whoever the container runs as may write.
        write(&path, "", 0o666)?;
        Ok(bind(&path, termination_path(container)))
    }
}

/// Files about the pod itself change with the pod, not with anything that is watched.
pub(super) fn has_downward_files(pod: &Pod) -> bool {
    pod.spec().volumes.iter().flatten().any(|volume| {
        let mut sources = volume.projected.iter().flat_map(|projected| projected.sources.iter().flatten());
        volume.downward_api.is_some() || sources.any(|source| source.downward_api.is_some())
    })
}

fn bind(path: &Path, inside: &str) -> v1::Mount {
    let (host_path, container_path) = (path.display().to_string(), inside.to_owned());
    v1::Mount { host_path, container_path, ..v1::Mount::default() }
}

/// Writes in place: the file may be mounted in containers already.
fn write(path: &Path, text: &str, mode: u32) -> Result<(), VolumeError> {
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent).map_err(VolumeError::at(parent))?;
    }
    if std::fs::read_to_string(path).ok().as_deref() != Some(text) {
        std::fs::write(path, text).map_err(VolumeError::at(path))?;
    }
    ownership::set_mode(path, mode).map_err(VolumeError::at(path))
}
