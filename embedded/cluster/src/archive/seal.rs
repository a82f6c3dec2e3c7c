//! The end of a backup: a checksum over all before it. It is a compressed stream of its own, so that programs that know
//! tar read past it.

use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use sha2::{Digest, Sha256};

use super::{ArchiveError, Progress};

/// How much is read at a time.
const CHUNK: usize = 1 << 20;

/// The end of a file with this checksum. It is always as long.
fn seal(sum: &[u8]) -> io::Result<Vec<u8>> {
    let sum = sum.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"));
    let mut end = GzEncoder::new(Vec::new(), Compression::none());
    writeln!(end, "sha256 of all before {sum}")?;
    end.finish()
}

/// A writer that knows the checksum of what it wrote.
pub(super) struct Sealing<W> {
    inner: W,
    sum: Sha256,
}

impl<W: Write> Sealing<W> {
    pub(super) fn new(inner: W) -> Self {
        Self { inner, sum: Sha256::new() }
    }

    /// Writes the end, and hands the rest back.
    pub(super) fn finish(mut self) -> io::Result<W> {
        let end = seal(&self.sum.finalize().0)?;
        self.inner.write_all(&end)?;
        self.inner.flush()?;
        Ok(self.inner)
    }
}

impl<W: Write> Write for Sealing<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.sum.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// Compares a file with its checksum.
pub(super) fn check(path: &Path, say: &(dyn Fn(&str) + Sync)) -> Result<(), ArchiveError> {
    let failed = || ArchiveError::file(path);
    let damaged = |why: &str| ArchiveError::Damaged { path: path.to_owned(), why: why.into() };
    let file = File::open(path).map_err(failed())?;
    let whole = file.metadata().map_err(failed())?.len();
    let end = seal(&[0; 32]).map_err(failed())?.len();
    let Some(length) = whole.checked_sub(end as u64) else { return Err(damaged("it is no backup of a cluster")) };
    let mut progress = Progress::new(say, "checking", length);
    let mut file = BufReader::with_capacity(CHUNK, file);
    let (mut sum, mut chunk, mut left) = (Sha256::new(), vec![0; CHUNK], length);
    while left > 0 {
        let most = usize::try_from(left).map_or(CHUNK, |left| left.min(CHUNK));
        file.read_exact(&mut chunk[..most]).map_err(failed())?;
        sum.update(&chunk[..most]);
        left -= most as u64;
        progress.add(most as u64);
    }
    let mut found = Vec::new();
    file.read_to_end(&mut found).map_err(failed())?;
    if found == seal(&sum.finalize().0).map_err(failed())? {
        Ok(())
    } else {
        Err(damaged("its checksum is not that of its content; it was cut off or changed, or is no backup of a cluster"))
    }
}
