//! One request for a resource, with everything that serving it takes.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use c5c3_auth::UserInfo;
use c5c3_fields::{Scope, Writer};
use c5c3_protobuf::DecodeError;
use http::{HeaderMap, Uri, header};
use hyper::upgrade::OnUpgrade;
use jiff::Timestamp;
use serde_json::Value;
use serde_saphyr::DuplicateKeyPolicy;

use crate::path::{Query, Target};
use crate::registry::Served;
use crate::server::Server;
use crate::status::{ApiError, Reason};

/// What a strict client wants to hear of fields that no schema knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldValidation {
    /// Refuse.
    Strict,
    /// Take the rest, and warn.
    Warn,
    /// Take the rest.
    Ignore,
}

/// One request for a resource.
pub struct Call<'a> {
    /// The server.
    pub server: &'a Arc<Server>,
    /// The resource.
    pub served: Arc<Served>,
    /// What was asked for.
    pub target: Target,
    /// With which parameters.
    pub query: Query,
    /// As the client wrote it.
    pub uri: Uri,
    /// With which headers.
    pub headers: HeaderMap,
    /// And body.
    pub body: Bytes,
    /// The client's connection, for a request that turns it into another protocol's.
    pub connection: Option<OnUpgrade>,
    /// By whom.
    pub user: UserInfo,
    /// What admission webhooks want the client to hear, whatever becomes of the request.
    pub warnings: &'a Warnings,
}

/// Warnings that come up while a request is served; each is told once, however often it comes up.
#[derive(Default)]
pub struct Warnings(Mutex<Vec<String>>);

impl Warnings {
    /// Adds one.
    pub fn add(&self, warning: &str) {
        let mut warnings = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !warnings.iter().any(|known| known == warning) {
            warnings.push(warning.to_owned());
        }
    }

    /// All of them, in the order in which they came up.
    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Call<'_> {
    /// The object's name, which the path must have.
    pub fn name(&self) -> Result<&str, ApiError> {
        self.target.name.as_deref().ok_or_else(ApiError::not_allowed)
    }

    /// The namespace, for a resource that is in namespaces.
    pub fn namespace(&self) -> Option<&str> {
        self.target.namespace.as_deref().filter(|_| self.served.resource.namespaced)
    }

    /// Whether what is read and written here is an object of the resource's own kind, and not its scale or a binding.
    pub fn is_about_own_kind(&self) -> bool {
        let resource = &self.served.resource;
        let below = self.target.subresource.as_deref().and_then(|below| resource.subresource(below));
        below.is_none_or(|below| (&below.group, &below.kind) == (&resource.group, &resource.kind))
    }

    /// The key of an object of this name.
    pub fn key(&self, name: &str) -> String {
        self.served.key(self.namespace(), name)
    }

    /// Whether nothing is to be stored.
    pub fn is_dry_run(&self) -> Result<bool, ApiError> {
        match self.query.get("dryRun") {
            None => Ok(false),
            Some("All") => Ok(true),
            Some(other) => Err(ApiError::bad_request(format!("invalid dryRun parameter {other:?}: only All is known"))),
        }
    }

    /// How unknown fields are met.
    pub fn field_validation(&self) -> Result<FieldValidation, ApiError> {
        match self.query.get("fieldValidation") {
            Some("Strict") => Ok(FieldValidation::Strict),
            Some("Warn") | None => Ok(FieldValidation::Warn),
            Some("Ignore") => Ok(FieldValidation::Ignore),
            Some(other) => {
                Err(ApiError::bad_request(format!("fieldValidation is Strict, Warn or Ignore, not {other:?}")))
            }
        }
    }

    /// The field manager: the one that is named, or the program's own name.
    pub fn manager(&self) -> String {
        let agent = || {
            let agent = self.headers.get(header::USER_AGENT).and_then(|agent| agent.to_str().ok()).unwrap_or_default();
            agent.split('/').next().unwrap_or_default().chars().take(128).collect()
        };
        self.query.get("fieldManager").map_or_else(agent, ToOwned::to_owned)
    }

    /// Runs `work` with the writer that this request is.
    pub fn with_writer<T>(&self, work: impl FnOnce(&Writer<'_>) -> T) -> T {
        let (manager, version) = (self.manager(), self.served.resource.api_version());
        let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let subresource = self.target.subresource.as_deref().unwrap_or_default();
        let scope = match subresource {
            "status" if self.served.resource.custom().is_some() => Scope::Only(&["status"]),
            "status" => Scope::Without(&["spec"]),
            "" if self.served.has_status() => Scope::Without(&["status"]),
            _ => Scope::Everything,
        };
        work(&Writer { manager: &manager, api_version: &version, subresource, now: &now, scope })
    }

    /// Whether the body is YAML.
    pub fn is_yaml(&self) -> bool {
        let content_type = self.headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
        content_type.is_some_and(|media| media.split(';').next().unwrap_or_default().trim().ends_with("yaml"))
    }

    /// The object in the body, JSON or YAML.
    pub fn object(&self) -> Result<Value, ApiError> {
        decode(&self.headers, &self.body)
    }
}

/// Decodes a body by its content type.
pub fn decode(headers: &HeaderMap, body: &Bytes) -> Result<Value, ApiError> {
    let content_type =
        headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("application/json");
    let media = content_type.split(';').next().unwrap_or_default().trim();
    if media == c5c3_protobuf::CONTENT_TYPE {
        return c5c3_protobuf::decode(body).map_err(|error| match error {
            DecodeError::UnknownKind { .. } => unsupported(error.to_string()),
            error => ApiError::bad_request(format!("the object provided is unrecognized: {error}")),
        });
    }
    let text =
        std::str::from_utf8(body).map_err(|error| ApiError::bad_request(format!("the body is not UTF-8: {error}")))?;
    let parsed = if media.ends_with("yaml") {
        // As a real server reads YAML; who wants to know of duplicates is told by `duplicates`.
        let last_wins = serde_saphyr::options! { duplicate_keys: DuplicateKeyPolicy::LastWins };
        serde_saphyr::from_str_with_options::<Value>(text, last_wins)
            .map_err(|error| error.without_snippet().to_string())
    } else if media.ends_with("json") || media.is_empty() {
        serde_json::from_str::<Value>(text).map_err(|error| error.to_string())
    } else {
        let message = format!(
            "the body of the request was in an unknown format - accepted media types include: application/json, application/yaml, application/vnd.kubernetes.protobuf, and not {media}"
        );
        return Err(unsupported(message));
    };
    parsed.map_err(|error| ApiError::bad_request(format!("the object provided is unrecognized: {error}")))
}

fn unsupported(message: String) -> ApiError {
    ApiError::new(http::StatusCode::UNSUPPORTED_MEDIA_TYPE, Reason::UnsupportedMediaType, message)
}
