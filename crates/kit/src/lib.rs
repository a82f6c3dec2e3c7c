//! How an operator is written here.
//!
//! A reconcile is five steps: read, validate, plan, apply, report. An operator supplies what to read and two pure
//! functions, [`Controller::validate`] and [`Controller::plan`]; everything that talks to Kubernetes is in this crate.
//! It knows Kubernetes and knows no OpenStack service.
//!
//! ```text
//! watch ─► queue ─► read ─► validate ─► plan ─► apply ─► report
//!                    │          │         │        │        └ conditions, waits, events, metrics
//!                    │          │         │        └ server-side apply step by step, prune what is no longer wanted
//!                    │          │         └ pure: the complete set of children, in order
//!                    │          └ pure: proof that the input is good, or every problem at once
//!                    └ the object and all that it refers to, watched by name from then on
//! ```

#![cfg_attr(not(test), warn(clippy::unwrap_used))]

pub mod access;
pub mod apply;
pub mod apply_cache;
pub mod backoff;
mod child;
pub mod children;
pub mod client;
pub mod cluster_domain;
pub mod condition;
pub mod config;
pub mod controller;
pub mod error;
pub mod events;
pub mod finalizer;
mod guard;
pub mod hash;
pub mod http;
pub mod ini;
pub mod inputs;
pub mod job;
mod job_order;
pub mod leader;
pub mod logging;
mod managed_fields;
pub mod metrics;
pub mod object;
mod observe;
pub mod operator;
pub mod ownership;
pub mod plan;
mod plan_check;
mod presence;
pub mod preview;
pub mod probe;
pub mod probes;
mod prune;
pub mod random_secret;
pub mod readiness;
mod reading;
pub mod reconcile;
mod refusal;
pub mod remote;
pub mod report;
pub mod resilient_watch;
mod resync;
pub mod retention;
mod retry;
pub mod run;
pub mod summary;
#[cfg(feature = "testing")]
pub mod testing;
pub mod wait;
pub mod watches;
pub mod webhook;
mod write;
pub mod write_limit;

pub use access::Access;
pub use controller::{Controller, Verdict};
pub use error::Error;
pub use inputs::Inputs;
pub use object::{KindRef, Ref};
pub use operator::{Hook, Operator, Settings, Task};
pub use plan::{Child, Node, Plan, Step, StepName};
pub use probe::Probe;
pub use remote::{Call, Farewell, Question, Remote, RemoteHandle};
pub use summary::Summary;
pub use wait::Wait;
