//! Why a reconciliation failed.

use kube::core::labels::ParseExpressionError;

/// Why a reconciliation failed. All of them are tried again.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The API did not do what it was asked.
    #[error(transparent)]
    Api(#[from] kube::Error),
    /// A selector means nothing.
    #[error("the selector cannot be read: {0}")]
    Selector(#[from] ParseExpressionError),
    /// A value that should be JSON is not.
    #[error("cannot read what a revision holds: {0}")]
    Json(#[from] serde_json::Error),
    /// A folder cannot be made or deleted.
    #[error(transparent)]
    Disk(#[from] std::io::Error),
}

impl Error {
    /// Whether someone else was faster: the next try sees what they did.
    pub(crate) fn is_conflict(&self) -> bool {
        matches!(self, Self::Api(kube::Error::Api(status)) if status.code == 409)
    }
}

/// Whether what a request was about is not there.
pub(crate) fn is_gone(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404)
}

/// Whether the name is taken.
pub(crate) fn is_taken(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.reason == "AlreadyExists")
}

/// Whether nothing can be created because the namespace is on its way out.
pub(crate) fn is_namespace_going(error: &kube::Error) -> bool {
    let kube::Error::Api(status) = error else { return false };
    let causes = status.details.iter().flat_map(|details| &details.causes);
    causes.into_iter().any(|cause| cause.reason == "NamespaceTerminating")
}
