//! The store's directory: the lock, the log, checkpoints, and how they become a map again.
//!
//! ```text
//! lock                             held while a process has the store
//! log-00000000000000000001         changes from revision 1 on
//! log-00000000000000004711         changes from revision 4711 on
//! checkpoint-00000000000000004710  everything as of revision 4710
//! *.tmp                            not finished when the process died: removed on open
//! ```
//!
//! Two generations are kept: the last checkpoint, the one before it (or none, if it is the first), and every log after
//! that. A last checkpoint that cannot be read is made up for by the one before it and the logs in between.
//!
//! The whole map is in memory, so all that a disk has to do is to take a batch in one sync and to give everything back on
//! open. A log does that as fast as fjall and more than twice as fast as redb (measured by `engines/`), in a few hundred
//! lines whose every torn and flipped byte can be tested.

mod checkpoint;
mod file;
mod frame;
mod recovery;
mod segment;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::feed::Feed;
use crate::snapshot::{Change, State};
use crate::{OpenError, Options};
use frame::{Kind, Record};
use segment::{AppendError, Segment};

/// How soon a log that has failed is tried again; each further time, twice as long passes.
const FIRST_REPAIR: Duration = Duration::from_millis(100);
/// The longest that passes between two attempts.
const SLOWEST_REPAIR: Duration = Duration::from_secs(15);

/// Why the last write failed, until one succeeds.
#[derive(Debug)]
struct Failure {
    error: Arc<io::Error>,
    /// Whether the disk's contents are unknown, so that nothing may be written before a repair.
    broken: bool,
    /// How much space is lacking.
    wanted: u64,
    attempts: u32,
    next: Instant,
}

/// The open directory, owned by the writer.
#[derive(Debug)]
pub(crate) struct Disk {
    dir: PathBuf,
    /// Held for its lock, which ends with it.
    _lock: File,
    segment: Segment,
    /// Bytes of log since the last checkpoint was begun.
    logged: u64,
    checkpoint_bytes: u64,
    checkpointing: Option<JoinHandle<()>>,
    stop: Arc<AtomicBool>,
    failure: Option<Failure>,
    buffer: Vec<u8>,
}

impl Disk {
    /// Opens `dir` and reads what is there.
    pub fn open(dir: &Path, options: &Options) -> Result<(Self, State, Feed), OpenError> {
        file::prepare_directory(dir).map_err(OpenError::io(dir))?;
        let lock = lock(dir)?;
        let files = Files::list(dir).map_err(OpenError::io(dir))?;
        let recovered = recovery::recover(dir, &files, options)?;
        if let Some(damaged) = recovered.damaged {
            let path = checkpoint::path(dir, damaged);
            tracing::error!(path = %path.display(), "the checkpoint is damaged; nothing is lost: the one before it and the log hold the same");
            fs::remove_file(&path).map_err(OpenError::io(&path))?;
        }
        files.remove_superfluous(dir, recovered.checkpoint).map_err(OpenError::io(dir))?;
        let disk = Self {
            dir: dir.to_path_buf(),
            _lock: lock,
            segment: recovered.segment,
            logged: recovered.logged,
            checkpoint_bytes: options.checkpoint_bytes,
            checkpointing: None,
            stop: Arc::default(),
            failure: None,
            buffer: Vec::new(),
        };
        Ok((disk, recovered.state, recovered.feed))
    }

    /// Writes the changes as one frame and returns when they are safe.
    pub fn append(&mut self, changes: &[Arc<Change>]) -> Result<(), Arc<io::Error>> {
        let Some(first) = changes.first() else { return Ok(()) };
        if let Some(Failure { error, broken: true, .. }) = &self.failure {
            return Err(Arc::clone(error));
        }
        frame::begin(&mut self.buffer);
        for change in changes {
            let deleted = Record { revision: change.revision, created: 0, key: change.key(), value: None };
            frame::put(&mut self.buffer, &change.after.as_deref().map_or(deleted, Record::from));
        }
        frame::seal(&mut self.buffer, Kind::Batch, first.revision);
        let length = self.buffer.len() as u64;
        match self.segment.append(&self.buffer) {
            Ok(()) => {
                self.logged += length;
                self.recovered();
                Ok(())
            }
            Err(AppendError::NoSpace(error)) => Err(self.fail(error, false, length)),
            Err(AppendError::Broken(error)) => Err(self.fail(error, true, length)),
        }
    }

    fn fail(&mut self, error: io::Error, broken: bool, wanted: u64) -> Arc<io::Error> {
        // A client that tries again and again does not put off the repair.
        let (attempts, next) = match &self.failure {
            Some(before) => (before.attempts, before.next),
            None => (0, Instant::now() + FIRST_REPAIR),
        };
        if self.failure.is_none() || broken {
            tracing::error!(dir = %self.dir.display(), %error, "the log cannot be written; it is tried again until it can");
        }
        let error = Arc::new(error);
        self.failure = Some(Failure { error: Arc::clone(&error), broken, wanted, attempts, next });
        error
    }

    fn recovered(&mut self) {
        if self.failure.take().is_some() {
            tracing::info!(dir = %self.dir.display(), "the log can be written again");
        }
    }

    /// Why nothing can be written, if the last write or repair has failed.
    pub fn failure(&self) -> Option<Arc<io::Error>> {
        self.failure.as_ref().map(|failure| Arc::clone(&failure.error))
    }

    /// When [`Disk::repair`] is due, if the log has failed.
    pub fn repair_due(&self) -> Option<Instant> {
        self.failure.as_ref().map(|failure| failure.next)
    }

    /// Tries whether the log can be written again.
    pub fn repair(&mut self) {
        let Some(Failure { broken, wanted, .. }) = self.failure else { return };
        let repaired = if broken { self.reopen() } else { Ok(()) };
        let outcome = repaired.and_then(|()| {
            if let Some(failure) = &mut self.failure {
                failure.broken = false;
            }
            self.segment.make_room(wanted)
        });
        match (outcome, &mut self.failure) {
            (Err(error), Some(failure)) => {
                failure.attempts += 1;
                let rest = FIRST_REPAIR.saturating_mul(1 << failure.attempts.min(16)).min(SLOWEST_REPAIR);
                (failure.error, failure.next) = (Arc::new(error), Instant::now() + rest);
            }
            _ => self.recovered(),
        }
    }

    /// Goes on with the log in place, from the last change that was acknowledged.
    fn reopen(&mut self) -> io::Result<()> {
        // A later log got its name without being safe; nothing was written to it, and it must not be read.
        let files = Files::list(&self.dir)?;
        for first in files.segments.iter().rev().take_while(|first| !self.segment.begins_at(&self.dir, **first)) {
            fs::remove_file(Segment::path(&self.dir, *first))?;
        }
        file::sync_directory(&self.dir)?;
        self.segment.repair()
    }

    /// Begins a checkpoint in the background if the log has grown long for the data it holds. `state` is what the log
    /// leads to.
    pub fn tidy(&mut self, state: &State) {
        let busy = self.checkpointing.as_ref().is_some_and(|thread| !thread.is_finished());
        if busy || self.failure.is_some() || self.logged < self.checkpoint_bytes.max(state.bytes) {
            return;
        }
        // Whatever becomes of it, the next attempt is when the log has grown by as much again. Nothing is lost meanwhile.
        self.logged = 0;
        let next = state.revision + 1;
        if self.segment.begins_at(&self.dir, next) {
            return;
        }
        match Segment::create(&self.dir, next) {
            Ok(segment) => {
                // The log that the checkpoint covers ends exactly where it is taken.
                self.segment = segment;
                self.checkpoint(state.clone());
            }
            // With its name it is where the next change will be looked for, but it is not safe to write there.
            Err(error) if Segment::path(&self.dir, next).exists() => drop(self.fail(error, true, 0)),
            Err(error) => put_off(&self.dir, &error),
        }
    }

    fn checkpoint(&mut self, state: State) {
        let (dir, stop) = (self.dir.clone(), Arc::clone(&self.stop));
        let work = move || write_checkpoint(&dir, &state, &stop).unwrap_or_else(|error| put_off(&dir, &error));
        match thread::Builder::new().name("store-checkpoint".to_owned()).spawn(work) {
            Ok(thread) => self.checkpointing = Some(thread),
            Err(error) => put_off(&self.dir, &error),
        }
    }
}

fn put_off(dir: &Path, error: &io::Error) {
    tracing::warn!(dir = %dir.display(), %error, "the log could not be compacted; it goes on growing until it can");
}

impl Drop for Disk {
    fn drop(&mut self) {
        // A checkpoint can be begun again, but not while someone else has the directory.
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.checkpointing.take() {
            let _ = thread.join();
        }
    }
}

fn write_checkpoint(dir: &Path, state: &State, stop: &AtomicBool) -> io::Result<()> {
    if checkpoint::write(dir, state, stop)? {
        Files::list(dir)?.remove_superfluous(dir, Some(state.revision))?;
    }
    Ok(())
}

/// The files of the store, by the revision in their names.
#[derive(Debug, Default)]
struct Files {
    checkpoints: BTreeSet<u64>,
    segments: BTreeSet<u64>,
    unfinished: Vec<PathBuf>,
}

impl Files {
    fn list(dir: &Path) -> io::Result<Self> {
        let mut files = Self::default();
        for entry in fs::read_dir(dir)? {
            let entry = entry?;
            let name = entry.file_name();
            let Some((kind, revision)) = name.to_str().and_then(|name| name.split_once('-')) else { continue };
            let unfinished = entry.path().extension().is_some_and(|extension| extension == file::UNFINISHED);
            match (kind, revision.parse()) {
                ("checkpoint", Ok(revision)) => drop(files.checkpoints.insert(revision)),
                ("log", Ok(revision)) => drop(files.segments.insert(revision)),
                ("checkpoint" | "log", Err(_)) if unfinished => files.unfinished.push(entry.path()),
                _ => {}
            }
        }
        Ok(files)
    }

    /// Removes what is older than the generation before the `last` checkpoint.
    fn remove_superfluous(&self, dir: &Path, last: Option<u64>) -> io::Result<()> {
        let before = self.checkpoints.range(..last.unwrap_or(0)).next_back().copied().unwrap_or(0);
        let checkpoints = self.checkpoints.range(..before).map(|revision| checkpoint::path(dir, *revision));
        let segments = self.segments.range(..=before).map(|first| Segment::path(dir, *first));
        for path in checkpoints.chain(segments).chain(self.unfinished.iter().cloned()) {
            fs::remove_file(path)?;
        }
        file::sync_directory(dir)
    }
}

fn lock(dir: &Path) -> Result<File, OpenError> {
    let path = dir.join("lock");
    let mut options = OpenOptions::new();
    let file =
        options.write(true).create(true).truncate(false).mode(0o600).open(&path).map_err(OpenError::io(&path))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(OpenError::Locked { path: dir.to_path_buf() }),
        Err(TryLockError::Error(source)) => Err(OpenError::Io { path, source }),
    }
}
