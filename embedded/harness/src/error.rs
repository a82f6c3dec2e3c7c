//! What a test cluster cannot do, and why.

use std::path::PathBuf;

/// Why a test cluster cannot do what is asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The embedded server does not start.
    #[error("the embedded API server does not start: {0}")]
    Start(#[from] c5c3_apiserver::StartError),
    /// The kubeconfig cannot be used.
    #[error("{path}: {source}")]
    Kubeconfig {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: kube::config::KubeconfigError,
    },
    /// The cluster refuses what the harness itself asks of it.
    #[error(transparent)]
    Cluster(#[from] kube::Error),
    /// Something does not come to be in time.
    #[error("{0} in time")]
    TooLate(String),
    /// Only the embedded server restarts in place.
    #[error("{0} is not ours to restart: only the embedded API server restarts in place")]
    NotOurs(http::Uri),
    /// No one can be let in by a port.
    #[error("cannot listen: {0}")]
    Listen(#[from] std::io::Error),
    /// The keys and certificates of a port cannot be made.
    #[error("cannot make keys: {0}")]
    Keys(#[from] c5c3_auth::PkiError),
    /// The kubeconfig of a port cannot be written.
    #[error(transparent)]
    Write(#[from] c5c3_auth::KubeconfigError),
}
