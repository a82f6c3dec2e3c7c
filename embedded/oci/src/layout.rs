//! A folder of blobs and an index of the images in it, which several processes may share.
//!
//! ```text
//!  oci-layout              says what the folder is
//!  index.json              images by name, and what refers to them; replaced as a whole
//!  blobs/sha256/<digest>   every manifest, configuration and layer; there when it is whole, never changed
//!  partial/                blobs that are being written
//!  index.lock              held while the index is changed
//!  users.lock              shared by all who have the folder open; held alone by who removes blobs
//! ```

mod blobs;
mod collect;
mod index;
mod referrers;

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use oci_spec::image::{Descriptor, Digest, ImageConfiguration, ImageIndex, ImageManifest, MediaType};
use serde::de::DeserializeOwned;

pub use blobs::{BlobWriter, Checked};
pub use collect::Freed;
pub use index::Named;
pub(crate) use index::{NAME, index_of, plain, with_name};
pub use referrers::Artifact;

use crate::Error;
use crate::content::json;

/// An open store of images. While it is open, no one else can remove blobs from it.
#[derive(Debug)]
pub struct Layout {
    root: PathBuf,
    /// Locked shared, until it is dropped.
    users: File,
}

impl Layout {
    /// Opens the store in a folder, which is made if it is not there. Waits while someone removes blobs from it. Who is the
    /// only one to have it open removes what processes that were killed have left half written.
    pub fn open(root: impl Into<PathBuf>) -> Result<Self, Error> {
        let root = root.into();
        for folder in ["blobs/sha256", "partial"] {
            let folder = root.join(folder);
            fs::create_dir_all(&folder).map_err(Error::file("make", &folder))?;
        }
        let users = lock_file(&root.join("users.lock"))?;
        let is_alone = users.try_lock().is_ok();
        let layout = Self { root, users };
        if is_alone {
            layout.sweep_partial()?;
            layout.users.unlock().map_err(Error::file("unlock", &layout.root))?;
        }
        layout.users.lock_shared().map_err(Error::file("lock", &layout.root))?;
        layout.mark()?;
        Ok(layout)
    }

    /// The folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Says what the folder is. Two that do so at once write the same.
    fn mark(&self) -> Result<(), Error> {
        let path = self.root.join("oci-layout");
        if path.exists() { Ok(()) } else { self.replace(&path, br#"{"imageLayoutVersion":"1.0.0"}"#) }
    }

    /// What a blob refers to, if it is a manifest or an index: its configuration, layers or manifests.
    pub fn children(&self, descriptor: &Descriptor) -> Result<Vec<Descriptor>, Error> {
        Ok(match descriptor.media_type() {
            MediaType::ImageIndex => self.document::<ImageIndex>(descriptor)?.manifests().clone(),
            MediaType::ImageManifest => {
                let manifest = self.manifest(descriptor)?;
                [manifest.config()].into_iter().chain(manifest.layers()).cloned().collect()
            }
            _ => Vec::new(),
        })
    }

    /// An image's blobs, each once: what it refers to before itself, so that who copies them in this order never has a
    /// manifest without its blobs.
    pub fn closure(&self, root: &Descriptor) -> Result<Vec<Descriptor>, Error> {
        let mut blobs: Vec<Descriptor> = Vec::new();
        for child in self.children(root)? {
            for blob in self.closure(&child)? {
                if blobs.iter().all(|known| known.digest() != blob.digest()) {
                    blobs.push(blob);
                }
            }
        }
        blobs.push(root.clone());
        Ok(blobs)
    }

    /// The manifest of an image.
    pub fn manifest(&self, descriptor: &Descriptor) -> Result<ImageManifest, Error> {
        self.document(descriptor)
    }

    /// How an image is run, and what its layers unpack to.
    pub fn configuration(&self, manifest: &ImageManifest) -> Result<ImageConfiguration, Error> {
        self.document(manifest.config())
    }

    /// A blob of JSON.
    pub(crate) fn document<T: DeserializeOwned>(&self, descriptor: &Descriptor) -> Result<T, Error> {
        let bytes = self.read(descriptor.digest())?;
        serde_json::from_slice(&bytes)
            .map_err(|error| Error::malformed(format!("blob {}", descriptor.digest()), &error))
    }

    /// Puts a document into the store, spelled in the one way that its content has.
    pub fn put_document(&self, media_type: MediaType, document: &impl serde::Serialize) -> Result<Descriptor, Error> {
        self.put(media_type, &json(document))
    }

    /// Where a blob is, whether or not it is there.
    pub fn path(&self, digest: &Digest) -> Result<PathBuf, Error> {
        Ok(self.root.join("blobs/sha256").join(crate::content::hex(digest)?))
    }
}

fn lock_file(path: &Path) -> Result<File, Error> {
    File::options().create(true).truncate(false).write(true).open(path).map_err(Error::file("open", path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::digest_of;

    #[test]
    fn a_blob_has_one_place_whoever_puts_it() {
        let folder = tempfile::tempdir().unwrap();
        let (one, other) = (Layout::open(folder.path()).unwrap(), Layout::open(folder.path()).unwrap());
        let first = one.put(MediaType::from("text/plain"), b"same").unwrap();
        let second = other.put(MediaType::from("text/plain"), b"same").unwrap();
        assert_eq!(first, second);
        assert_eq!(other.read(first.digest()).unwrap(), b"same");
        assert_eq!(fs::read_dir(folder.path().join("blobs/sha256")).unwrap().count(), 1);
        assert_eq!(fs::read_dir(folder.path().join("partial")).unwrap().count(), 0);
    }

    #[test]
    fn a_blob_that_is_not_committed_is_not_there() {
        use std::io::Write as _;
        let folder = tempfile::tempdir().unwrap();
        let layout = Layout::open(folder.path()).unwrap();
        let mut writer = layout.writer().unwrap();
        writer.write_all(b"half of").unwrap();
        drop(writer);
        assert!(!layout.contains(&digest_of(b"half of")));
        assert_eq!(fs::read_dir(folder.path().join("partial")).unwrap().count(), 0);
    }

    #[test]
    fn what_a_killed_process_has_left_goes_when_nobody_else_is_there() {
        let folder = tempfile::tempdir().unwrap();
        let left = folder.path().join("partial/.tmpleft");
        let other = Layout::open(folder.path()).unwrap();
        fs::write(&left, b"half of").unwrap();
        drop(Layout::open(folder.path()).unwrap());
        assert!(left.exists(), "somebody may be writing it");
        drop(other);
        drop(Layout::open(folder.path()).unwrap());
        assert!(!left.exists());
    }

    #[test]
    fn a_damaged_blob_is_refused_by_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let layout = Layout::open(folder.path()).unwrap();
        let blob = layout.put(MediaType::from("text/plain"), b"good").unwrap();
        fs::write(layout.path(blob.digest()).unwrap(), b"evil").unwrap();
        let error = layout.read(blob.digest()).unwrap_err();
        assert!(matches!(&error, Error::Digest { expected, .. } if expected == blob.digest()), "{error}");
    }

    #[test]
    fn content_that_is_not_what_was_asked_for_does_not_get_in() {
        let folder = tempfile::tempdir().unwrap();
        let layout = Layout::open(folder.path()).unwrap();
        let error = layout.copy_in(&mut b"evil".as_slice(), &digest_of(b"good")).unwrap_err();
        assert!(matches!(error, Error::Digest { .. }), "{error}");
        assert!(!layout.contains(&digest_of(b"good")) && !layout.contains(&digest_of(b"evil")));
    }
}
