//! What can go wrong, in words for the person who reads the log of the API server.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::Entry;

/// Why a store could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The file was written by a later release.
    #[error(
        "{} has format version {found}, this program reads up to {supported}: run the release that wrote it",
        path.display()
    )]
    NewerVersion {
        /// The file.
        path: PathBuf,
        /// The version it has.
        found: u32,
        /// The highest version that this program reads.
        supported: u32,
    },
    /// Another process, or another store in this one, has the directory.
    #[error("{} is in use by another process", path.display())]
    Locked {
        /// The directory.
        path: PathBuf,
    },
    /// Acknowledged writes are unreadable or missing.
    #[error("{} is damaged at byte {offset}: {reason}; restore it from a backup", path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// Where in it.
        offset: u64,
        /// What is wrong there.
        reason: &'static str,
    },
    /// The file system refused.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// What it said.
        source: io::Error,
    },
}

impl OpenError {
    /// Names the path that an I/O error is about.
    pub(crate) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self + use<> {
        let path = path.to_path_buf();
        move |source| Self::Io { path, source }
    }

    pub(crate) fn corrupt(path: &Path, offset: usize, reason: &'static str) -> Self {
        Self::Corrupt { path: path.to_path_buf(), offset: offset as u64, reason }
    }
}

/// Why a write did not happen or, for [`WriteError::Io`] and [`WriteError::Closed`], may not have happened.
#[derive(Debug, Clone, thiserror::Error)]
pub enum WriteError {
    /// The key is not as the writer expected.
    #[error("the key is not as expected: {}", match current {
        Some(entry) => format!("it was last changed at revision {}", entry.revision),
        None => "it does not exist".to_owned(),
    })]
    Conflict {
        /// What it holds instead.
        current: Option<Entry>,
    },
    /// The key or the value is longer than a record can be.
    #[error("a record of {size} bytes is over the limit of {limit}")]
    TooLarge {
        /// Bytes of key and value.
        size: usize,
        /// The most there can be.
        limit: usize,
    },
    /// The store was closed.
    #[error("the store is closed")]
    Closed,
    /// The log could not be written. After a failed write or sync the store takes no more writes until the log has been
    /// read back and cut to the last acknowledged change, because what the disk holds is not known before.
    #[error("the log could not be written: {0}")]
    Io(#[source] Arc<io::Error>),
}

/// The history does not reach back to the revision that was asked for (or, if that is above `current`, not yet so far).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the history covers revisions {oldest} to {current} only")]
pub struct Compacted {
    /// The oldest revision that a list or watch can start from.
    pub oldest: u64,
    /// The current revision.
    pub current: u64,
}

/// The watch was too slow: changes that it has not seen have left the history. List again and watch from there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the watch has seen revision {seen}, later changes are no longer in the history")]
pub struct Lagged {
    /// The last revision that the watch returned, or started after.
    pub seen: u64,
}
