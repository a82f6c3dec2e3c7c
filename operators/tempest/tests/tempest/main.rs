//! Tempest objects: their plans, every field of them, their life on a cluster, and the runner.

mod fields;
mod life;
mod plans;
mod runner;
mod world;
