//! Removing the blobs that nothing refers to.

use std::collections::HashSet;
use std::fs;

use oci_spec::image::{Descriptor, Digest};

use super::Layout;
use super::index::name_of;
use crate::Error;

/// What removing blobs has freed.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Freed {
    /// How many blobs.
    pub blobs: u64,
    /// How many bytes.
    pub bytes: u64,
}

impl Layout {
    /// Removes every blob that no image needs and that is not in `keep`, what is said of images that are gone, and what
    /// processes that were killed have left half written. Fails with [`Error::InUse`] while others have the store open,
    /// since what they have put there may not be part of an image yet.
    pub fn collect(&mut self, keep: impl IntoIterator<Item = Digest>) -> Result<Freed, Error> {
        self.users.unlock().map_err(Error::file("unlock", &self.root))?;
        let freed = match self.users.try_lock() {
            Ok(()) => self.collect_alone(keep.into_iter().collect()),
            Err(fs::TryLockError::WouldBlock) => Err(Error::InUse(self.root.clone())),
            Err(fs::TryLockError::Error(error)) => Err(Error::file("lock", &self.root)(error)),
        };
        // On Linux a lock is changed in place; for a moment no one may hold it, and then nothing is lost.
        self.users.unlock().and_then(|()| self.users.lock_shared()).map_err(Error::file("lock", &self.root))?;
        freed
    }

    fn collect_alone(&self, mut keep: HashSet<Digest>) -> Result<Freed, Error> {
        let entries = self.index()?.manifests().clone();
        let kept = self.reachable(&entries, &mut keep)?;
        if kept.len() < entries.len() {
            self.change(|entries| *entries = kept)?;
        }
        let keep: HashSet<&str> = keep.iter().map(Digest::digest).collect();
        let mut freed = self.sweep("blobs/sha256", |name| keep.contains(name))?;
        freed.bytes += self.sweep_partial()?.bytes;
        Ok(freed)
    }

    /// Removes what is half written, for who knows that no one is writing.
    pub(super) fn sweep_partial(&self) -> Result<Freed, Error> {
        self.sweep("partial", |_| false)
    }

    /// The entries that stay: images with a name, and what refers to something that stays. Adds all their blobs.
    fn reachable(&self, entries: &[Descriptor], keep: &mut HashSet<Digest>) -> Result<Vec<Descriptor>, Error> {
        let (mut kept, mut open): (Vec<_>, Vec<_>) =
            entries.iter().cloned().partition(|entry| name_of(entry).is_some());
        for image in &kept {
            keep.extend(self.closure(image)?.iter().map(|blob| blob.digest().clone()));
        }
        // A signature may be of a bill of materials, which is of an image: as long as one stays, look again.
        loop {
            let mut left = Vec::new();
            let before = kept.len();
            for entry in open {
                match self.subject(&entry)? {
                    Some(subject) if keep.contains(subject.digest()) => {
                        keep.extend(self.closure(&entry)?.iter().map(|blob| blob.digest().clone()));
                        kept.push(entry);
                    }
                    _ => left.push(entry),
                }
            }
            if kept.len() == before {
                return Ok(kept);
            }
            open = left;
        }
    }

    fn sweep(&self, folder: &str, stays: impl Fn(&str) -> bool) -> Result<Freed, Error> {
        let folder = self.root.join(folder);
        let mut freed = Freed::default();
        for file in fs::read_dir(&folder).map_err(Error::file("list", &folder))? {
            let file = file.map_err(Error::file("list", &folder))?;
            if file.file_name().to_str().is_some_and(&stays) {
                continue;
            }
            let size = file.metadata().map_or(0, |metadata| metadata.len());
            fs::remove_file(file.path()).map_err(Error::file("remove", file.path()))?;
            freed = Freed { blobs: freed.blobs + 1, bytes: freed.bytes + size };
        }
        Ok(freed)
    }
}
