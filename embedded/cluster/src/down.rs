//! Ending a cluster from outside: the process that runs it is asked to, and whatever is left is removed.

use std::path::Path;
use std::time::{Duration, Instant};

use c5c3_cri::Programs;
use rustix::process::{Pid, Signal, kill_process, test_kill_process};

use crate::agents::kill_stray;
use crate::folder::{Folder, FolderError};
use crate::remains::{self, Left};

/// How long the process may take to end its cluster before it is killed.
const PATIENCE: Duration = Duration::from_mins(1);

/// Why a cluster cannot be ended.
#[derive(Debug, thiserror::Error)]
pub enum DownError {
    /// The data folder cannot be used.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The tools that would remove its links are not there.
    #[error(transparent)]
    Programs(#[from] c5c3_cri::Missing),
    /// Something could not be removed.
    #[error(transparent)]
    Left(#[from] Left),
    /// The data folder could not be removed.
    #[error("cannot remove {path}: {source}")]
    Wipe {
        /// The folder.
        path: String,
        /// What the system says.
        source: std::io::Error,
    },
    /// There is something else in the folder.
    #[error("{0} holds no cluster: nothing is removed")]
    Foreign(String),
}

/// Ends the cluster of a folder. With `wipe`, the folder goes too.
pub async fn down(folder: &Folder, wipe: bool, say: &(dyn Fn(&str) + Sync)) -> Result<(), DownError> {
    let Some(saved) = folder.load()? else {
        say("no cluster has been started there");
        return if wipe && !is_empty(folder.path()) {
            Err(DownError::Foreign(folder.path().display().to_string()))
        } else {
            Ok(())
        };
    };
    if let Some(pid) = folder.owner().and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?)) {
        say("asking the cluster to end");
        end(pid).await;
    }
    let _lock = folder.lock()?;
    let configs: Vec<_> = saved.nodes.iter().map(|node| folder.node(&node.name).join("agent.json")).collect();
    kill_stray(&configs);
    remains::remove(folder, &saved, &Programs::find()?, say).await?;
    if wipe {
        let failed = |source| DownError::Wipe { path: folder.path().display().to_string(), source };
        remove(folder.path()).map_err(failed)?;
        say(&format!("{} is removed", folder.path().display()));
    }
    Ok(())
}

/// Removes a data folder. Containers may have mounted shares in their volumes; those are unmounted, and their data stays.
fn remove(folder: &Path) -> std::io::Result<()> {
    c5c3_files::unmount_under(folder)?;
    c5c3_files::remove_tree(folder)
}

fn is_empty(path: &Path) -> bool {
    std::fs::read_dir(path).map_or(true, |mut entries| entries.next().is_none())
}

async fn end(pid: Pid) {
    let _ = kill_process(pid, Signal::TERM);
    let begun = Instant::now();
    while test_kill_process(pid).is_ok() {
        if begun.elapsed() > PATIENCE {
            let _ = kill_process(pid, Signal::KILL);
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_container_has_mounted_in_a_volume_outlives_the_cluster() {
        let home = tempfile::tempdir().unwrap();
        let (folder, share) = (home.path().join("data"), home.path().join("share"));
        let point = folder.join("volumes/pvc-1/mnt");
        std::fs::create_dir_all(&point).unwrap();
        std::fs::create_dir(&share).unwrap();
        std::fs::write(share.join("precious"), "data").unwrap();
        let bound = std::process::Command::new("mount").arg("--bind").arg(&share).arg(&point).status().unwrap();
        assert!(bound.success(), "mounting takes root");
        remove(&folder).unwrap();
        assert!(!folder.exists() && share.join("precious").exists());
    }
}
