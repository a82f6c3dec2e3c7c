//! What readers, watches and the writer share: the current state and the feed of changes that led to it.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, RwLock};

use crate::Compacted;
use crate::batch::Batch;
use crate::feed::Feed;
use crate::snapshot::State;

#[derive(Debug)]
pub(crate) struct Shared {
    /// Held only to copy or swap, never while anything is computed.
    state: RwLock<State>,
    /// Taken before `state` where both are needed, so that under it the two agree.
    feed: Mutex<Feed>,
    /// Why nothing can be written, while nothing can.
    failure: Mutex<Option<Arc<io::Error>>>,
}

const UNPOISONED: &str = "nothing that runs under this lock panics";

impl Shared {
    pub fn new(state: State, feed: Feed) -> Self {
        Self { state: RwLock::new(state), feed: Mutex::new(feed), failure: Mutex::default() }
    }

    pub fn state(&self) -> State {
        self.state.read().expect(UNPOISONED).clone()
    }

    pub fn feed(&self) -> MutexGuard<'_, Feed> {
        self.feed.lock().expect(UNPOISONED)
    }

    /// Makes a batch visible: first to readers, so that who hears of a change can read it, then to watches.
    pub fn publish(&self, batch: Batch) {
        if batch.changes.is_empty() {
            return;
        }
        let mut feed = self.feed();
        let replaced = std::mem::replace(&mut *self.state.write().expect(UNPOISONED), batch.state);
        for change in batch.changes {
            feed.push(change);
        }
        drop(feed);
        // Frees the nodes that no snapshot holds: not under a lock.
        drop(replaced);
    }

    /// The state as it was at `revision` where keys begin with `prefix`: today's, with the changes since taken back.
    pub fn state_at(&self, prefix: &str, revision: u64) -> Result<State, Compacted> {
        let feed = self.feed();
        let mut state = self.state();
        if revision > state.revision {
            return Err(feed.compacted());
        }
        let changes = feed.since(prefix, revision)?;
        drop(feed);
        for change in changes {
            state.replace(change.key(), change.before.clone());
        }
        state.revision = revision;
        Ok(state)
    }

    /// The same state and history, for readers and watches of its own.
    pub fn copy(&self) -> Self {
        let feed = self.feed();
        Self::new(self.state(), feed.copy())
    }

    pub fn failure(&self) -> Option<Arc<io::Error>> {
        self.failure.lock().expect(UNPOISONED).clone()
    }

    pub fn set_failure(&self, failure: Option<Arc<io::Error>>) {
        *self.failure.lock().expect(UNPOISONED) = failure;
    }

    pub fn close(&self) {
        self.feed().close();
    }

    pub fn is_closed(&self) -> bool {
        self.feed().is_closed()
    }
}
