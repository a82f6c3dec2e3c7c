//! The three patch formats that are not apply: JSON patch, JSON merge patch, strategic merge patch.

mod json;
mod merge;
mod pointer;
mod strategic;

pub use json::json_patch;
pub use merge::merge_patch;
pub use strategic::strategic_merge_patch;

/// Why a patch cannot be applied.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    /// The patch is not one: it does not have the form of its format.
    #[error("{0}")]
    Malformed(String),
    /// More operations than a request may hold.
    #[error("The allowed maximum operations in a JSON patch is {max}, got {got}")]
    TooManyOperations {
        /// How many there may be.
        max: usize,
        /// How many there are.
        got: usize,
    },
    /// `copy` operations multiply the document beyond the size of a request.
    #[error(
        "Unable to complete the copy, the accumulated size increase of copy is {size}, exceeding the limit {limit}"
    )]
    CopiesTooMuch {
        /// What the copies come to, in bytes of JSON.
        size: usize,
        /// What they may come to.
        limit: usize,
    },
    /// A `test` operation found another value.
    #[error("testing value {0} failed: test failed")]
    TestFailed(String),
    /// An operation does not fit the document.
    #[error("{0}")]
    DoesNotApply(String),
    /// The patch, the object or the result nests deeper than [`MAX_DEPTH`](crate::MAX_DEPTH).
    #[error("object nests deeper than {} levels", crate::MAX_DEPTH)]
    TooDeep,
}

impl PatchError {
    /// The HTTP status that the real server answers with.
    pub fn code(&self) -> u16 {
        match self {
            Self::Malformed(_) | Self::TooDeep => 400,
            Self::TooManyOperations { .. } => 413,
            Self::CopiesTooMuch { .. } | Self::TestFailed(_) | Self::DoesNotApply(_) => 422,
        }
    }
}
