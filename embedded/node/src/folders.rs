//! Where on the disk a pod's things are.

use std::path::{Path, PathBuf};

use crate::pod::Pod;

/// The node's folder, and the places in it.
#[derive(Debug, Clone)]
pub(crate) struct Folders {
    root: PathBuf,
}

impl Folders {
    pub(crate) fn new(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    /// All pods' folders, by uid.
    pub(crate) fn pods(&self) -> PathBuf {
        self.root.join("pods")
    }

    /// Seccomp profiles that pods name as `Localhost`.
    pub(crate) fn seccomp(&self) -> PathBuf {
        self.root.join("seccomp")
    }

    /// All pods' logs.
    pub(crate) fn logs(&self) -> PathBuf {
        self.root.join("logs")
    }

    pub(crate) fn pod(&self, uid: &str) -> PathBuf {
        self.pods().join(uid)
    }

    pub(crate) fn etc_hosts(&self, uid: &str) -> PathBuf {
        self.pod(uid).join("etc-hosts")
    }

    pub(crate) fn volumes(&self, uid: &str) -> PathBuf {
        self.pod(uid).join("volumes")
    }

    pub(crate) fn volume(&self, uid: &str, name: &str) -> PathBuf {
        self.volumes(uid).join(name)
    }

    pub(crate) fn sub_paths(&self, uid: &str) -> PathBuf {
        self.pod(uid).join("volume-subpaths")
    }

    /// Where the `index`th mount of a container is bound to a path within a volume.
    pub(crate) fn sub_path(&self, uid: &str, container: &str, index: usize) -> PathBuf {
        self.sub_paths(uid).join(container).join(index.to_string())
    }

    /// The file that a container leaves its last words in.
    pub(crate) fn last_words(&self, uid: &str, container: &str, attempt: u32) -> PathBuf {
        self.pod(uid).join("containers").join(container).join(attempt.to_string())
    }

    pub(crate) fn pod_logs(&self, pod: &Pod) -> PathBuf {
        self.logs().join(format!("{}_{}_{}", pod.namespace(), pod.name(), pod.uid()))
    }

    /// The log file of a container, beneath the pod's folder of logs.
    pub(crate) fn log_file(container: &str, attempt: u32) -> String {
        format!("{container}/{attempt}.log")
    }
}
