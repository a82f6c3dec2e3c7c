//! The operator of Keystone: what is Keystone's own. What it shares with other services is in `c5c3-service`.
//!
//! ```text
//!  keys ──────────────┬─► deployment ─┬─► contract
//!  config ────────────┤               └─► health
//!  database ─► schema ┼─► bootstrap ────►
//!                     └─► credentials
//! ```

#![cfg_attr(not(test), warn(clippy::unwrap_used))]

mod config;
mod controller;
mod filters;
mod jobs;
pub mod keys;
mod parts;
mod retention;
mod rotation;
mod steps;

use c5c3_kit::Operator;

pub use controller::Keystones;

/// The field manager, and the value of the ownership label. It must never change.
pub const NAME: &str = "keystone-operator";

/// The operator. Everything that a Keystone has is in its own namespace, so that there is nothing to allow.
pub fn operator(_cross_namespace: bool) -> Operator {
    Operator::new(NAME).controller(|| Keystones)
}
