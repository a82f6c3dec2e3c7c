//! What is on the machine and belongs to no pod: left by pods that were deleted while no one looked.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use c5c3_cri::CallError;

use crate::cgroups;
use crate::folders::Folders;
use crate::labels;
use crate::node::Node;
use crate::volumes;

/// The uids of the node's pods. Those that come while a sweep is under way are added before anything is made for them.
#[derive(Debug, Default)]
pub(crate) struct Known(Mutex<BTreeSet<String>>);

impl Known {
    pub(crate) fn new(uids: BTreeSet<String>) -> Self {
        Self(Mutex::new(uids))
    }

    pub(crate) fn add(&self, uid: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(uid.to_owned());
    }

    fn contains(&self, uid: &str) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(uid)
    }

    fn has_pod_of(&self, labels: &BTreeMap<String, String>) -> bool {
        labels.get(labels::POD_UID).is_some_and(|uid| self.contains(uid))
    }
}

/// Removes the sandboxes, containers, folders, logs and cgroups of pods that are not among the known. Whatever is found is
/// looked up after it was found: what belongs to a pod that came in the meantime stays.
pub(crate) async fn sweep(node: Arc<Node>, known: Arc<Known>) {
    if let Err(error) = sandboxes(&node, &known).await {
        tracing::warn!(%error, "cannot remove what belongs to no pod");
    }
    let done = tokio::task::spawn_blocking(move || files(&node, &known)).await;
    if let Err(error) = done {
        tracing::error!(%error, "cannot remove the files of no pod");
    }
}

async fn sandboxes(node: &Node, known: &Known) -> Result<(), CallError> {
    // Both before the first is stopped, which takes as long as its grace.
    let (containers, sandboxes) =
        (node.runtime.list_containers(None).await?, node.runtime.list_pod_sandbox(None).await?);
    for container in containers {
        if !known.has_pod_of(&container.labels) {
            let grace = container.annotations.get(labels::GRACE_PERIOD).and_then(|seconds| seconds.parse().ok());
            let grace = Duration::from_secs(grace.unwrap_or(30));
            tracing::info!(container = container.id, "belongs to no pod, is removed");
            node.runtime.stop_container(&container.id, grace).await?;
            node.runtime.remove_container(&container.id).await?;
        }
    }
    for sandbox in sandboxes {
        if !known.has_pod_of(&sandbox.labels) {
            node.runtime.stop_pod_sandbox(&sandbox.id).await?;
            node.runtime.remove_pod_sandbox(&sandbox.id).await?;
        }
    }
    Ok(())
}

fn files(node: &Node, known: &Known) {
    folders(&node.folders, known);
    for (uid, cgroup) in cgroups::pods(&node.config.site.cgroup_parent()) {
        if !known.contains(&uid) {
            cgroups::remove(&cgroup);
        }
    }
}

fn folders(folders: &Folders, known: &Known) {
    for uid in names(&folders.pods()) {
        if !known.contains(&uid)
            && let Err(error) = volumes::remove(folders, &uid)
        {
            tracing::warn!(uid, %error, "cannot remove the folder of no pod");
        }
    }
    for name in names(&folders.logs()) {
        // `namespace_pod_uid`, of which no part has an underscore.
        if name.rsplit('_').next().is_some_and(|uid| !known.contains(uid)) {
            let _ = std::fs::remove_dir_all(folders.logs().join(name));
        }
    }
}

fn names(folder: &std::path::Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    #[test]
    fn a_pod_that_comes_while_orphans_are_removed_keeps_its_files_and_sandbox() {
        let home = tempfile::tempdir().unwrap();
        let places = Folders::new(home.path());
        for uid in ["known", "late", "gone"] {
            std::fs::create_dir_all(places.volumes(uid)).unwrap();
            std::fs::create_dir_all(places.logs().join(format!("default_web_{uid}"))).unwrap();
        }
        let known = Known::new(["known".to_owned()].into());
        known.add("late");
        folders(&places, &known);
        let left = |folder: PathBuf| BTreeSet::from_iter(names(&folder));
        assert_eq!(left(places.pods()), ["known", "late"].map(str::to_owned).into());
        assert_eq!(left(places.logs()), ["default_web_known", "default_web_late"].map(str::to_owned).into());
        let labels = |uid: &str| [(labels::POD_UID.to_owned(), uid.to_owned())].into();
        assert!(known.has_pod_of(&labels("late")) && !known.has_pod_of(&labels("gone")));
        assert!(!known.has_pod_of(&BTreeMap::new()), "a container without a pod is an orphan");
    }
}
