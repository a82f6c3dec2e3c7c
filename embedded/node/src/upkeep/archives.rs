//! Locally built images: archives in a folder, imported when they appear or change. What pods wait for comes first.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use c5c3_cri::Programs;
use c5c3_cri::images::Content;
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
    /// Those that are being imported, with the layers that they bring.
    busy: HashMap<PathBuf, Vec<String>>,
    /// The layers that were brought.
    layers: HashSet<String>,
    /// The images that pods wait for.
    wanted: HashSet<String>,
}

/// Those who import, each one archive at a time.
#[derive(Debug, Clone, Copy)]
enum Hand {
    /// Takes what pods wait for, of that the largest. Without any, the smallest: it soon leaves less to do for the other.
    Waited,
    /// Takes the largest of all, which takes longest and so must not be begun last.
    Largest,
}

/// What to do next.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    Import(PathBuf, Look),
    /// What is left shares layers with what is being imported, and costs less afterwards.
    Later,
    Nothing,
}

impl State {
    fn is_done(&self, path: &Path, look: Look) -> bool {
        self.done.get(path) == Some(&look)
    }

    /// Chooses what to import.
    fn choose(&mut self, hand: Hand, now: HashMap<PathBuf, Look>, read: impl Fn(&Path) -> Content) -> Next {
        let waiting =
            now.into_iter().filter(|(path, look)| !self.is_done(path, *look) && !self.busy.contains_key(path));
        let waiting = waiting.map(|(path, look)| {
            let content = read(&path);
            let is_wanted = content.names.iter().any(|name| self.wanted.contains(name));
            let rank = match hand {
                Hand::Waited if !is_wanted => (1, look.0),
                Hand::Waited | Hand::Largest => (0, u64::MAX - look.0),
            };
            ((rank, path), look, content.layers)
        });
        let Some(((_, path), look, mut layers)) = waiting.min_by(|(one, ..), (other, ..)| one.cmp(other)) else {
            return Next::Nothing;
        };
        layers.retain(|layer| !self.layers.contains(layer));
        if self.busy.values().flatten().any(|layer| layers.contains(layer)) {
            return Next::Later;
        }
        self.busy.insert(path.clone(), layers);
        Next::Import(path, look)
    }
}

impl Archives {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn done(&self, path: PathBuf, look: Look) {
        let mut state = self.state();
        let layers = state.busy.remove(&path).unwrap_or_default();
        state.layers.extend(layers);
        state.done.insert(path, look);
        drop(state);
        self.imported.notify_waiters();
    }
}

/// Says that a pod needs an image, before it can be started with it.
pub(crate) fn want(node: &Node, image: &str) {
    node.archives.state().wanted.insert(image.to_owned());
}

/// Waits for the next import, for a pod that needs this image; false if there is none to come.
pub(crate) async fn next(node: &Node, image: &str) -> bool {
    let Some((folder, _)) = &node.config.archives else { return false };
    let imported = node.archives.imported.notified();
    let state = || node.archives.state();
    if archives(folder).into_iter().all(|(path, look)| state().is_done(&path, look)) {
        return false;
    }
    want(node, image);
    imported.await;
    true
}

/// Imports what is there and whole. One that cannot be is not tried again until it changes.
pub(super) async fn import(node: &Node) {
    // One reads while the other unpacks.
    tokio::join!(import_all(node, Hand::Waited), import_all(node, Hand::Largest));
}

async fn import_all(node: &Node, hand: Hand) {
    let Some((folder, programs)) = &node.config.archives else { return };
    loop {
        let imported = node.archives.imported.notified();
        let mut now = archives(folder);
        now.retain(|_, (_, modified)| is_settled(*modified, SystemTime::now()));
        let read = |path: &Path| c5c3_cri::images::content(path).unwrap_or_default();
        let next = node.archives.state().choose(hand, now, read);
        match next {
            Next::Import(path, look) => import_one(node, programs, path, look).await,
            Next::Later => imported.await,
            Next::Nothing => return,
        }
    }
}

async fn import_one(node: &Node, programs: &Programs, path: PathBuf, look: Look) {
    match c5c3_cri::images::import(&node.config.site, programs, &node.runtime, &path).await {
        Ok(names) => tracing::info!(archive = %path.display(), ?names, "imported"),
        Err(error) => tracing::warn!(archive = %path.display(), %error, "cannot import an archive"),
    }
    node.archives.done(path, look);
    node.directory.announce_change();
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

    /// Chooses among archives that are named like their images, and share a layer if they share their first letter.
    fn choose_as(hand: Hand, archives: &Archives, sizes: &[(&str, u64)]) -> Next {
        let read = |path: &Path| {
            let name = path.with_extension("").display().to_string();
            Content { layers: vec![name[..1].to_owned(), name.clone()], names: vec![name] }
        };
        archives.state().choose(hand, there(sizes), read)
    }

    fn choose(archives: &Archives, sizes: &[(&str, u64)]) -> Next {
        choose_as(Hand::Waited, archives, sizes)
    }

    fn chosen(archives: &Archives, sizes: &[(&str, u64)]) -> Option<String> {
        match choose(archives, sizes) {
            Next::Import(path, _) => Some(path.display().to_string()),
            Next::Later | Next::Nothing => None,
        }
    }

    #[test]
    fn an_archive_is_imported_once_and_again_when_it_has_changed() {
        let archives = Archives::default();
        assert_eq!(chosen(&archives, &[("a.tar", 1)]).as_deref(), Some("a.tar"));
        assert_eq!(choose(&archives, &[("a.tar", 1)]), Next::Nothing, "it is being imported");
        archives.done("a.tar".into(), (1, at(0)));
        assert_eq!(choose(&archives, &[("a.tar", 1)]), Next::Nothing);
        assert_eq!(chosen(&archives, &[("a.tar", 2)]).as_deref(), Some("a.tar"));
    }

    #[test]
    fn what_pods_wait_for_is_imported_first_by_size_and_then_what_is_small() {
        let archives = Archives::default();
        let sizes = [("a.tar", 9), ("b.tar", 1), ("c.tar", 5), ("d.tar", 2)];
        archives.state().wanted.extend(["c".into(), "a".into()]);
        let order: Vec<_> = std::iter::from_fn(|| chosen(&archives, &sizes)).collect();
        assert_eq!(order, ["a.tar", "c.tar", "b.tar", "d.tar"]);
    }

    #[test]
    fn the_largest_is_not_begun_last() {
        let archives = Archives::default();
        let sizes = [("a.tar", 9), ("b.tar", 1), ("c.tar", 5), ("d.tar", 2)];
        archives.state().wanted.extend(["c".into(), "d".into()]);
        let first = choose_as(Hand::Largest, &archives, &sizes);
        assert_eq!(first, Next::Import("a.tar".into(), (9, at(0))));
        let order: Vec<_> = std::iter::from_fn(|| chosen(&archives, &sizes)).collect();
        assert_eq!(order, ["c.tar", "d.tar", "b.tar"]);
    }

    #[test]
    fn no_layer_is_imported_twice_at_once() {
        let archives = Archives::default();
        let sizes = [("one.tar", 1), ("other.tar", 2), ("oval.tar", 3)];
        assert_eq!(chosen(&archives, &sizes).as_deref(), Some("one.tar"));
        assert_eq!(choose(&archives, &sizes), Next::Later);
        archives.done("one.tar".into(), (1, at(0)));
        assert_eq!(chosen(&archives, &sizes).as_deref(), Some("other.tar"));
        assert_eq!(chosen(&archives, &sizes).as_deref(), Some("oval.tar"), "what they share is there");
    }

    #[test]
    fn an_archive_is_whole_when_it_was_not_written_to_for_a_while() {
        assert!(!is_settled(at(100), at(101)));
        assert!(is_settled(at(100), at(102)));
        assert!(is_settled(at(100), at(50)), "the clock was set back");
    }
}
