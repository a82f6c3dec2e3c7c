//! Who owns which field of a Kubernetes object, and the four ways to patch one: server-side apply with real
//! `managedFields`, JSON patch, JSON merge patch, strategic merge patch. Pure functions over JSON.
//!
//! ```
//! use c5c3_fields::{Scope, Shape, Writer, apply};
//! use serde_json::json;
//!
//! let shape = Shape::compile(&json!({"type": "object", "properties": {
//!     "spec": {"type": "object", "properties": {"replicas": {"type": "integer"}}},
//! }}));
//! let writer = |manager| Writer {
//!     manager, api_version: "apps/v1", subresource: "", now: "2026-01-31T12:00:00Z", scope: Scope::Without(&["status"]),
//! };
//! let config = |replicas: u32| json!({
//!     "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {"replicas": replicas},
//! });
//! let live = apply(&shape, None, &config(3), &writer("kustomize"), false)?;
//! assert_eq!(live["metadata"]["managedFields"][0]["fieldsV1"], json!({"f:spec": {"f:replicas": {}}}));
//!
//! let refused = apply(&shape, Some(&live), &config(5), &writer("autoscaler"), false).unwrap_err();
//! assert_eq!(
//!     refused.to_string(),
//!     "Apply failed with 1 conflict: conflict with \"kustomize\": .spec.replicas",
//! );
//! # Ok::<(), c5c3_fields::ApplyError>(())
//! ```
//!
//! The behaviour is that of structured-merge-diff v6 and the field managers of Kubernetes 1.34, down to messages and
//! the order of entries. The order of work in a request is the caller's, and matters:
//!
//! - **create, update, patch**: decode, patch, set defaults, reset the fields outside of the endpoint's scope,
//!   [`track_update`], admission, validation, [`settle`], store unless nothing changed.
//! - **apply**: [`apply`], set defaults, reset, admission, validation, [`settle`], store unless nothing changed.
//! - **scale**: through the parent object, with `subresource: "scale"` and the replicas where the parent has them.
//!
//! Where this differs from a real API server:
//!
//! - One shape serves all versions of a kind, as with conversion strategy `None`. Entries of versions that are no longer
//!   served are kept, not dropped.
//! - A live object or a recorded owner that names fields which the schema no longer declares is no error; the fields
//!   count as deduced.
//! - An owner of a declared object that is not empty is not taken for an owner of everything in it when its type may
//!   have been atomic before. Upstream does, and then two managers that apply the same things forever can keep changing
//!   who owns what.
//! - A list or object that loses its last item while someone still owns the container stays as `[]` or `{}`, where the
//!   real server leaves a null in custom resources.
//! - A list that a configuration empties stays as `[]`, where the real server removes it and puts it back with the next
//!   apply of the same configuration.
//! - `fieldsV1` is a JSON value; the order of its keys is that of `serde_json::Map`, not that of the items' keys.
//! - Client-sent `managedFields` with times in another form than `2026-01-31T12:00:00Z` count as unreadable.
//! - Quantities are strings like any other: give them `x-kubernetes-int-or-string` if numbers should be accepted too.

mod apply;
mod conflict;
mod depth;
mod element;
mod fieldsv1;
mod last_applied;
mod managed;
mod object;
mod patch;
mod scalar;
mod set;
mod shape;
mod update;
mod writer;

pub use apply::apply;
pub use conflict::{ApplyError, Conflict};
pub use depth::MAX_DEPTH;
pub use element::{Element, Path};
pub use fieldsv1::FieldsV1Error;
pub use managed::Operation;
pub use object::merge_into as merge;
pub use patch::{PatchError, json_patch, merge_patch, strategic_merge_patch};
pub use set::FieldSet;
pub use shape::Shape;
pub use update::{settle, track_update};
pub use writer::{Scope, Writer};
