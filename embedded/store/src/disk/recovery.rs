//! From files to a map: the last checkpoint, then the log after it, each change checked to follow the one before.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use super::frame::{self, Found, Frame, Kind, Record};
use super::segment::Segment;
use super::{Files, checkpoint};
use crate::feed::Feed;
use crate::snapshot::{Change, State};
use crate::{OpenError, Options};

pub(super) struct Recovered {
    pub state: State,
    /// With the changes of the log, so that watches from before the restart can go on.
    pub feed: Feed,
    /// The log to append to.
    pub segment: Segment,
    /// The checkpoint that was read.
    pub checkpoint: Option<u64>,
    /// A later checkpoint that could not be read.
    pub damaged: Option<u64>,
    /// Bytes of log since the checkpoint.
    pub logged: u64,
}

/// Reads the last checkpoint and the log after it. If that checkpoint is damaged, the generation before it is read, with
/// all that follows: if it is whole, nothing is lost, and if it is not, the damage to the last one is reported.
pub(super) fn recover(dir: &Path, files: &Files, options: &Options) -> Result<Recovered, OpenError> {
    let mut checkpoints = files.checkpoints.iter().rev().copied();
    let last = checkpoints.next();
    match recover_from(dir, files, options, last) {
        Err(damage @ (OpenError::Corrupt { .. } | OpenError::Io { .. })) if is_in_checkpoint(dir, last, &damage) => {
            let recovered = recover_from(dir, files, options, checkpoints.next()).map_err(|_| damage)?;
            Ok(Recovered { damaged: last, ..recovered })
        }
        other => other,
    }
}

fn is_in_checkpoint(dir: &Path, checkpoint: Option<u64>, damage: &OpenError) -> bool {
    let (OpenError::Corrupt { path, .. } | OpenError::Io { path, .. }) = damage else { return false };
    checkpoint.is_some_and(|revision| *path == checkpoint::path(dir, revision))
}

fn recover_from(dir: &Path, files: &Files, options: &Options, checkpoint: Option<u64>) -> Result<Recovered, OpenError> {
    let state = match checkpoint {
        Some(revision) => checkpoint::read(dir, revision)?,
        None => State::default(),
    };
    let mut replay = Replay { feed: Feed::new(options, state.revision), state };
    let segments: Vec<u64> = files.segments.range(replay.state.revision + 1..).copied().collect();
    let Some((last, earlier)) = segments.split_last() else {
        if checkpoint.is_some() {
            let path = Segment::path(dir, replay.state.revision + 1);
            return Err(OpenError::corrupt(&path, 0, "the log that goes on from the checkpoint is missing"));
        }
        let segment = Segment::create(dir, 1).map_err(OpenError::io(dir))?;
        return Ok(Recovered { state: replay.state, feed: replay.feed, segment, checkpoint, damaged: None, logged: 0 });
    };
    let mut logged = 0;
    for first in earlier {
        let path = Segment::path(dir, *first);
        let (end, torn) = replay.segment(&path, *first)?;
        if torn {
            return Err(OpenError::corrupt(&path, end, "the log ends here, but another follows it"));
        }
        logged += end as u64;
    }
    let path = Segment::path(dir, *last);
    let (end, torn) = replay.segment(&path, *last)?;
    let segment = Segment::resume(&path, end, torn).map_err(OpenError::io(&path))?;
    let logged = logged + end as u64;
    Ok(Recovered { state: replay.state, feed: replay.feed, segment, checkpoint, damaged: None, logged })
}

struct Replay {
    state: State,
    feed: Feed,
}

impl Replay {
    /// Applies the changes of one log. Returns where they end, and whether a torn frame follows.
    fn segment(&mut self, path: &Path, first: u64) -> Result<(usize, bool), OpenError> {
        let file = fs::read(path).map_err(OpenError::io(path))?;
        frame::check_preamble(path, &file)?;
        if first != self.state.revision + 1 {
            return Err(OpenError::corrupt(path, 0, "the log before it is missing"));
        }
        let mut at = frame::PREAMBLE;
        loop {
            match frame::read(&file, at) {
                Found::Frame(frame) => {
                    self.batch(&frame).ok_or_else(|| {
                        OpenError::corrupt(path, at, "a change does not follow from the one before it")
                    })?;
                    at = frame.end;
                }
                Found::Nothing => return Ok((at, false)),
                Found::Torn => return Ok((at, true)),
                Found::Damaged => return Err(OpenError::corrupt(path, at, "its contents have changed")),
            }
        }
    }

    fn batch(&mut self, frame: &Frame<'_>) -> Option<()> {
        if frame.kind != Kind::Batch || frame.number != self.state.revision + 1 {
            return None;
        }
        frame::records(frame.records).try_for_each(|record| self.change(&record?))
    }

    fn change(&mut self, record: &Record<'_>) -> Option<()> {
        let after = record.to_entry();
        let before = self.state.replace(record.key, after.clone());
        let created = before.as_ref().map_or(record.revision, |entry| entry.created);
        let follows = match &after {
            Some(entry) => entry.created == created,
            None => before.is_some(),
        };
        if record.revision != self.state.revision + 1 || !follows {
            return None;
        }
        self.state.revision = record.revision;
        self.feed.push(Arc::new(Change { revision: record.revision, before, after }));
        Some(())
    }
}
