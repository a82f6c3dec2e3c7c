//! The agent beside a real Open vSwitch in userspace, and a whole API server. Needs root and the programs of the package
//! `openvswitch-switch`; without them the tests say so and end.

mod capture;
mod node;
mod stale;
mod switch;
