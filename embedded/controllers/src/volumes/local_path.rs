//! The volumes that are made here: folders of this machine, below the one that the controllers are told.
//!
//! A volume is on the node that its pod was scheduled to, and can be had there only; one that many may write to at a time
//! can be had from every node, since all of them see the folders of this one machine. There are no quotas: how large a
//! volume is, is what was asked for.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::{
    HostPathVolumeSource, Node, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, PersistentVolume,
    PersistentVolumeClaim, PersistentVolumeSpec, VolumeNodeAffinity,
};
use k8s_openapi::api::storage::v1::StorageClass;
use kube::ResourceExt;
use kube::core::ObjectMeta;

use super::protection::VOLUME;
use super::read::{self, asked};

/// Who we are.
pub(super) const PROVISIONER: &str = "c5c3.io/local-path";
/// The classes of our volumes. The second is the one that production ControlPlanes name: on one machine its volumes are
/// folders too.
pub(super) const CLASSES: [&str; 2] = ["c5c3-local", "ceph-rbd"];

const HOSTNAME: &str = "kubernetes.io/hostname";
/// The longest name that a folder can have.
const LONGEST: usize = 255;

/// Why no volume can be made for a claim as it is.
pub(super) fn refusal(claim: &PersistentVolumeClaim) -> Option<&'static str> {
    let spec = claim.spec.as_ref()?;
    if spec.selector.is_some() {
        return Some("claim.Spec.Selector is not supported");
    }
    if spec.volume_mode.as_deref() == Some("Block") {
        return Some("block volumes are not supported");
    }
    (spec.data_source.is_some() || spec.data_source_ref.is_some()).then_some("data sources are not supported")
}

/// The volume for a claim, on a node.
pub(super) fn volume(
    folder: &Path,
    claim: &PersistentVolumeClaim,
    class: &StorageClass,
    node: &Node,
) -> PersistentVolume {
    let name = format!("pvc-{}", claim.uid().unwrap_or_default());
    let spec = claim.spec.clone().unwrap_or_default();
    let shared = read::claim_modes(claim).iter().any(|mode| matches!(*mode, "ReadWriteMany" | "ReadOnlyMany"));
    let path = folder.join(folder_name(&name, claim));
    PersistentVolume {
        metadata: ObjectMeta {
            name: Some(name),
            annotations: Some([(read::PROVISIONED_BY.to_owned(), PROVISIONER.to_owned())].into()),
            finalizers: Some(vec![VOLUME.into()]),
            ..ObjectMeta::default()
        },
        spec: Some(PersistentVolumeSpec {
            access_modes: spec.access_modes,
            capacity: asked(claim).map(|amount| [("storage".to_owned(), amount)].into()),
            claim_ref: Some(read::reference(claim)),
            host_path: Some(HostPathVolumeSource {
                path: path.to_string_lossy().into_owned(),
                type_: Some("Directory".into()),
            }),
            mount_options: class.mount_options.clone(),
            node_affinity: (!shared).then(|| only_on(node)),
            persistent_volume_reclaim_policy: class.reclaim_policy.clone().or(Some("Delete".into())),
            storage_class_name: class.metadata.name.clone(),
            volume_mode: spec.volume_mode,
            ..PersistentVolumeSpec::default()
        }),
        status: None,
    }
}

fn folder_name(volume: &str, claim: &PersistentVolumeClaim) -> String {
    let mut name = format!("{volume}_{}_{}", claim.namespace().unwrap_or_default(), claim.name_any());
    name.truncate(LONGEST);
    name
}

fn only_on(node: &Node) -> VolumeNodeAffinity {
    let host = node.labels().get(HOSTNAME).cloned().unwrap_or_else(|| node.name_any());
    let here = NodeSelectorRequirement { key: HOSTNAME.into(), operator: "In".into(), values: Some(vec![host]) };
    let term = NodeSelectorTerm { match_expressions: Some(vec![here]), match_fields: None };
    VolumeNodeAffinity { required: Some(NodeSelector { node_selector_terms: vec![term] }) }
}

/// The folder of a volume, if it is one that we have made: others are not ours to delete, whatever a volume says.
pub(super) fn folder_of(folder: &Path, volume: &PersistentVolume) -> Option<PathBuf> {
    let ours = volume.annotations().get(read::PROVISIONED_BY).is_some_and(|by| by == PROVISIONER);
    let path = PathBuf::from(&volume.spec.as_ref()?.host_path.as_ref()?.path);
    let named = path.file_name()?.to_str()?.starts_with(&format!("{}_", volume.name_any()));
    (ours && named && path.parent() == Some(folder)).then_some(path)
}

/// Makes the folder of a volume. Whoever a pod runs as may write to it.
pub(super) fn make(path: &Path) -> io::Result<()> {
    fs::create_dir_all(path)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o777))
}

/// Deletes the folder of a volume with all that it holds. What a container has mounted in it and left behind is unmounted,
/// never deleted.
pub(super) fn delete(path: &Path) -> io::Result<()> {
    // One that cannot be unmounted is named by the refusal that follows.
    c5c3_files::unmount_under(path)?;
    match c5c3_files::remove_tree(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn what_a_container_has_mounted_in_a_volume_outlives_it() {
        let home = tempfile::tempdir().unwrap();
        let (volume, share) = (home.path().join("pvc-1_default_images"), home.path().join("share"));
        let point = volume.join("mnt/nfs");
        fs::create_dir_all(&point).unwrap();
        fs::create_dir(&share).unwrap();
        fs::write(share.join("precious"), "data").unwrap();
        let bound = Command::new("mount").arg("--bind").arg(&share).arg(&point).status().unwrap();
        assert!(bound.success(), "mounting takes root");
        assert!(point.join("precious").exists());
        delete(&volume).unwrap();
        assert!(!volume.exists());
        assert_eq!(fs::read_to_string(share.join("precious")).unwrap(), "data");
        delete(&volume).unwrap();
    }
}
