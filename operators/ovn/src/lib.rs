//! OVN: two databases that agree by Raft, northd between them, and Open vSwitch and ovn-controller on each hypervisor.
//!
//! ```text
//!  Neutron ─► ovn-nb (Raft) ─► northd ─► ovn-sb (Raft) ─► ovn-controller ─► Open vSwitch   on each hypervisor
//!                │                          │
//!                └── control.py beside each member tells its state and takes orders, through the API server
//! ```
//!
//! - [`raft`] decides what the members of a database do next, from what they say: pure, and where two clusters of one database
//!   are kept from coming into being.
//! - [`remote`] asks them and gives them orders.
//! - [`cluster`] and [`chassis`] are the controllers of the two kinds.

#![cfg_attr(not(test), warn(clippy::unwrap_used))]

mod chassis;
mod cluster;
mod daemons;
mod database;
mod layout;
mod nodes;
mod northd;
mod raft;
mod remote;
mod tls;

#[cfg(test)]
mod tests;

use c5c3_kit::Operator;

/// The operator's name.
pub const NAME: &str = "ovn-operator";

/// The operator. Everything that an OVNCluster has is in its own namespace, so that there is nothing to allow.
pub fn operator(_cross_namespace: bool) -> Operator {
    Operator::new(NAME).controller(|| cluster::Clusters).controller(|| chassis::AllChassis)
}
