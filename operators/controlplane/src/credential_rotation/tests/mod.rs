//! The machine with a simulated clock, and golden plans.

mod ceph;
mod clock;
mod plans;
