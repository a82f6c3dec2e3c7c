//! What OpenStack services have in common. A service is a description here, not a program: an operator says which
//! database, options, pods and steps its service has, and this crate makes the objects of them.
//!
//! ```text
//!  spec ─► database, cache, dependencies ─► what is needed, what is waited for
//!       ─► catalogue, config, policy     ─► files, or every mistake in them
//!       ─► release, image, upgrade       ─► which way to a version, or why there is none
//!       ─► pod, wsgi, api, job           ─► Deployment, Service, budgets, policies, Jobs
//! ```
//!
//! It knows OpenStack and knows no service by name, but for the lists of each release: versions ([`release`]), options and
//! policies ([`Catalogue`]).

#![cfg_attr(not(test), warn(clippy::unwrap_used))]

pub mod api;
pub mod backup;
pub mod cache;
pub mod catalogue;
pub mod config;
pub mod database;
pub mod dependencies;
pub mod image;
pub mod instance;
pub mod job;
mod nearest;
pub mod network;
pub mod outside;
pub mod pod;
pub mod policy;
pub mod release;
pub mod tls;
pub mod upgrade;
pub mod wsgi;

pub use catalogue::Catalogue;
pub use instance::Instance;
