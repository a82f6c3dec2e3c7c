//! One file of the log: frames are appended into space that was zeroed before.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::frame::Found;
use super::{file, frame};

/// How much space is zeroed at a time. Writing into a file's existing blocks needs no change of the file system's own
/// records, which makes the sync several times cheaper than that of a file which grows with each write.
const EXTENT: u64 = 1 << 20;

#[derive(Debug)]
pub(crate) struct Segment {
    path: PathBuf,
    file: File,
    /// Where the next frame goes.
    position: u64,
    /// The length of the file; from `position` on it is zeros.
    allocated: u64,
    #[cfg(test)]
    pub faults: Faults,
}

/// Why a frame was not appended.
#[derive(Debug)]
pub(crate) enum AppendError {
    /// There was no space for it. Nothing is left where frames go, so a later one may succeed.
    NoSpace(io::Error),
    /// The write or its sync failed, and what is on disk is unknown: appending must stop until [`Segment::repair`].
    Broken(io::Error),
}

/// While it holds an error, every write and sync of the segment fails with it, a write after half of its bytes.
#[cfg(test)]
pub(crate) type Faults = std::sync::Arc<std::sync::Mutex<Option<io::ErrorKind>>>;

impl Segment {
    /// The log file whose first change will have revision `first`.
    pub fn path(dir: &Path, first: u64) -> PathBuf {
        dir.join(format!("log-{first:020}"))
    }

    /// Makes an empty one.
    pub fn create(dir: &Path, first: u64) -> io::Result<Self> {
        let path = Self::path(dir, first);
        let file = file::create(&path, |file| {
            extend(file, 0, EXTENT)?;
            file.write_all_at(&frame::preamble(), 0)?;
            Ok(true)
        })?;
        let file = file.expect("it does not give up");
        Ok(Self::at(path, file, frame::PREAMBLE as u64, EXTENT))
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
        Ok(Self::at(path.to_path_buf(), file, position as u64, allocated))
    }

    fn at(path: PathBuf, file: File, position: u64, allocated: u64) -> Self {
        Self {
            path,
            file,
            position,
            allocated,
            #[cfg(test)]
            faults: Faults::default(),
        }
    }

    /// Whether this is the log file whose first change has revision `first`.
    pub fn begins_at(&self, dir: &Path, first: u64) -> bool {
        self.path == Self::path(dir, first)
    }

    /// Appends a frame and returns when it is safe.
    pub fn append(&mut self, frame: &[u8]) -> Result<(), AppendError> {
        let end = self.position + frame.len() as u64;
        self.reserve(end).map_err(AppendError::NoSpace)?;
        if let Err(error) = self.write(frame, self.position).and_then(|()| self.sync()) {
            return Err(self.take_back(error));
        }
        self.position = end;
        Ok(())
    }

    /// Makes sure that a frame of `length` bytes has its space.
    pub fn make_room(&mut self, length: u64) -> io::Result<()> {
        self.reserve(self.position + length)
    }

    fn reserve(&mut self, end: u64) -> io::Result<()> {
        if end > self.allocated {
            let to = end.next_multiple_of(EXTENT);
            self.fault()?;
            extend(&self.file, self.allocated, to)?;
            self.allocated = to;
        }
        Ok(())
    }

    /// Takes back a frame that was written in part. Where overwriting a block allocates another (btrfs, ZFS, thin
    /// volumes), a full disk is met here; once the part is gone and that is safe, the disk's contents are known again.
    fn take_back(&mut self, error: io::Error) -> AppendError {
        let is_full = matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
        if is_full && self.cut(&self.file).is_ok() {
            self.allocated = self.position;
            return AppendError::NoSpace(error);
        }
        AppendError::Broken(error)
    }

    fn cut(&self, file: &File) -> io::Result<()> {
        file.set_len(self.position)?;
        file.sync_all()
    }

    /// Makes the log usable after [`AppendError::Broken`]: reads back what was acknowledged, cuts off what follows, and
    /// proves by a write and a sync that the disk takes both again. Nothing may be appended if it fails.
    pub fn repair(&mut self) -> io::Result<()> {
        // A descriptor of its own: the kernel may tell one of a lost write only once.
        let file = OpenOptions::new().read(true).write(true).open(&self.path)?;
        let length = usize::try_from(self.position).map_err(io::Error::other)?;
        let mut written = vec![0; length];
        file.read_exact_at(&mut written, 0)?;
        if !is_whole(&written) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "acknowledged changes can no longer be read from it",
            ));
        }
        self.cut(&file)?;
        let to = (self.position + 1).next_multiple_of(EXTENT);
        self.fault()?;
        extend(&file, self.position, to)?;
        file.sync_all()?;
        self.file = file;
        self.allocated = to;
        Ok(())
    }

    fn write(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        if let Err(error) = self.fault() {
            self.file.write_all_at(&bytes[..bytes.len() / 2], at)?;
            return Err(error);
        }
        self.file.write_all_at(bytes, at)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    /// The error that a test has asked for.
    #[cfg(test)]
    fn fault(&self) -> io::Result<()> {
        self.faults.lock().expect("no test panics with it").map_or(Ok(()), |kind| Err(kind.into()))
    }

    #[cfg(not(test))]
    #[allow(clippy::unused_self, clippy::unnecessary_wraps)] // Only a test has faults.
    fn fault(&self) -> io::Result<()> {
        Ok(())
    }
}

/// Whether a log that ends here can be read up to its end.
fn is_whole(log: &[u8]) -> bool {
    let mut at = frame::PREAMBLE;
    while let Found::Frame(frame) = frame::read(log, at) {
        at = frame.end;
    }
    at == log.len()
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
