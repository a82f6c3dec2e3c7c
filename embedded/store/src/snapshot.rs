//! The data at one revision: the immutable map, and the part of it that a list returns.

use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use rpds::RedBlackTreeMapSync;

/// What a key holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The key.
    pub key: Arc<str>,
    /// The value.
    pub value: Bytes,
    /// The revision of the last change.
    pub revision: u64,
    /// The revision at which the key came to be.
    pub created: u64,
}

impl Entry {
    pub(crate) fn size(&self) -> usize {
        self.key.len() + self.value.len()
    }
}

/// Copies share all nodes but those on the path to a change, so a clone is a snapshot and a batch is a transaction.
pub(crate) type Map = RedBlackTreeMapSync<Arc<str>, Arc<Entry>>;

/// Everything there is, at one revision.
#[derive(Debug, Clone, Default)]
pub(crate) struct State {
    pub map: Map,
    pub revision: u64,
    /// Bytes of all keys and values, to judge when the log is long for what it holds.
    pub bytes: u64,
}

impl State {
    /// Makes `key` hold `entry` and returns what it held. The revision is the caller's to set.
    pub fn replace(&mut self, key: &str, entry: Option<Arc<Entry>>) -> Option<Arc<Entry>> {
        let before = self.map.get(key).cloned();
        self.bytes -= before.as_ref().map_or(0, |before| before.size() as u64);
        match entry {
            Some(entry) => {
                self.bytes += entry.size() as u64;
                self.map.insert_mut(Arc::clone(&entry.key), entry);
            }
            None => {
                self.map.remove_mut(key);
            }
        }
        before
    }
}

/// One change: what a key held before and holds after. At least one of them is there.
#[derive(Debug)]
pub(crate) struct Change {
    pub revision: u64,
    pub before: Option<Arc<Entry>>,
    pub after: Option<Arc<Entry>>,
}

impl Change {
    pub fn key(&self) -> &Arc<str> {
        let entry = self.after.as_ref().or(self.before.as_ref());
        &entry.expect("a change has something before or after it").key
    }

    pub fn size(&self) -> usize {
        [&self.before, &self.after].into_iter().flatten().map(|entry| entry.size()).sum()
    }
}

/// The entries under a prefix at one revision. Holding it costs nothing but the memory of what has changed since.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// The revision that the entries are as of.
    pub revision: u64,
    prefix: Box<str>,
    map: Map,
}

impl Snapshot {
    pub(crate) fn new(state: &State, prefix: &str) -> Self {
        Self { revision: state.revision, prefix: prefix.into(), map: state.map.clone() }
    }

    /// The entries in the order of their keys.
    pub fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.from(Bound::Included(&self.prefix))
    }

    /// The entries whose key is greater than `key`, which need not exist: the next page of a list.
    pub fn starting_after<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a Entry> {
        let start = if key < &*self.prefix { Bound::Included(&*self.prefix) } else { Bound::Excluded(key) };
        self.from(start)
    }

    /// How many entries there are. Counts them, except for the empty prefix.
    pub fn len(&self) -> usize {
        if self.prefix.is_empty() { self.map.size() } else { self.iter().count() }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }

    fn from<'a>(&'a self, start: Bound<&'a str>) -> impl Iterator<Item = &'a Entry> {
        self.map
            .range::<str, _>((start, Bound::Unbounded))
            .map(|(_, entry)| &**entry)
            .take_while(|entry| entry.key.starts_with(&*self.prefix))
    }
}
