//! The machine with a simulated clock, and golden plans.

mod clock;
mod plans;
