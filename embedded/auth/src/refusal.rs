//! Answers other than success, with the code, reason and wording of a real API server.

use serde_json::{Value, json};

use crate::wording::{qualified, quoted};

/// A request that is answered with an error. [`Refusal::status`] is the body, its `code` the HTTP status.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The request makes no sense.
    #[error("{0}")]
    BadRequest(String),
    /// Fields of the object are wrong.
    #[error("{} {} is invalid: {}", qualified(kind, group), quoted(name), listed(causes))]
    Invalid {
        /// API group of the kind.
        group: String,
        /// Kind of the object.
        kind: String,
        /// Name of the object, often empty for reviews.
        name: String,
        /// What is wrong where.
        causes: Vec<Cause>,
    },
    /// What the request speaks of is not there.
    #[error("{} {} not found", qualified(resource, group), quoted(name))]
    NotFound {
        /// API group of the resource.
        group: String,
        /// Plural.
        resource: String,
        /// Name asked for.
        name: String,
    },
    /// What the request speaks of has become something else.
    #[error("Operation cannot be fulfilled on {resource} {}: {reason}", quoted(name))]
    Conflict {
        /// What the reference calls a kind.
        resource: String,
        /// Name of the object.
        name: String,
        /// In what way it differs.
        reason: String,
    },
    /// The user may not do this.
    #[error("{}", forbidden(group, resource, name, reason))]
    Forbidden {
        /// API group of the resource.
        group: String,
        /// Plural; empty for a path.
        resource: String,
        /// Name of the object, empty when there is none.
        name: String,
        /// Who may not do what.
        reason: String,
    },
    /// The server could not answer; the cause is in its log.
    #[error("Internal error occurred: {0}")]
    Internal(String),
}

/// One field that is wrong.
#[derive(Clone, Debug, PartialEq)]
pub struct Cause {
    /// Path of the field, such as `spec.user`.
    pub field: String,
    /// The value found there.
    pub value: Value,
    /// What is wrong with it.
    pub message: String,
}

impl Cause {
    pub(crate) fn new(field: &str, value: impl Into<Value>, message: &str) -> Self {
        Self { field: field.to_owned(), value: value.into(), message: message.to_owned() }
    }

    fn wording(&self) -> String {
        let value = match &self.value {
            // The real server shows an absent value in quotes too.
            Value::Null => quoted("null"),
            Value::String(text) => quoted(text),
            other => other.to_string(),
        };
        format!("Invalid value: {value}: {}", self.message)
    }
}

impl Refusal {
    /// HTTP status and reason.
    fn class(&self) -> (u16, &'static str) {
        match self {
            Self::BadRequest(_) => (400, "BadRequest"),
            Self::Forbidden { .. } => (403, "Forbidden"),
            Self::NotFound { .. } => (404, "NotFound"),
            Self::Conflict { .. } => (409, "Conflict"),
            Self::Invalid { .. } => (422, "Invalid"),
            Self::Internal(_) => (500, "InternalError"),
        }
    }

    /// The HTTP status code.
    pub fn code(&self) -> u16 {
        self.class().0
    }

    /// The `Status` object that clients expect as body.
    pub fn status(&self) -> Value {
        let (code, reason) = self.class();
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.to_string(), "reason": reason, "code": code,
        });
        let details = match self {
            Self::BadRequest(_) => None,
            Self::Invalid { group, kind, name, causes } => {
                let causes: Vec<_> = causes
                    .iter()
                    .map(|c| json!({"reason": "FieldValueInvalid", "message": c.wording(), "field": c.field}))
                    .collect();
                Some(json!({"group": group, "kind": kind, "name": name, "causes": causes}))
            }
            Self::Conflict { resource, name, .. } => Some(json!({"kind": resource, "name": name})),
            Self::NotFound { group, resource, name } | Self::Forbidden { group, resource, name, .. } => {
                Some(json!({"group": group, "kind": resource, "name": name}))
            }
            Self::Internal(message) => Some(json!({"causes": [{"message": message}]})),
        };
        if let Some(mut details) = details {
            if let Some(fields) = details.as_object_mut() {
                fields.retain(|_, value| value.as_str() != Some(""));
            }
            status["details"] = details;
        }
        status
    }
}

fn listed(causes: &[Cause]) -> String {
    let texts: Vec<_> = causes.iter().map(|c| format!("{}: {}", c.field, c.wording())).collect();
    match texts.as_slice() {
        [only] => only.clone(),
        several => format!("[{}]", several.join(", ")),
    }
}

fn forbidden(group: &str, resource: &str, name: &str, reason: &str) -> String {
    match (resource, name) {
        ("", _) => format!("forbidden: {reason}"),
        (_, "") => format!("{} is forbidden: {reason}", qualified(resource, group)),
        _ => format!("{} {} is forbidden: {reason}", qualified(resource, group), quoted(name)),
    }
}

/// Refuses what is no object, or has something else than an object under one of `fields`.
pub(crate) fn objects_only(value: &Value, fields: &[&str]) -> Result<(), Refusal> {
    let wrong = |what: &str| Refusal::BadRequest(format!("cannot unmarshal the request: {what} is not an object"));
    let object = value.as_object().ok_or_else(|| wrong("the body"))?;
    let odd = fields.iter().find(|field| object.get(**field).is_some_and(|v| !v.is_object() && !v.is_null()));
    odd.map_or(Ok(()), |field| Err(wrong(field)))
}
