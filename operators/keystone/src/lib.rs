//! The operator of Keystone: what is Keystone's own. What it shares with other services is in `c5c3-service`.
//!
//! ```text
//!  restore ─► keys ─┬─► api
//!                   ├─► bootstrap
//!                   └─► credentials
//! ```

#![cfg_attr(not(test), warn(clippy::unwrap_used))]

mod bootstrap;
mod config;
mod credentials;
mod describe;
mod filters;
pub mod keys;
mod repositories;
mod rotation;

use c5c3_kit::Operator;
use c5c3_service::ServiceController;

pub use describe::Identity;

/// The field manager, and the value of the ownership label. It must never change.
pub const NAME: &str = "keystone-operator";

/// The controller of Keystone objects.
pub type Keystones = ServiceController<Identity>;

/// The operator. Everything that a Keystone has is in its own namespace, so that there is nothing to allow.
pub fn operator(_cross_namespace: bool) -> Operator {
    Operator::new(NAME).controller(Keystones::default)
}
