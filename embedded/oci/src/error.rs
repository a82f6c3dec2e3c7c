//! What can go wrong with images that are files.

use std::io;
use std::path::{Path, PathBuf};

use oci_spec::image::Digest;

/// Why something could not be done with an image. Each variant says which file, blob or image it is about.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file system refused.
    #[error("cannot {action} {}: {source}", path.display())]
    File {
        /// What was tried, as a verb.
        action: &'static str,
        /// With which file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A blob is referred to and is not in the store.
    #[error("blob {0} is missing")]
    Missing(Digest),
    /// A blob's content is not what its name says.
    #[error("blob {expected} was tampered with or is damaged: its content has the digest {found}")]
    Digest {
        /// The digest by which it is referred to.
        expected: Digest,
        /// The digest that its bytes have.
        found: Digest,
    },
    /// A digest of another algorithm than SHA-256.
    #[error("digest {0} is not of the algorithm sha256, and no other is supported")]
    Algorithm(Digest),
    /// A document is not what it should be.
    #[error("{what} cannot be understood: {why}")]
    Malformed {
        /// Which document.
        what: String,
        /// What is wrong with it.
        why: String,
    },
    /// No image has this name.
    #[error("no image is named {0}")]
    Unknown(String),
    /// Others use the store, so nothing can be removed from it.
    #[error("{} is in use by another process; try again when it is done", .0.display())]
    InUse(PathBuf),
    /// A file cannot be part of a layer.
    #[error("{} cannot be in a layer: {why}", path.display())]
    Layer {
        /// Which file.
        path: PathBuf,
        /// Why not.
        why: &'static str,
    },
    /// What is read as an archive is none, or not of this kind.
    #[error("{} is no archive of the OCI layout: {why}", path.display())]
    Archive {
        /// Which file.
        path: PathBuf,
        /// What is missing or wrong.
        why: String,
    },
}

impl Error {
    /// For `map_err`: the file system refused this action on this path.
    pub(crate) fn file(action: &'static str, path: impl AsRef<Path>) -> impl FnOnce(io::Error) -> Self {
        let path = path.as_ref().to_owned();
        move |source| Self::File { action, path, source }
    }

    pub(crate) fn malformed(what: impl Into<String>, why: &impl ToString) -> Self {
        Self::Malformed { what: what.into(), why: why.to_string() }
    }
}
