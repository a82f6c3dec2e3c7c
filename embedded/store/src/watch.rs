//! A reader of changes: its place in a topic, and the events it returns.

use std::sync::Arc;

use bytes::Bytes;

use crate::feed::{Next, Topic};
use crate::shared::Shared;
use crate::snapshot::Change;
use crate::{Compacted, Lagged};

/// One change to one key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// The revision of the change.
    pub revision: u64,
    /// The key.
    pub key: Arc<str>,
    /// What it holds now; `None` if it was deleted.
    pub value: Option<Bytes>,
    /// What it held before; `None` if it did not exist.
    pub previous: Option<Bytes>,
    /// Whether the key came to be with this change.
    pub created: bool,
}

impl From<&Change> for Event {
    fn from(change: &Change) -> Self {
        Self {
            revision: change.revision,
            key: Arc::clone(change.key()),
            value: change.after.as_ref().map(|entry| entry.value.clone()),
            previous: change.before.as_ref().map(|entry| entry.value.clone()),
            created: change.before.is_none(),
        }
    }
}

/// The changes under a prefix, in order, without gap or repetition. It may outlive the [`crate::Store`].
#[derive(Debug)]
pub struct Watch {
    shared: Arc<Shared>,
    topic: Arc<Topic>,
    seen: u64,
    ended: bool,
}

impl Watch {
    pub(crate) fn new(shared: &Arc<Shared>, prefix: &str, after: u64) -> Result<Self, Compacted> {
        let topic = shared.feed().join(prefix, after)?;
        let watch = Self { shared: Arc::clone(shared), topic, seen: after, ended: false };
        while !shared.feed().reach_back(&watch.topic, after)? {
            std::thread::yield_now();
        }
        Ok(watch)
    }

    /// The next change: waits for it, and ends when the store is closed or after [`Lagged`]. Dropping the future loses
    /// nothing.
    pub async fn next(&mut self) -> Option<Result<Event, Lagged>> {
        while !self.ended {
            // Asked for before looking: a change in between must wake us.
            let news = self.topic.news();
            match self.topic.after(self.seen) {
                Next::Change(change) => {
                    self.seen = change.revision;
                    return Some(Ok(Event::from(&*change)));
                }
                Next::Nothing => news.await,
                Next::Closed => self.ended = true,
                Next::Lagged => {
                    self.ended = true;
                    return Some(Err(Lagged { seen: self.seen }));
                }
            }
        }
        None
    }

    /// The revision up to which [`Watch::next`] has returned everything that there was to return: for bookmarks.
    pub fn progress(&self) -> u64 {
        let feed = self.shared.feed();
        if self.topic.is_read_by(self.seen) { self.seen.max(feed.current()) } else { self.seen }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.shared.feed().leave(&self.topic);
    }
}
