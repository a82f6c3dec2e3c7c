//! What happens to the map when writes are applied, before anybody sees it: expectations, revisions, values.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use bytes::Bytes;

use crate::snapshot::{Change, State};
use crate::{Entry, WriteError};

/// The most that a key and its value may take together. The API server's own limit is far below; this one keeps the
/// lengths in a frame, and the memory to read it back, within bounds.
pub(crate) const LARGEST_RECORD: usize = 64 << 20;

/// What a writer expects of the key; anything else is a [`WriteError::Conflict`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expect {
    /// It does not exist: create.
    Absent,
    /// It exists.
    Present,
    /// It exists and was last changed at this revision: update what was read.
    Revision(u64),
    /// Whatever it is.
    Any,
}

impl Expect {
    fn holds(self, current: Option<&Entry>) -> bool {
        match self {
            Self::Any => true,
            Self::Absent => current.is_none(),
            Self::Present => current.is_some(),
            Self::Revision(revision) => current.is_some_and(|entry| entry.revision == revision),
        }
    }
}

/// What an acknowledged write did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// The revision of the write; the current one if it deleted what was not there.
    pub revision: u64,
    /// What the key held before.
    pub previous: Option<Entry>,
    /// What it holds now.
    pub value: Option<Bytes>,
}

/// A write that waits for its turn.
pub(crate) struct Order {
    pub key: Arc<str>,
    pub expect: Expect,
    pub make: Box<dyn FnOnce(u64) -> Option<Bytes> + Send>,
}

/// What became of an order; the outer error is a panic of its `make`, to go on where the order came from.
pub(crate) type Outcome = std::thread::Result<Result<Written, WriteError>>;

/// Writes applied to a copy of the state, each seeing those before it. Dropped, it never happened.
pub(crate) struct Batch {
    pub state: State,
    pub changes: Vec<Arc<Change>>,
    /// Bytes that the changes bring.
    pub size: usize,
}

impl Batch {
    pub fn on(state: State) -> Self {
        Self { state, changes: Vec::new(), size: 0 }
    }

    pub fn apply(&mut self, order: Order) -> Outcome {
        let Order { key, expect, make } = order;
        let current = self.state.map.get(&*key).cloned();
        let previous = current.as_deref().cloned();
        if !expect.holds(current.as_deref()) {
            return Ok(Err(WriteError::Conflict { current: previous }));
        }
        let revision = self.state.revision + 1;
        // Nothing of ours is in `make`'s reach, so nothing can be left half done when it unwinds.
        let value = catch_unwind(AssertUnwindSafe(|| make(revision)))?;
        let size = key.len() + value.as_ref().map_or(0, Bytes::len);
        if size > LARGEST_RECORD {
            return Ok(Err(WriteError::TooLarge { size, limit: LARGEST_RECORD }));
        }
        if value.is_none() && current.is_none() {
            return Ok(Ok(Written { revision: self.state.revision, previous: None, value: None }));
        }
        let created = current.as_ref().map_or(revision, |entry| entry.created);
        let key = current.as_ref().map_or(key, |entry| Arc::clone(&entry.key));
        let after = value.clone().map(|value| Arc::new(Entry { key: Arc::clone(&key), value, revision, created }));
        self.state.replace(&key, after.clone());
        self.state.revision = revision;
        self.changes.push(Arc::new(Change { revision, before: current, after }));
        self.size += size;
        Ok(Ok(Written { revision, previous, value }))
    }
}
