//! The agent of Open vSwitch on a node. It watches the switch's database over its socket, asks the daemons beside it, and
//! writes what it sees, and what is wrong with it, into the node's OVSNode.
//!
//! ```text
//!  ovsdb-server ── db.sock ────────► rows ─► switch ─┬─► findings ─► conditions, issues ─┐
//!  ovs-vswitchd ── *.mgmt, *.ctl ──► flows, versions ┤                                   ├─► publish ─► OVSNode
//!  ovn-controller ── *.ctl ────────► connected ──────┴─► status ─────────────────────────┘
//! ```

#![cfg_attr(not(test), warn(clippy::unwrap_used))]

mod access;
mod agent;
mod capture;
mod database;
mod health;
mod metrics;
mod openflow;
mod rpc;
mod stale;
mod status;
mod trace;

pub use access::access;
pub use agent::{MANAGER, Options, run};
pub use capture::{CaptureError, CaptureOptions, Captured, Ended, capture};
pub use metrics::OvsMetrics;
pub use openflow::OpenFlowError;
pub use rpc::RpcError;
pub use trace::trace;
