//! Requests and answers as data.

use serde_json::{Value, json};

use super::kv::Refused;

/// What a request wants to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    Read,
    List,
    Write,
    Patch,
    Delete,
}

/// A request. It holds secrets, and is never shown.
pub(super) struct Ask<'a> {
    pub(super) verb: Verb,
    /// The path behind `/v1/`.
    pub(super) path: &'a str,
    pub(super) version: u64,
    pub(super) body: Value,
    pub(super) token: Option<&'a str>,
}

/// An answer.
#[derive(Debug, PartialEq)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) body: Value,
    pub(super) form: Form,
}

/// How an answer is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Form {
    #[default]
    Json,
    /// Certificates, as they are.
    Pem,
}

impl Answer {
    pub(super) fn refusal(status: u16, why: &[&str]) -> Self {
        Self { status, body: json!({"errors": why}), form: Form::Json }
    }

    pub(super) fn denied() -> Self {
        Self::refusal(403, &["permission denied"])
    }

    pub(super) fn unsupported() -> Self {
        Self::refusal(405, &["unsupported operation"])
    }

    pub(super) fn missing() -> Self {
        Self::refusal(404, &[])
    }

    /// What some old paths answer: no envelope around it.
    pub(super) fn plain(body: Value) -> Self {
        Self { status: 200, body, form: Form::Json }
    }

    pub(super) fn pem(text: String) -> Self {
        Self { status: 200, body: text.into(), form: Form::Pem }
    }

    /// Nothing but that it is done.
    pub(super) fn done() -> Self {
        Self { status: 204, body: Value::Null, form: Form::Json }
    }

    pub(super) fn data(data: Value) -> Self {
        Self::wrapped("data", data)
    }

    pub(super) fn wrapped(field: &str, content: Value) -> Self {
        let mut body = json!({
            "request_id": uuid::Uuid::new_v4().to_string(), "lease_id": "", "renewable": false, "lease_duration": 0,
            "data": null, "wrap_info": null, "warnings": null, "auth": null,
        });
        body[field] = content;
        Self::plain(body)
    }

    pub(super) fn is_good(&self) -> bool {
        self.status < 300
    }
}

impl From<Refused> for Answer {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Missing(None) => Self::missing(),
            Refused::Missing(Some(said)) => Self { status: 404, ..Self::data(said) },
            Refused::Bad(why) => Self::refusal(400, &[why]),
        }
    }
}
