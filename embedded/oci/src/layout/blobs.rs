//! Putting blobs into the store and getting them out: whole, or not at all.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use oci_spec::image::{Descriptor, Digest, MediaType};
use tempfile::NamedTempFile;

use super::Layout;
use crate::Error;
use crate::content::{Hashing, digest_of};

/// A blob that is being written. It is in the store once it is committed, and nowhere if it is dropped.
#[derive(Debug)]
pub struct BlobWriter<'a> {
    layout: &'a Layout,
    file: Hashing<NamedTempFile>,
}

impl Write for BlobWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl BlobWriter<'_> {
    /// Puts what was written into the store if it is the blob of this digest; says how large it is.
    pub fn commit_as(self, expected: &Digest) -> Result<u64, Error> {
        let (file, found, size) = self.file.finish();
        if found != *expected {
            return Err(Error::Digest { expected: expected.clone(), found });
        }
        self.layout.keep(file, expected)?;
        Ok(size)
    }

    /// Puts what was written into the store, under the digest that it turned out to have.
    pub fn commit(self, media_type: MediaType) -> Result<Descriptor, Error> {
        let (file, digest, size) = self.file.finish();
        self.layout.keep(file, &digest)?;
        Ok(Descriptor::new(media_type, size, digest))
    }
}

/// A blob that is being read and checked.
#[derive(Debug)]
pub struct Checked {
    file: File,
    /// None once the end was seen.
    hash: Option<Hashing<io::Sink>>,
    expected: Digest,
}

impl Read for Checked {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(buffer)?;
        if read > 0 {
            self.hash.as_mut().map_or(Ok(()), |hash| hash.write_all(&buffer[..read]))?;
        } else if let Some(hash) = self.hash.take().filter(|_| !buffer.is_empty()) {
            let (_, found, _) = hash.finish();
            if found != self.expected {
                let wrong = Error::Digest { expected: self.expected.clone(), found };
                return Err(io::Error::new(io::ErrorKind::InvalidData, wrong));
            }
        }
        Ok(read)
    }
}

impl Layout {
    /// A writer for a blob whose digest is not known yet.
    pub fn writer(&self) -> Result<BlobWriter<'_>, Error> {
        Ok(BlobWriter { layout: self, file: Hashing::new(self.partial()?) })
    }

    /// Puts some bytes into the store.
    pub fn put(&self, media_type: MediaType, bytes: &[u8]) -> Result<Descriptor, Error> {
        let descriptor = Descriptor::new(media_type, bytes.len() as u64, digest_of(bytes));
        if !self.contains(descriptor.digest()) {
            let mut file = self.partial()?;
            file.write_all(bytes).map_err(Error::file("write", file.path()))?;
            self.keep(file, descriptor.digest())?;
        }
        Ok(descriptor)
    }

    /// Puts what a reader gives into the store, if it is the blob of this digest; says how large it is.
    pub fn copy_in(&self, reader: &mut dyn Read, expected: &Digest) -> Result<u64, Error> {
        let mut writer = self.writer()?;
        io::copy(reader, &mut writer).map_err(Error::file("copy into", &self.root))?;
        writer.commit_as(expected)
    }

    /// Whether a blob is there.
    pub fn contains(&self, digest: &Digest) -> bool {
        self.path(digest).is_ok_and(|path| path.is_file())
    }

    /// A blob to be read bit by bit. Reading fails at its end if it was not what its digest says: nothing that was made of
    /// it may be used then.
    pub fn stream(&self, digest: &Digest) -> Result<Checked, Error> {
        Ok(Checked { file: self.open_blob(digest)?, hash: Some(Hashing::new(io::sink())), expected: digest.clone() })
    }

    fn open_blob(&self, digest: &Digest) -> Result<File, Error> {
        let path = self.path(digest)?;
        File::open(&path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => Error::Missing(digest.clone()),
            _ => Error::file("open", &path)(error),
        })
    }

    /// The content of a blob that fits in memory, checked.
    pub fn read(&self, digest: &Digest) -> Result<Vec<u8>, Error> {
        let mut bytes = Vec::new();
        self.open_blob(digest)?.read_to_end(&mut bytes).map_err(Error::file("read", self.path(digest)?))?;
        let found = digest_of(&bytes);
        if found == *digest { Ok(bytes) } else { Err(Error::Digest { expected: digest.clone(), found }) }
    }

    fn partial(&self) -> Result<NamedTempFile, Error> {
        let folder = self.root.join("partial");
        NamedTempFile::new_in(&folder).map_err(Error::file("make a file in", folder))
    }

    /// Moves a finished file to its place, durably. One that is there already is the same, so it stays.
    fn keep(&self, file: NamedTempFile, digest: &Digest) -> Result<(), Error> {
        let path = self.path(digest)?;
        if path.is_file() {
            return Ok(());
        }
        persist(file, &path)
    }

    /// Replaces a file of the store by new content, durably: readers see the old or the new one, never a part.
    pub(super) fn replace(&self, path: &Path, content: &[u8]) -> Result<(), Error> {
        let mut file = self.partial()?;
        file.write_all(content).map_err(Error::file("write", path))?;
        persist(file, path)
    }
}

/// Gives a temporary file its name, once its content is on disk; and sees to it that the name is, too.
fn persist(file: NamedTempFile, path: &Path) -> Result<(), Error> {
    use std::os::unix::fs::PermissionsExt as _;
    let readable = fs::Permissions::from_mode(0o644);
    file.as_file().set_permissions(readable).map_err(Error::file("make readable", path))?;
    file.as_file().sync_all().map_err(Error::file("sync", path))?;
    file.persist(path).map_err(|error| Error::file("write", path)(error.error))?;
    let folder: PathBuf = path.parent().map_or_else(|| PathBuf::from("."), Path::to_owned);
    File::open(&folder).and_then(|opened| opened.sync_all()).map_err(Error::file("sync", &folder))
}
