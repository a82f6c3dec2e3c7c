//! Why an image is not there. A failure of a stage names the image, the stage and, where one is to blame, the package.

use std::io;
use std::path::{Path, PathBuf};

/// Why something was not done with images.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file cannot be used.
    #[error("{}: {source}", path.display())]
    File {
        /// Which one.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file of the definitions is wrong.
    #[error("{file}: {reason}")]
    Definition {
        /// Which one, within the definitions.
        file: String,
        /// What is wrong.
        reason: String,
    },
    /// There is no such image.
    #[error("there is no image {name}; there are: {known}")]
    Unknown {
        /// What was asked for.
        name: String,
        /// What could have been.
        known: String,
    },
    /// There is no such release.
    #[error("there is no release {name}; there are: {known}")]
    Release {
        /// What was asked for.
        name: String,
        /// What could have been.
        known: String,
    },
    /// A stage of an image failed.
    #[error("image {image}, stage {stage}: {problem}")]
    Stage {
        /// Which image.
        image: String,
        /// Which stage of it.
        stage: &'static str,
        /// What happened.
        problem: Problem,
    },
    /// The store of images refused.
    #[error(transparent)]
    Store(#[from] c5c3_oci::Error),
    /// A program that is needed is not there.
    #[error("{program} is needed and is not there: {remedy}")]
    Program {
        /// Which one.
        program: &'static str,
        /// What to do.
        remedy: String,
    },
    /// The build was told to stop.
    #[error("stopped; what was finished is kept, and the next build goes on from there")]
    Stopped,
}

/// What happened in a stage.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    /// A package is nowhere to be had.
    #[error("package {package} is not there: {why}")]
    Missing {
        /// Its name, with the version if one was asked for.
        package: String,
        /// What was said of it.
        why: String,
    },
    /// A package is not the one that was locked.
    #[error("package {package} is not what the lock says: {why}")]
    Hash {
        /// Its name and version.
        package: String,
        /// Both hashes, as far as they are known.
        why: String,
    },
    /// Nothing says where Debian packages come from.
    #[error("this machine's apt names no archive of Debian: set {0} to one, such as http://mirror.example/debian")]
    NoMirror(&'static str),
    /// A lock is not what the release asks for.
    #[error("{0}; renew it with `c5c3 image lock`")]
    Lock(String),
    /// A patch does not fit.
    #[error(transparent)]
    Patch(#[from] crate::patch::PatchError),
    /// There is no more room.
    #[error("no space is left in {}; `c5c3 image gc` removes what is not needed any more", .0.display())]
    Full(PathBuf),
    /// A command failed for another reason.
    #[error("{0}")]
    Command(String),
    /// A file cannot be used.
    #[error("{}: {source}", path.display())]
    File {
        /// Which one.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The store of images refused.
    #[error(transparent)]
    Store(#[from] c5c3_oci::Error),
    /// The build was told to stop.
    #[error("stopped")]
    Stopped,
}

impl Error {
    pub(crate) fn file(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::File { path: path.to_owned(), source }
    }

    pub(crate) fn definition(file: impl Into<String>, reason: impl std::fmt::Display) -> Self {
        Self::Definition { file: file.into(), reason: format!("{reason}") }
    }
}

impl Problem {
    pub(crate) fn file(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::File { path: path.to_owned(), source }
    }
}
