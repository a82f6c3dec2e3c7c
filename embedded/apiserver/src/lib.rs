//! A Kubernetes API in one process: for one machine, and for tests. Never what production runs on.
//!
//! ```text
//! connection ─► who is it? ─► what is asked? ─► may they? ─► verb ─► admission ─► store ─► watches
//! http_server.rs  auth           path.rs        policy      verbs/   admission/    c5c3-store
//! ```
//!
//! Storage, field ownership, the built-in kinds and security are crates of their own; this one is the server between
//! them, and the controllers without which an API is not usable: CRDs, garbage collection, namespaces, service accounts.
//!
//! Bodies may be protobuf; answers are JSON. What only a node knows (logs, exec, port-forward) is fetched from it, by
//! way of `nodes/`. Not served: the aggregation layer. Requests for
//! certificates are kept, and approved by whoever may write their `approval`; no one signs them.

#![cfg_attr(not(test), warn(clippy::unwrap_used))]

mod access;
mod admission;
mod allowed;
mod call;
mod config;
mod controllers;
mod conversion;
mod documents;
mod duplicates;
mod http_server;
mod in_flight;
mod metrics;
mod nodes;
mod object;
mod openapi;
mod path;
mod patience;
mod quotas;
mod registry;
mod reply;
mod reviews;
mod selector;
mod server;
mod services;
mod status;
mod verbs;
mod wording;

pub use config::{Config, Storage};
pub use http_server::{Listening, ServeError, listen};
pub use path::{Asked, Query, Target, verb};
pub use server::{Server, StartError};
pub use status::{ApiError, Reason};
