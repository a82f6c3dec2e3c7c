//! What a call fails with: one variant for each thing that a caller does differently.

use std::fmt;
use std::time::Duration;

use http::{Method, StatusCode};

/// A call that failed: which, and what the service said about it. Contains no secret, no token and no query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The method.
    pub method: Method,
    /// The path, without the query.
    pub path: String,
    /// The status, if the service answered.
    pub status: Option<StatusCode>,
    /// The service's own message, or why there is no answer.
    pub message: String,
    /// The id that the service logs the request with.
    pub request_id: Option<String>,
    /// The time that the service asks its clients to wait.
    pub retry_after: Option<Duration>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { method, path, status, message, request_id, .. } = self;
        write!(f, "{method} {path}: {message}")?;
        let status = status.map(|status| format!("HTTP {}", status.as_u16()));
        let id = request_id.as_ref().map(|id| format!("request id {id}"));
        let notes: Vec<String> = [status, id].into_iter().flatten().collect();
        if notes.is_empty() { Ok(()) } else { write!(f, " ({})", notes.join(", ")) }
    }
}

/// Why a call failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Keystone refused the credential, or a service refused a token that was just issued.
    #[error("the credential is not accepted: {0}")]
    Unauthorized(Box<Failure>),
    /// The credential's roles do not allow the call.
    #[error("the call is forbidden for this credential: {0}")]
    Forbidden(Box<Failure>),
    /// There is no such resource.
    #[error("not found: {0}")]
    NotFound(Box<Failure>),
    /// The resource exists already, or is in a state that does not allow the call.
    #[error("conflict: {0}")]
    Conflict(Box<Failure>),
    /// The service does not understand the request: HTTP 400, 422 and every other 4xx.
    #[error("the request is invalid: {0}")]
    Invalid(Box<Failure>),
    /// The service limits the rate of requests.
    #[error("too many requests: {0}")]
    TooManyRequests(Box<Failure>),
    /// There was no connection, no answer in time, or an error of the service.
    #[error("the service is unavailable: {0}")]
    Unavailable(Box<Failure>),
    /// The catalog has no endpoint of the service for the interface and region.
    #[error("no endpoint: {0}")]
    NoEndpoint(Box<Failure>),
    /// The answer is not what the API documents.
    #[error("the answer is malformed: {0}")]
    Malformed(Box<Failure>),
}

impl Error {
    /// The error for an answer with a status that is not a success.
    pub(crate) fn from_answer(failure: Failure) -> Self {
        let failure = Box::new(failure);
        match failure.status.map_or(0, |status| status.as_u16()) {
            401 => Self::Unauthorized(failure),
            403 => Self::Forbidden(failure),
            404 | 410 => Self::NotFound(failure),
            409 => Self::Conflict(failure),
            429 => Self::TooManyRequests(failure),
            400..=499 => Self::Invalid(failure),
            500..=599 => Self::Unavailable(failure),
            _ => Self::Malformed(failure),
        }
    }

    /// Which call failed, and how.
    pub fn failure(&self) -> &Failure {
        match self {
            Self::Unauthorized(failure)
            | Self::Forbidden(failure)
            | Self::NotFound(failure)
            | Self::Conflict(failure)
            | Self::Invalid(failure)
            | Self::TooManyRequests(failure)
            | Self::Unavailable(failure)
            | Self::NoEndpoint(failure)
            | Self::Malformed(failure) => failure,
        }
    }

    /// The variant's name: the reason of an event and the label of a metric.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Unauthorized(_) => "Unauthorized",
            Self::Forbidden(_) => "Forbidden",
            Self::NotFound(_) => "NotFound",
            Self::Conflict(_) => "Conflict",
            Self::Invalid(_) => "Invalid",
            Self::TooManyRequests(_) => "TooManyRequests",
            Self::Unavailable(_) => "Unavailable",
            Self::NoEndpoint(_) => "NoEndpoint",
            Self::Malformed(_) => "Malformed",
        }
    }

    /// Whether the same call may succeed later although neither the request nor the credential has changed.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::TooManyRequests(_) => true,
            Self::Unavailable(failure) => failure.status != Some(StatusCode::NOT_IMPLEMENTED),
            _ => false,
        }
    }

    /// Whether there is no such resource.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::NotFound(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(status: u16) -> Error {
        Error::from_answer(Failure {
            method: Method::POST,
            path: "/v3/users".into(),
            status: StatusCode::from_u16(status).ok(),
            message: "a user of this name exists".into(),
            request_id: Some("req-7".into()),
            retry_after: None,
        })
    }

    #[test]
    fn each_status_has_the_variant_that_callers_handle() {
        let reasons = [
            (400, "Invalid"),
            (401, "Unauthorized"),
            (403, "Forbidden"),
            (404, "NotFound"),
            (405, "Invalid"),
            (409, "Conflict"),
            (410, "NotFound"),
            (422, "Invalid"),
            (429, "TooManyRequests"),
            (500, "Unavailable"),
            (302, "Malformed"),
        ];
        for (status, reason) in reasons {
            assert_eq!(answered(status).reason(), reason, "{status}");
        }
    }

    #[test]
    fn only_overload_and_outages_are_retryable() {
        let retryable: Vec<u16> = (400..600).filter(|status| answered(*status).is_retryable()).collect();
        assert!(retryable.contains(&429) && retryable.contains(&503));
        assert!(!retryable.contains(&409) && !retryable.contains(&501) && !retryable.contains(&401));
    }

    #[test]
    fn a_message_names_the_call_and_the_request_id() {
        assert_eq!(
            answered(409).to_string(),
            "conflict: POST /v3/users: a user of this name exists (HTTP 409, request id req-7)"
        );
    }
}
