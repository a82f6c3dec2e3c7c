//! Locally built images: archives in a folder, imported when they appear or change. What pods wait for comes first.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use tokio::sync::Notify;

use crate::node::Node;

/// An archive that was not written to for so long is whole.
const SETTLED: Duration = Duration::from_secs(2);

/// What a file looks like from outside.
type Look = (u64, SystemTime);

/// What has become of the archives in the folder.
#[derive(Default)]
pub(crate) struct Archives {
    state: Mutex<State>,
    imported: Notify,
}

#[derive(Default)]
struct State {
    /// Those that were tried, as they looked then.
    done: HashMap<PathBuf, Look>,
    /// Those that are being imported.
    busy: HashSet<PathBuf>,
    /// The images that pods wait for.
    wanted: HashSet<String>,
}

impl State {
    fn is_done(&self, path: &Path, look: Look) -> bool {
        self.done.get(path) == Some(&look)
    }

    /// The next one to import: one that is wanted, and of several the largest, because the others fit in around it.
    fn choose(&mut self, now: HashMap<PathBuf, Look>, names: impl Fn(&Path) -> Vec<String>) -> Option<(PathBuf, Look)> {
        let waiting = now.into_iter().filter(|(path, look)| !self.is_done(path, *look) && !self.busy.contains(path));
        let is_unwanted = |path: &Path| !names(path).iter().any(|name| self.wanted.contains(name));
        let chosen = waiting.min_by_key(|(path, (size, _))| (is_unwanted(path), Reverse(*size), path.clone()))?;
        self.busy.insert(chosen.0.clone());
        Some(chosen)
    }
}

impl Archives {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn done(&self, path: PathBuf, look: Look) {
        let mut state = self.state();
        state.busy.remove(&path);
        state.done.insert(path, look);
        drop(state);
        self.imported.notify_waiters();
    }
}

/// Waits for the next import, for a pod that needs this image; false if there is none to come.
pub(crate) async fn next(node: &Node, image: &str) -> bool {
    let Some((folder, _)) = &node.config.archives else { return false };
    let imported = node.archives.imported.notified();
    {
        let mut state = node.archives.state();
        if archives(folder).into_iter().all(|(path, look)| state.is_done(&path, look)) {
            return false;
        }
        state.wanted.insert(image.to_owned());
    }
    imported.await;
    true
}

/// Imports what is there and whole. One that cannot be is not tried again until it changes.
pub(super) async fn import(node: &Node) {
    let all = async || while import_one(node).await {};
    // One reads while the other unpacks.
    tokio::join!(all(), all());
}

/// Imports one; false if there is none.
async fn import_one(node: &Node) -> bool {
    let Some((folder, programs)) = &node.config.archives else { return false };
    let mut now = archives(folder);
    now.retain(|_, (_, modified)| is_settled(*modified, SystemTime::now()));
    let names = |path: &Path| c5c3_cri::images::names(path).unwrap_or_default();
    let Some((path, look)) = node.archives.state().choose(now, names) else { return false };
    match c5c3_cri::images::import(&node.config.site, programs, &node.runtime, &path).await {
        Ok(names) => tracing::info!(archive = %path.display(), ?names, "imported"),
        Err(error) => tracing::warn!(archive = %path.display(), %error, "cannot import an archive"),
    }
    node.archives.done(path, look);
    node.directory.announce_change();
    true
}

/// Whether a file is no longer written to. One from the future is not waited for.
fn is_settled(modified: SystemTime, now: SystemTime) -> bool {
    now.duration_since(modified).map_or(true, |age| age >= SETTLED)
}

fn archives(folder: &Path) -> HashMap<PathBuf, Look> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let archives = entries.filter(|entry| entry.path().extension().is_some_and(|extension| extension == "tar"));
    let look = |entry: std::fs::DirEntry| {
        let metadata = entry.metadata().ok().filter(std::fs::Metadata::is_file)?;
        Some((entry.path(), (metadata.len(), metadata.modified().ok()?)))
    };
    archives.filter_map(look).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    fn there(sizes: &[(&str, u64)]) -> HashMap<PathBuf, Look> {
        sizes.iter().map(|(name, size)| (PathBuf::from(name), (*size, at(0)))).collect()
    }

    fn chosen(archives: &Archives, sizes: &[(&str, u64)]) -> Option<String> {
        let names = |path: &Path| vec![path.with_extension("").display().to_string()];
        archives.state().choose(there(sizes), names).map(|(path, _)| path.display().to_string())
    }

    #[test]
    fn an_archive_is_imported_once_and_again_when_it_has_changed() {
        let archives = Archives::default();
        assert_eq!(chosen(&archives, &[("a.tar", 1)]).as_deref(), Some("a.tar"));
        assert_eq!(chosen(&archives, &[("a.tar", 1)]), None, "it is being imported");
        archives.done("a.tar".into(), (1, at(0)));
        assert_eq!(chosen(&archives, &[("a.tar", 1)]), None);
        assert_eq!(chosen(&archives, &[("a.tar", 2)]).as_deref(), Some("a.tar"));
    }

    #[test]
    fn what_a_pod_waits_for_is_imported_first_and_then_what_is_large() {
        let archives = Archives::default();
        let sizes = [("large.tar", 9), ("small.tar", 1), ("middle.tar", 5)];
        archives.state().wanted.insert("small".into());
        let order: Vec<_> = std::iter::from_fn(|| chosen(&archives, &sizes)).collect();
        assert_eq!(order, ["small.tar", "large.tar", "middle.tar"]);
    }

    #[test]
    fn an_archive_is_whole_when_it_was_not_written_to_for_a_while() {
        assert!(!is_settled(at(100), at(101)));
        assert!(is_settled(at(100), at(102)));
        assert!(is_settled(at(100), at(50)), "the clock was set back");
    }
}
