//! The bearer tokens that clients show.

use std::path::PathBuf;

use axum::http::{HeaderMap, header};
use subtle::ConstantTimeEq;

/// A file with one token a line. It is read for each request, so that a rotated Secret counts at once; two lines let both
/// the old token and the new one count while clients change over.
#[derive(Clone, Debug)]
pub struct Tokens {
    file: PathBuf,
}

/// What is wrong with a request's token.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// No token, or a wrong one.
    Wrong,
    /// The file cannot be read, or has no token: nobody is let in.
    NoTokens,
}

impl Tokens {
    /// Those of a file.
    pub fn in_file(file: impl Into<PathBuf>) -> Self {
        Self { file: file.into() }
    }

    /// Whether the request has one of the tokens.
    pub(crate) async fn check(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        let text = tokio::fs::read_to_string(&self.file).await.map_err(|error| {
            tracing::warn!(%error, file = %self.file.display(), "cannot read the tokens; every request is refused");
            Refusal::NoTokens
        })?;
        let mut tokens = text.lines().map(str::trim).filter(|line| !line.is_empty()).peekable();
        if tokens.peek().is_none() {
            return Err(Refusal::NoTokens);
        }
        let shown = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let Some(shown) = shown.and_then(|value| value.strip_prefix("Bearer ")).map(str::trim) else {
            return Err(Refusal::Wrong);
        };
        // All are compared, and each in constant time.
        let fits = tokens.fold(false, |fits, token| fits | bool::from(token.as_bytes().ct_eq(shown.as_bytes())));
        if fits { Ok(()) } else { Err(Refusal::Wrong) }
    }
}
