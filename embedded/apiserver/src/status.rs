//! Answers that are not objects: Kubernetes' `Status`, with the reasons and the words that clients know.

use c5c3_kinds::Resource;
use c5c3_schema::{Problem, ProblemKind, Problems};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Why a request cannot be served, in one word. Clients go by it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)] // They say it themselves.
pub enum Reason {
    AlreadyExists,
    BadRequest,
    Conflict,
    Expired,
    Forbidden,
    InternalError,
    Invalid,
    MethodNotAllowed,
    NotAcceptable,
    NotFound,
    RequestEntityTooLarge,
    ServiceUnavailable,
    Timeout,
    TooManyRequests,
    Unauthorized,
    UnsupportedMediaType,
    /// None is given.
    #[serde(rename = "")]
    Unknown,
    /// A word of an admission webhook's.
    #[serde(untagged)]
    Other(String),
}

impl From<&str> for Reason {
    fn from(word: &str) -> Self {
        let read = Self::deserialize(serde::de::value::StrDeserializer::<serde::de::value::Error>::new(word));
        read.unwrap_or_else(|_| Self::Other(word.to_owned()))
    }
}

/// Why a request cannot be served.
#[derive(Clone, Debug, PartialEq)]
pub struct ApiError {
    /// The HTTP status.
    pub code: StatusCode,
    /// The reason in one word, such as `NotFound`.
    pub reason: Reason,
    /// The reason in words.
    pub message: String,
    /// What it is about.
    pub details: Value,
    /// How long the client should wait before it tries again.
    pub retry_after: Option<u32>,
    /// Where a list that has expired can be gone on with.
    pub go_on: Option<String>,
}

impl ApiError {
    /// An error without details.
    pub fn new(code: StatusCode, reason: impl Into<Reason>, message: impl Into<String>) -> Self {
        Self {
            code,
            reason: reason.into(),
            message: message.into(),
            details: Value::Null,
            retry_after: None,
            go_on: None,
        }
    }

    /// The request makes no sense.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, Reason::BadRequest, message)
    }

    /// The server did not do what it should have.
    pub fn internal(message: impl Into<String>) -> Self {
        let message = message.into();
        Self::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            Reason::InternalError,
            format!("Internal error occurred: {message}"),
        )
    }

    /// There is no such path.
    pub fn no_such_path() -> Self {
        Self::new(StatusCode::NOT_FOUND, Reason::NotFound, "the server could not find the requested resource")
    }

    /// There is no such object.
    pub fn not_found(resource: &Resource, name: &str) -> Self {
        Self::about(StatusCode::NOT_FOUND, Reason::NotFound, resource, name, "not found")
    }

    /// There is such an object already.
    pub fn already_exists(resource: &Resource, name: &str) -> Self {
        Self::about(StatusCode::CONFLICT, Reason::AlreadyExists, resource, name, "already exists")
    }

    /// The object is not what the client thought.
    pub fn conflict(resource: &Resource, name: &str, why: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {} \"{name}\": {why}", resource.qualified_plural());
        Self { message, ..Self::about(StatusCode::CONFLICT, Reason::Conflict, resource, name, "") }
    }

    /// The object has changed since the client read it.
    pub fn modified(resource: &Resource, name: &str) -> Self {
        let why = "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(resource, name, why)
    }

    /// The object may only be replaced by who says what they have seen of it.
    pub fn unversioned(resource: &Resource, name: &str) -> Self {
        let what = "Invalid value: 0x0: must be specified for an update";
        let problem = Problem::new("metadata.resourceVersion", ProblemKind::Invalid, what, "");
        let mut problems = Problems::new();
        problems.push(problem);
        Self::invalid(resource, name, &problems)
    }

    /// The user may not do that.
    pub fn forbidden(message: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, Reason::Forbidden, message)
    }

    /// No one may do that to this object.
    pub fn forbidden_object(resource: &Resource, name: &str, why: &str) -> Self {
        let message = format!("{} \"{name}\" is forbidden: {why}", resource.qualified_plural());
        Self { message, ..Self::about(StatusCode::FORBIDDEN, Reason::Forbidden, resource, name, "") }
    }

    /// The credentials are wrong.
    pub fn unauthorized() -> Self {
        Self::new(StatusCode::UNAUTHORIZED, Reason::Unauthorized, "Unauthorized")
    }

    /// The verb is not served here.
    pub fn not_allowed() -> Self {
        let message = "the server does not allow this method on the requested resource";
        Self::new(StatusCode::METHOD_NOT_ALLOWED, Reason::MethodNotAllowed, message)
    }

    /// The revision is no longer known.
    pub fn expired(message: impl Into<String>) -> Self {
        Self::new(StatusCode::GONE, Reason::Expired, message)
    }

    /// The object is wrong, in these fields.
    pub fn invalid(resource: &Resource, name: &str, problems: &Problems) -> Self {
        let list: Vec<String> =
            problems.iter().map(|problem| format!("{}: {}", problem.path, problem.message())).collect();
        let text = if list.len() == 1 { list[0].clone() } else { format!("[{}]", list.join(", ")) };
        let kind = if resource.group.is_empty() {
            resource.kind.clone()
        } else {
            format!("{}.{}", resource.kind, resource.group)
        };
        let causes: Vec<Value> = problems
            .iter()
            .map(|problem| {
                json!({"reason": problem.kind.as_cause(), "message": problem.message(), "field": problem.path})
            })
            .collect();
        Self {
            code: StatusCode::UNPROCESSABLE_ENTITY,
            reason: Reason::Invalid,
            message: format!("{kind} \"{name}\" is invalid: {text}"),
            details: json!({"name": name, "group": resource.group, "kind": resource.kind, "causes": causes}),
            retry_after: None,
            go_on: None,
        }
    }

    fn about(code: StatusCode, reason: Reason, resource: &Resource, name: &str, what: &str) -> Self {
        let mut details = json!({"name": name, "kind": resource.plural});
        if !resource.group.is_empty() {
            details["group"] = resource.group.as_str().into();
        }
        let message = format!("{} \"{name}\" {what}", resource.qualified_plural());
        Self { code, reason, message, details, retry_after: None, go_on: None }
    }

    /// The `Status` object.
    pub fn to_value(&self) -> Value {
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "code": self.code.as_u16(),
        });
        if self.reason != Reason::Unknown {
            status["reason"] = json!(self.reason);
        }
        if let Some(token) = &self.go_on {
            status["metadata"]["continue"] = token.as_str().into();
        }
        if !self.details.is_null() {
            status["details"] = self.details.clone();
        }
        if let Some(seconds) = self.retry_after {
            status["details"]["retryAfterSeconds"] = seconds.into();
        }
        status
    }
}

/// The `Status` of a deletion that is done.
pub fn deleted(resource: &Resource, object: &Value) -> Value {
    let metadata = &object["metadata"];
    let mut details = json!({"name": metadata["name"], "kind": resource.plural, "uid": metadata["uid"]});
    if !resource.group.is_empty() {
        details["group"] = resource.group.as_str().into();
    }
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details})
}

/// The `Status` of something that was asked for by creating it, and is done.
pub fn done() -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_written_and_read_as_one_word_and_one_that_is_not_known_is_kept() {
        for (reason, word) in
            [(Reason::NotFound, "NotFound"), (Reason::Unknown, ""), (Reason::Other("Frost".into()), "Frost")]
        {
            assert_eq!((json!(reason), Reason::from(word)), (json!(word), reason));
        }
        assert_eq!(ApiError::new(StatusCode::BAD_GATEWAY, Reason::Unknown, "").to_value().get("reason"), None);
        assert_eq!(ApiError::unauthorized().to_value()["reason"], "Unauthorized");
    }
}
