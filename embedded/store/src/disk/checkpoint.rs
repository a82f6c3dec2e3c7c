//! The whole map in one file, so that the log before it can go.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;

use super::file;
use super::frame::{self, Found, Kind, Record};
use crate::snapshot::State;
use crate::{Entry, OpenError};

/// How much is written between syncs: writers of the log wait for the same disk, so it gets small pieces.
const CHUNK: usize = 1 << 20;

pub(super) fn path(dir: &Path, revision: u64) -> PathBuf {
    dir.join(format!("checkpoint-{revision:020}"))
}

/// Writes a checkpoint of `state`, all or nothing. Returns whether it did, rather than being told to `stop`.
pub(super) fn write(dir: &Path, state: &State, stop: &AtomicBool) -> io::Result<bool> {
    let file = file::create(&path(dir, state.revision), |mut file| {
        file.write_all(&frame::preamble())?;
        let mut buffer = Vec::with_capacity(CHUNK + CHUNK / 4);
        let (mut count, mut first) = (0, 0);
        frame::begin(&mut buffer);
        for (_, entry) in &state.map {
            frame::put(&mut buffer, &Record::from(&**entry));
            count += 1;
            if buffer.len() >= CHUNK {
                finish(file, &mut buffer, Kind::Entries, first)?;
                first = count;
            }
            if stop.load(Ordering::Relaxed) {
                return Ok(false);
            }
        }
        finish(file, &mut buffer, Kind::Entries, first)?;
        finish(file, &mut buffer, Kind::End, state.revision)?;
        Ok(true)
    })?;
    Ok(file.is_some())
}

/// Writes the frame that is in `buffer` and begins the next one there.
fn finish(mut file: &File, buffer: &mut Vec<u8>, kind: Kind, number: u64) -> io::Result<()> {
    frame::seal(buffer, kind, number);
    file.write_all(buffer)?;
    frame::begin(buffer);
    file.sync_data()
}

/// Reads the checkpoint of `revision`.
pub(super) fn read(dir: &Path, revision: u64) -> Result<State, OpenError> {
    let path = path(dir, revision);
    let file = fs::read(&path).map_err(OpenError::io(&path))?;
    frame::check_preamble(&path, &file)?;
    let mut state = State { revision, ..State::default() };
    let mut at = frame::PREAMBLE;
    loop {
        let damaged = || OpenError::corrupt(&path, at, "the checkpoint cannot be read here");
        match frame::read(&file, at) {
            Found::Frame(frame) if frame.kind == Kind::Entries && frame.number == state.map.size() as u64 => {
                for record in frame::records(frame.records) {
                    let entry = record.as_ref().and_then(Record::to_entry).ok_or_else(damaged)?;
                    state.replace(&entry.key.clone(), Some(entry));
                }
                at = frame.end;
            }
            Found::Frame(frame) if frame.kind == Kind::End && frame.number == revision && frame.end == file.len() => {
                return Ok(state);
            }
            _ => return Err(damaged()),
        }
    }
}

impl<'a> From<&'a Entry> for Record<'a> {
    fn from(entry: &'a Entry) -> Self {
        Self { revision: entry.revision, created: entry.created, key: &entry.key, value: Some(&entry.value) }
    }
}

impl Record<'_> {
    /// The entry that the record makes; `None` if it deletes one.
    pub fn to_entry(&self) -> Option<Arc<Entry>> {
        let value = Bytes::copy_from_slice(self.value?);
        Some(Arc::new(Entry { key: self.key.into(), value, revision: self.revision, created: self.created }))
    }
}
