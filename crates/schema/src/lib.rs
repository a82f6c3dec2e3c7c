//! What a Kubernetes API server does with a CRD's structural `openAPIV3Schema`: find and prune unknown fields, apply
//! defaults, validate values, lists and CEL rules; and, when a CRD is installed, refuse a schema it could not serve.
//!
//! ```
//! use serde_json::json;
//!
//! let schema = c5c3_schema::Schema::compile(&json!({
//!     "type": "object",
//!     "properties": {"spec": {"type": "object", "properties": {
//!         "replicas": {"type": "integer", "minimum": 1, "default": 3},
//!     }}},
//! }))?;
//! let problems = schema.check(&json!({"spec": {"replicsa": 2, "replicas": 0}}), None);
//! assert_eq!(
//!     problems.sorted().to_string(),
//!     "spec.replicas: 0 is below the minimum; use 1 or more\n\
//!      spec.replicsa: is not a known field; did you mean \"replicas\"?",
//! );
//! # Ok::<(), c5c3_schema::CompileError>(())
//! ```
//!
//! The behaviour follows apiextensions-apiserver of Kubernetes 1.34, the wording does not: a message names the value
//! and the way out. What an update leaves unchanged is not held against it (`CRDValidationRatcheting`).
//!
//! CEL comes from the `cel` and `kube-cel` crates, which bring the language and Kubernetes' functions. kube-cel's own
//! validator is not used: it matches list items with their old selves by position, escapes `a_b` as `a__b`, knows no
//! optionals and hands rules the whole of `metadata`. Walking the object, binding `self` and `oldSelf`, escapes,
//! correlation with the old object, `fieldPath`, `messageExpression`, `reason` and `optionalOldSelf` are done here.
//! Known differences from a real API server:
//!
//! - Compiling a schema parses its rules; [`lint_structure`] finds their types and [`lint_cost`] their costs, as an API
//!   server does. What running them costs is counted, too, if not to the last unit as it is counted there; a rule may
//!   cost a million and an object ten million, and what costs more is refused.
//! - `cel.bind`, `math` and `base64` run, although Kubernetes has none of them; the lint says so.
//! - `sortBy`, comprehensions of two variables and the `authorizer` library are not there; a rule that uses them
//!   refuses every object rather than none.
//! - The metadata of embedded resources is not checked, as that of the root is not: both are the caller's.

#![cfg_attr(not(test), warn(clippy::unwrap_used))]

mod cel;
mod compile;
mod default;
mod format;
mod lint;
mod node;
mod path;
mod problem;
mod prune;
mod schema;
mod unique;
mod validate;
mod words;

pub use cel::{Budget, EvaluationError, Expression, Outcome, Variables};
pub use compile::CompileError;
pub use lint::{lint, lint_cost, lint_structure};
pub use problem::{Problem, ProblemKind, Problems};
pub use schema::Schema;
