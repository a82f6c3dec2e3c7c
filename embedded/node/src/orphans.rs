//! What is on the machine and belongs to no pod: left by pods that were deleted while nobody looked.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use c5c3_cri::CallError;

use crate::cgroups;
use crate::labels;
use crate::node::Node;
use crate::volumes;

/// Removes the sandboxes, containers, folders, logs and cgroups of pods that are not among the known.
pub(crate) async fn sweep(node: Arc<Node>, known: BTreeSet<String>) {
    if let Err(error) = sandboxes(&node, &known).await {
        tracing::warn!(%error, "cannot remove what belongs to no pod");
    }
    let done = tokio::task::spawn_blocking(move || files(&node, &known)).await;
    if let Err(error) = done {
        tracing::error!(%error, "cannot remove the files of no pod");
    }
}

async fn sandboxes(node: &Node, known: &BTreeSet<String>) -> Result<(), CallError> {
    let is_orphan =
        |labels: &BTreeMap<String, String>| labels.get(labels::POD_UID).is_none_or(|uid| !known.contains(uid));
    for container in node.runtime.list_containers(None).await? {
        if is_orphan(&container.labels) {
            let grace = container.annotations.get(labels::GRACE_PERIOD).and_then(|seconds| seconds.parse().ok());
            let grace = Duration::from_secs(grace.unwrap_or(30));
            tracing::info!(container = container.id, "belongs to no pod, is removed");
            node.runtime.stop_container(&container.id, grace).await?;
            node.runtime.remove_container(&container.id).await?;
        }
    }
    for sandbox in node.runtime.list_pod_sandbox(None).await? {
        if is_orphan(&sandbox.labels) {
            node.runtime.stop_pod_sandbox(&sandbox.id).await?;
            node.runtime.remove_pod_sandbox(&sandbox.id).await?;
        }
    }
    Ok(())
}

fn files(node: &Node, known: &BTreeSet<String>) {
    for uid in names(&node.folders.pods()) {
        if !known.contains(&uid)
            && let Err(error) = volumes::remove(&node.folders, &uid)
        {
            tracing::warn!(uid, %error, "cannot remove the folder of no pod");
        }
    }
    for name in names(&node.folders.logs()) {
        // `namespace_pod_uid`, of which no part has an underscore.
        if name.rsplit('_').next().is_some_and(|uid| !known.contains(uid)) {
            let _ = std::fs::remove_dir_all(node.folders.logs().join(name));
        }
    }
    for (uid, cgroup) in cgroups::pods(&node.config.site.cgroup_parent()) {
        if !known.contains(&uid) {
            cgroups::remove(&cgroup);
        }
    }
}

fn names(folder: &std::path::Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}
