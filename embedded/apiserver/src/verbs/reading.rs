//! The entries of a snapshot one after the other, without a copy of all of them: a few are held at a time. Those that a
//! webhook converts are sent to it in requests whose answers are of a size that is accepted.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use c5c3_kinds::Resource;
use c5c3_store::{Entry, Snapshot};
use serde_json::Value;

use crate::conversion;
use crate::object::of_entry;
use crate::server::Server;
use crate::status::ApiError;

/// How many entries are taken at a time, and how many bytes they may have unless one alone has more. A converted object
/// may be larger than the stored one, and the largest answer that is taken of a webhook is 3 MiB.
const BATCH: (usize, usize) = (256, 1 << 20);

/// Where a reader of a snapshot is.
pub(super) struct Reading {
    snapshot: Snapshot,
    /// The key of the last entry that was taken out of the snapshot.
    after: Arc<str>,
    taken: VecDeque<Entry>,
    converted: HashMap<Arc<str>, Value>,
}

impl Reading {
    /// A reader of the entries whose keys are greater than `after`.
    pub(super) fn new(snapshot: Snapshot, after: &str) -> Self {
        Self { snapshot, after: after.into(), taken: VecDeque::new(), converted: HashMap::new() }
    }

    /// The revision that the entries are as of.
    pub(super) fn revision(&self) -> u64 {
        self.snapshot.revision
    }

    /// The key of the last entry, for a reader that has asked for as many as it wanted.
    pub(super) fn last(&self) -> &str {
        &self.after
    }

    /// How many entries there are still.
    pub(super) fn left(&self) -> u64 {
        (self.taken.len() + self.snapshot.starting_after(&self.after).count()) as u64
    }

    /// The next entry. `wanted` is how many the caller will ask for at most: no more than those are converted.
    pub(super) async fn next(
        &mut self,
        server: &Server,
        resource: &Resource,
        wanted: usize,
    ) -> Result<Option<Entry>, ApiError> {
        if self.taken.is_empty() {
            self.take(server, resource, wanted).await?;
        }
        Ok(self.taken.pop_front())
    }

    /// Takes the next entries out of the snapshot, and has those converted that are of another version.
    pub(super) async fn take(&mut self, server: &Server, resource: &Resource, wanted: usize) -> Result<(), ApiError> {
        let mut bytes = 0;
        let within = |entry: &&Entry| {
            let is_first = bytes == 0;
            bytes += entry.value.len();
            is_first || bytes <= BATCH.1
        };
        let entries = self.snapshot.starting_after(&self.after).take(wanted.min(BATCH.0));
        let taken: VecDeque<Entry> = entries.take_while(within).cloned().collect();
        self.converted = conversion::ahead(server, resource, taken.iter()).await?;
        if let Some(last) = taken.back() {
            self.after = last.key.clone();
        }
        self.taken = taken;
        Ok(())
    }

    /// The object of an entry, in the resource's version.
    pub(super) fn object(&mut self, resource: &Resource, entry: &Entry) -> Result<Value, ApiError> {
        self.converted.remove(&entry.key).map_or_else(|| of_entry(resource, entry), Ok)
    }
}
