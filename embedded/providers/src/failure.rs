//! Why looking after an object fails.

use crate::http::HttpError;

/// Why looking after an object fails. The variant's name is the reason of the condition that says so.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// A child cannot be brought to what it should be.
    #[error(transparent)]
    Kit(#[from] c5c3_kit::Error),
    /// The API did not do what was asked.
    #[error("cannot {what}: {}", said(source))]
    Api {
        /// What was asked.
        what: String,
        /// What the API said.
        source: Box<kube::Error>,
    },
    /// A server did not do what was asked.
    #[error(transparent)]
    Server(#[from] HttpError),
    /// A program did not do what was asked.
    #[error("{command}: {said}")]
    Command {
        /// What was run.
        command: String,
        /// What it said.
        said: String,
    },
    /// Something that is needed is not as it must be.
    #[error("{0}")]
    Missing(String),
}

impl Error {
    /// Names what was asked of the API.
    pub(crate) fn api(what: impl Into<String>) -> impl FnOnce(kube::Error) -> Self {
        let what = what.into();
        move |source| Self::Api { what, source: Box::new(source) }
    }
}

/// What an API said, without the dump of its answer that kube's error prints beside it.
fn said(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) if !status.message.is_empty() => status.message.clone(),
        other => other.to_string(),
    }
}
