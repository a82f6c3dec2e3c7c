//! Locally built images: archives in a folder, imported when they appear or change.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use futures::{StreamExt, stream};
use tokio::sync::Notify;

use crate::node::Node;

/// An archive that was not written to for so long is whole.
const SETTLED: Duration = Duration::from_secs(2);

/// How many are imported at once: one reads while the other unpacks.
const AT_ONCE: usize = 2;

/// What a file looks like from outside.
type Look = (u64, SystemTime);

/// What has become of the archives in the folder.
#[derive(Default)]
pub(crate) struct Archives {
    done: Mutex<HashMap<PathBuf, Look>>,
    imported: Notify,
}

impl Archives {
    /// Those that are not imported as they look now.
    fn waiting(&self, now: HashMap<PathBuf, Look>) -> Vec<(PathBuf, Look)> {
        let done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        let mut waiting: Vec<_> = now.into_iter().filter(|(path, look)| done.get(path) != Some(look)).collect();
        waiting.sort();
        waiting
    }

    fn done(&self, path: PathBuf, look: Look) {
        self.done.lock().unwrap_or_else(PoisonError::into_inner).insert(path, look);
        self.imported.notify_waiters();
    }
}

/// Waits for the next import; false if there is none to come.
pub(crate) async fn next(node: &Node) -> bool {
    let Some((folder, _)) = &node.config.archives else { return false };
    let imported = node.archives.imported.notified();
    if node.archives.waiting(archives(folder)).is_empty() {
        return false;
    }
    imported.await;
    true
}

/// Imports what is there and whole. One that cannot be is not tried again until it changes.
pub(super) async fn import(node: &Node) {
    let Some((folder, programs)) = &node.config.archives else { return };
    let waiting = node.archives.waiting(archives(folder));
    let whole = waiting.into_iter().filter(|(_, (_, modified))| is_settled(*modified, SystemTime::now()));
    let import = async |(path, look): (PathBuf, Look)| {
        match c5c3_cri::images::import(&node.config.site, programs, &node.runtime, &path).await {
            Ok(names) => tracing::info!(archive = %path.display(), ?names, "imported"),
            Err(error) => tracing::warn!(archive = %path.display(), %error, "cannot import an archive"),
        }
        node.archives.done(path, look);
        node.directory.announce_change();
    };
    stream::iter(whole).for_each_concurrent(AT_ONCE, import).await;
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

    #[test]
    fn an_archive_is_imported_once_and_again_when_it_has_changed() {
        let archives = Archives::default();
        let look = |size| HashMap::from([(PathBuf::from("a.tar"), (size, at(0)))]);
        let count = |size| archives.waiting(look(size)).len();
        assert_eq!([count(1), count(1)], [1, 1]);
        archives.done("a.tar".into(), (1, at(0)));
        assert_eq!([count(1), count(2)], [0, 1]);
    }

    #[test]
    fn an_archive_is_whole_when_it_was_not_written_to_for_a_while() {
        assert!(!is_settled(at(100), at(101)));
        assert!(is_settled(at(100), at(102)));
        assert!(is_settled(at(100), at(50)), "the clock was set back");
    }
}
