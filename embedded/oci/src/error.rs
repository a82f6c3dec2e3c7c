//! What can go wrong with images that are files.

use std::io;
use std::path::{Path, PathBuf};

use oci_spec::distribution::Reference;
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
    /// An image does not have a file.
    #[error("the image {image} has no file /{path}")]
    NoFile {
        /// Which image.
        image: Digest,
        /// Its path, from the root.
        path: String,
    },
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
    /// A part of an image is not what the image says.
    #[error("{part} of {image} is not what it was: {source}")]
    Part {
        /// Which part, as people call it.
        part: String,
        /// Of which image.
        image: Digest,
        /// What is wrong with it.
        source: Box<Error>,
    },
    /// A layer's blob is whole, and does not unpack to what the image was made of.
    #[error("it unpacks to {found} instead of {expected}")]
    Unpacked {
        /// The digest of the tar that the configuration names.
        expected: String,
        /// What there is.
        found: String,
    },
    /// No one has signed an image.
    #[error("{0} is not signed")]
    Unsigned(Digest),
    /// An image has signatures, and none is by the key that it should be by.
    #[error("{image} has {signatures} signature(s), and none is by this key")]
    Signature {
        /// Which image.
        image: Digest,
        /// How many there are.
        signatures: usize,
    },
    /// A file with a key is none.
    #[error("{} is no {kind} key of the curve P-256 in PEM", path.display())]
    Key {
        /// Which file.
        path: PathBuf,
        /// `private` or `public`.
        kind: &'static str,
    },
    /// A registry would be spoken to without encryption over a network.
    #[error("{0} is not on this machine: only a registry at a loopback address may be used without TLS")]
    PlainHttp(String),
    /// A registry refused, or could not be reached.
    #[error("cannot {action} {name}: {}", chain(source))]
    Registry {
        /// What was tried, as a verb.
        action: &'static str,
        /// With which image.
        name: String,
        /// What was answered.
        source: Box<oci_client::errors::OciDistributionError>,
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

    /// For `map_err`: the registry did not do this with this image.
    pub(crate) fn registry(
        action: &'static str,
        name: &Reference,
    ) -> impl FnOnce(oci_client::errors::OciDistributionError) -> Self {
        let name = name.to_string();
        move |source| Self::Registry { action, name, source: Box::new(source) }
    }

    pub(crate) fn malformed(what: impl Into<String>, why: &impl ToString) -> Self {
        Self::Malformed { what: what.into(), why: why.to_string() }
    }
}

/// An error with its causes: that a request failed says little, that no one listens says all.
fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}
