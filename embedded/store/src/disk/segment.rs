//! One file of the log: frames are appended into space that was zeroed before.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::{file, frame};

/// How much space is zeroed at a time. Writing into a file's existing blocks needs no change of the file system's own
/// records, which makes the sync several times cheaper than that of a file which grows with each write.
const EXTENT: u64 = 1 << 20;

#[derive(Debug)]
pub(crate) struct Segment {
    file: File,
    /// Where the next frame goes.
    position: u64,
    /// The length of the file; from `position` on it is zeros.
    allocated: u64,
}

/// Why a frame was not appended.
pub(crate) enum AppendError {
    /// There was no space for it. Nothing was written where frames go, so a later one may succeed.
    NoSpace(io::Error),
    /// The write or its sync failed, and what is on disk is unknown: appending must stop.
    Broken(io::Error),
}

impl Segment {
    /// The log file whose first change will have revision `first`.
    pub fn path(dir: &Path, first: u64) -> PathBuf {
        dir.join(format!("log-{first:020}"))
    }

    /// Makes an empty one.
    pub fn create(dir: &Path, first: u64) -> io::Result<Self> {
        let file = file::create(&Self::path(dir, first), |file| {
            extend(file, 0, EXTENT)?;
            file.write_all_at(&frame::preamble(), 0)?;
            Ok(true)
        })?;
        let file = file.expect("it does not give up");
        Ok(Self { file, position: frame::PREAMBLE as u64, allocated: EXTENT })
    }

    /// Goes on with one that was read up to `position`. What the process before had written but not synced is made
    /// safe, since it is about to be shown; what it had written in part is cut off.
    pub fn resume(path: &Path, position: usize, torn: bool) -> io::Result<Self> {
        let file = OpenOptions::new().write(true).open(path)?;
        if torn {
            file.set_len(position as u64)?;
        }
        file.sync_all()?;
        let allocated = file.metadata()?.len();
        Ok(Self { file, position: position as u64, allocated })
    }

    /// Makes every later write fail, as a disk does that has gone away.
    #[cfg(test)]
    pub fn fail(&mut self) {
        self.file = File::open("/dev/null").expect("there is always nothing");
    }

    /// Appends a frame and returns when it is safe.
    pub fn append(&mut self, frame: &[u8]) -> Result<(), AppendError> {
        let end = self.position + frame.len() as u64;
        if end > self.allocated {
            let to = end.next_multiple_of(EXTENT);
            extend(&self.file, self.allocated, to).map_err(AppendError::NoSpace)?;
            self.allocated = to;
        }
        self.file.write_all_at(frame, self.position).map_err(AppendError::Broken)?;
        self.file.sync_data().map_err(AppendError::Broken)?;
        self.position = end;
        Ok(())
    }
}

/// Fills a file with zeros between two offsets, the first of which is its end.
fn extend(file: &File, from: u64, to: u64) -> io::Result<()> {
    static ZEROS: [u8; 1 << 16] = [0; 1 << 16];
    for at in (from..to).step_by(ZEROS.len()) {
        let left = usize::try_from(to - at).unwrap_or(usize::MAX);
        if let Err(error) = file.write_all_at(&ZEROS[..left.min(ZEROS.len())], at) {
            // Gives back what was had, for others who need space; the zeros would do no harm.
            let _ = file.set_len(from);
            return Err(error);
        }
    }
    Ok(())
}
