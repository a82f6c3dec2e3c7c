//! Why an apply is refused, as the real server says it.

use std::fmt::{self, Display, Formatter};

use serde_json::{Value, json};

use crate::element::Path;
use crate::managed::{Operation, Owner};

/// Why an apply is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ApplyError {
    /// Fields would change that others own.
    #[error("{}", conflict_message(.0))]
    Conflicts(Vec<Conflict>),
    /// The request is not one for this endpoint.
    #[error("{0}")]
    BadRequest(String),
    /// The applied object is not of its type: unknown fields, values of another type, items that share a key.
    #[error("{0}")]
    Invalid(String),
    /// The object nests deeper than [`MAX_DEPTH`](crate::MAX_DEPTH).
    #[error("object nests deeper than {} levels", crate::MAX_DEPTH)]
    TooDeep,
}

impl ApplyError {
    /// The error as the `metav1.Status` that the real server answers with.
    pub fn status(&self) -> Value {
        let (code, reason) = match self {
            Self::Conflicts(_) => (409, "Conflict"),
            Self::BadRequest(_) | Self::TooDeep => (400, "BadRequest"),
            Self::Invalid(_) => (500, ""),
        };
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.to_string(), "code": code,
        });
        if !reason.is_empty() {
            status["reason"] = reason.into();
        }
        if let Self::Conflicts(conflicts) = self {
            status["details"] = json!({"causes": conflicts.iter().map(Conflict::cause).collect::<Vec<_>>()});
        }
        status
    }
}

/// A field that someone else owns and an apply would change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// The field manager that owns it.
    pub manager: String,
    /// How the manager came to own it.
    pub operation: Operation,
    /// The version that the manager wrote in.
    pub api_version: String,
    /// The subresource that it wrote through, or empty.
    pub subresource: String,
    /// The field.
    pub path: Path,
}

impl Conflict {
    pub(crate) fn new(owner: &Owner, path: Path) -> Self {
        Self {
            manager: owner.manager.clone(),
            operation: owner.operation,
            api_version: owner.api_version.clone(),
            subresource: owner.subresource.clone(),
            path,
        }
    }

    /// The owner, as messages name it: `"kubectl-client-side-apply" using apps/v1`.
    fn owner(&self) -> String {
        let through = match self.subresource.as_str() {
            "" => String::new(),
            subresource => format!(" with subresource {subresource:?}"),
        };
        let using = match self.operation {
            Operation::Apply => String::new(),
            Operation::Update => format!(" using {}", self.api_version),
        };
        format!("{:?}{through}{using}", self.manager)
    }

    /// The conflict as a cause in the details of a `Status`.
    pub fn cause(&self) -> Value {
        json!({
            "reason": "FieldManagerConflict",
            "message": format!("conflict with {}", self.owner()),
            "field": self.path.to_string(),
        })
    }
}

impl Display for Conflict {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "conflict with {}: {}", self.owner(), self.path)
    }
}

fn conflict_message(conflicts: &[Conflict]) -> String {
    if let [conflict] = conflicts {
        return format!("Apply failed with 1 conflict: {conflict}");
    }
    let lines = conflicts.chunk_by(|a, b| a.owner() == b.owner()).flat_map(|of_one| {
        let heading = format!("conflicts with {}:", of_one[0].owner());
        std::iter::once(heading).chain(of_one.iter().map(|conflict| format!("- {}", conflict.path)))
    });
    format!("Apply failed with {} conflicts: {}", conflicts.len(), lines.collect::<Vec<_>>().join("\n"))
}
