//! Where the embedded API server keeps its objects, as etcd does for a real one.
//!
//! A [`Store`] maps keys such as `/apps/deployments/default/web` to opaque bytes. Each write that changes something gets
//! the next revision: one counter over all keys, dense, never reused.
//!
//! - **Reads** come from an immutable map in memory. A [`Snapshot`] is taken in constant time, is consistent at one
//!   revision and neither waits for writers nor holds them up.
//! - **Writes** are compare-and-swap ([`Expect`]). One thread takes all that wait, writes them to the log as one
//!   checksummed frame, syncs once, publishes and acknowledges: what is acknowledged survives a killed process and a
//!   power cut. Nothing is visible, to readers or to watches, before it is durable.
//! - **Watches** read a shared, bounded history, see each matching change exactly once and in order, and end with
//!   [`Lagged`] when the history has moved past them.
//! - **On disk** there is a log of segments and, now and then, a checkpoint of the whole map. The last two checkpoints are
//!   kept with the log since, and older files are removed: the directory stays within a small multiple of the data. The history of the log's tail is there again after a
//!   restart; a watch from further back is answered [`Compacted`].
//!
//! A torn last frame (the process or the machine died while it was written, so no one was told that it is there) is cut
//! off on open. A last checkpoint that is damaged is made up for by the one before it. Any other damage is refused as [`OpenError::Corrupt`], never repaired by guessing: a store that has lost
//! acknowledged writes must not look healthy.
//!
//! A write that fails because the disk is full or failing is answered [`WriteError::Io`]. The log is cut back to the last
//! acknowledged change, verified and tried again with back-off until it can be written; [`Store::failure`] says why it
//! cannot.
//!
//! Not here: what a value means, leases with a time to live, transactions over several keys, replication.

mod batch;
mod disk;
mod error;
mod feed;
mod shared;
mod snapshot;
mod watch;
mod writer;

use std::io;
use std::panic::resume_unwind;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

pub use batch::{Expect, Written};
pub use error::{Compacted, Lagged, OpenError, WriteError};
pub use snapshot::{Entry, Snapshot};
pub use watch::{Event, Watch};

use batch::{Batch, Order};
use shared::Shared;
use snapshot::State;
use writer::Writer;

/// How much a store remembers, and when it tidies its log.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// How many changes are kept for watches and for lists at older revisions.
    pub history: usize,
    /// How many bytes of keys and values those changes may hold. A value is counted where it comes and where it goes,
    /// so what is really held is about half of it.
    pub history_bytes: usize,
    /// How far the log may grow past the last checkpoint, or past the size of the data if that is larger, before the
    /// next checkpoint is written.
    pub checkpoint_bytes: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self { history: 100_000, history_bytes: 64 << 20, checkpoint_bytes: 16 << 20 }
    }
}

/// A map with revisions, history and, when opened on a directory, durability. Clones share it.
///
/// Prefer [`Store::close`] to dropping the last clone: the drop waits for the write under way and so blocks its thread.
#[derive(Debug, Clone)]
pub struct Store {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    shared: Arc<Shared>,
    commit: Commit,
}

/// Who commits a write: the writer's thread when there is a disk to wait for, otherwise the caller itself, in turn.
#[derive(Debug)]
enum Commit {
    Durable(Writer),
    InMemory(Mutex<()>),
}

impl Store {
    /// A store that lives and dies with the process: the same behaviour without a disk or a thread.
    pub fn in_memory(options: Options) -> Self {
        let shared = Arc::new(Shared::new(State::default(), feed::Feed::new(&options, 0)));
        Self { inner: Arc::new(Inner { shared, commit: Commit::InMemory(Mutex::new(())) }) }
    }

    /// A store in memory that begins with what this one holds, its history included: for a server that starts again in
    /// the same process.
    pub fn copy_in_memory(&self) -> Self {
        let shared = Arc::new(self.inner.shared.copy());
        Self { inner: Arc::new(Inner { shared, commit: Commit::InMemory(Mutex::new(())) }) }
    }

    /// Opens the store in `dir`, a directory of its own (made, with mode 0700, if it is not there), and takes its lock.
    pub fn open(dir: &Path, options: Options) -> Result<Self, OpenError> {
        let (disk, state, feed) = disk::Disk::open(dir, &options)?;
        let shared = Arc::new(Shared::new(state, feed));
        let writer = Writer::start(Arc::clone(&shared), disk).map_err(OpenError::io(dir))?;
        Ok(Self { inner: Arc::new(Inner { shared, commit: Commit::Durable(writer) }) })
    }

    /// The revision of the last acknowledged change; 0 when there was none.
    pub fn revision(&self) -> u64 {
        self.inner.shared.state().revision
    }

    /// Why the last write failed, until the log can be written again: a full or failing disk. Reads go on meanwhile, and
    /// the log is tried again by itself.
    pub fn failure(&self) -> Option<Arc<io::Error>> {
        self.inner.shared.failure()
    }

    /// What `key` holds.
    pub fn get(&self, key: &str) -> Option<Entry> {
        self.inner.shared.state().map.get(key).map(|entry| Entry::clone(entry))
    }

    /// All entries whose key begins with `prefix`, as they are now.
    pub fn list(&self, prefix: &str) -> Snapshot {
        Snapshot::new(&self.inner.shared.state(), prefix)
    }

    /// All entries whose key begins with `prefix`, as they were at `revision`: for the pages of a list after the first.
    ///
    /// A revision that has not happened yet cannot be served either; [`Compacted::current`] is then below it.
    pub fn list_at(&self, prefix: &str, revision: u64) -> Result<Snapshot, Compacted> {
        let state = self.inner.shared.state_at(prefix, revision)?;
        Ok(Snapshot::new(&state, prefix))
    }

    /// Writes `key` if it is as `expect` says: `make` is given the revision of the write, to put it into the value, and
    /// returns the new value, or `None` to delete. Returns when the write is durable and visible to every reader.
    ///
    /// `make` runs in the order of commits, one at a time: it should do no more than serialise. If it panics, the panic
    /// goes on in the caller and nothing is written. Deleting what is not there changes nothing and takes no revision.
    /// Once polled, a write may happen even if its future is dropped, as with any server that one stops listening to.
    pub async fn write(
        &self,
        key: &str,
        expect: Expect,
        make: impl FnOnce(u64) -> Option<Bytes> + Send + 'static,
    ) -> Result<Written, WriteError> {
        let order = Order { key: key.into(), expect, make: Box::new(make) };
        let outcome = match &self.inner.commit {
            Commit::InMemory(turn) => self.inner.commit_here(turn, order)?,
            Commit::Durable(writer) => writer.commit(order).await?,
        };
        outcome.unwrap_or_else(|panic| resume_unwind(panic))
    }

    /// Every change after revision `after` to a key that begins with `prefix`, from now on.
    pub fn watch(&self, prefix: &str, after: u64) -> Result<Watch, Compacted> {
        Watch::new(&self.inner.shared, prefix, after)
    }

    /// Finishes the writes under way, ends every watch and releases the directory. Other clones can read but not write.
    pub async fn close(self) {
        match &self.inner.commit {
            Commit::InMemory(_) => self.inner.shared.close(),
            Commit::Durable(writer) => writer.close().await,
        }
    }
}

impl Inner {
    fn commit_here(&self, turn: &Mutex<()>, order: Order) -> Result<batch::Outcome, WriteError> {
        // The turn guards no data, and a panic of `make` is caught before it could poison anything.
        let _turn = turn.lock().unwrap_or_else(PoisonError::into_inner);
        if self.shared.is_closed() {
            return Err(WriteError::Closed);
        }
        let mut batch = Batch::on(self.shared.state());
        let outcome = batch.apply(order);
        self.shared.publish(batch);
        Ok(outcome)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        match &self.commit {
            Commit::InMemory(_) => self.shared.close(),
            Commit::Durable(writer) => writer.stop(),
        }
    }
}
