//! The agent of a hypervisor. It asks libvirt, over its socket and without its C library, what the host has and which
//! instances are on it, and writes that into the node's Hypervisor; it follows migrations in Migration objects. It reports guests
//! that crash and does nothing about them: the operator of high availability, which has a credential of Nova, starts them again.
//!
//! ```text
//!  libvirtd ── /run/libvirt/libvirt-sock ──► connection ─► facts ─► status ─► publish ─► Hypervisor
//!     └ events ──┬─► failures ──────────────────┘
//!                └─► migrations ────────────────────────────────────────────► Migration
//! ```
//!
//! The agent writes its own fields and the condition `LibVirtConnection`, and only when they change. Everything else in a
//! Hypervisor belongs to the operator.

#![cfg_attr(not(test), warn(clippy::unwrap_used))]

mod access;
mod agent;
mod allocation;
mod connection;
mod facts;
mod failures;
mod metrics;
mod migrations;
mod os;
mod progress;
mod protocol;
#[cfg(test)]
mod tests;
mod topology;
mod xdr;

pub use access::access;
pub use agent::{CONNECTION, MANAGER, Options, run};
pub use metrics::NodeMetrics;
