//! Locally built images: archives in a folder, imported when they appear or change.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::node::Node;

/// What a file looks like from outside.
type Look = (u64, SystemTime);

/// What was seen of the folder.
#[derive(Default)]
pub(super) struct Seen {
    last: HashMap<PathBuf, Look>,
    done: HashMap<PathBuf, Look>,
}

impl Seen {
    /// The files that are new or changed, and are not being written to: they look as they did the last time.
    fn settled(&mut self, now: HashMap<PathBuf, Look>) -> HashSet<PathBuf> {
        let is_new = |(path, look): &(&PathBuf, &Look)| {
            self.last.get(*path) == Some(*look) && self.done.get(*path) != Some(*look)
        };
        let settled: Vec<_> = now.iter().filter(is_new).map(|(path, look)| (path.clone(), *look)).collect();
        self.done.extend(settled.iter().cloned());
        self.last = now;
        settled.into_iter().map(|(path, _)| path).collect()
    }
}

pub(super) async fn import(node: &Node, seen: &mut Seen) {
    let Some((folder, programs)) = &node.config.archives else { return };
    let settled = seen.settled(archives(folder));
    if settled.is_empty() {
        return;
    }
    for archive in &settled {
        let imported = c5c3_cri::images::import(&node.config.site, programs, &node.runtime, archive).await;
        match imported {
            Ok(names) => tracing::info!(archive = %archive.display(), ?names, "imported"),
            Err(error) => tracing::warn!(archive = %archive.display(), %error, "cannot import an archive"),
        }
    }
    node.directory.announce_change();
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

    #[test]
    fn an_archive_is_imported_when_it_has_stopped_changing() {
        let mut seen = Seen::default();
        let look = |size| HashMap::from([(PathBuf::from("a.tar"), (size, SystemTime::UNIX_EPOCH))]);
        let counts = [1, 2, 2, 2, 3, 3].map(|size| seen.settled(look(size)).len());
        assert_eq!(counts, [0, 0, 1, 0, 0, 1]);
    }
}
