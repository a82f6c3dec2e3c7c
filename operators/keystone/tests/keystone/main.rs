//! Keystone objects: their plans, every field of them, and their life on a cluster.

mod fields;
mod keys;
mod life;
mod plans;
mod previews;
mod rights;
mod rotations;
mod runs;
mod scaling;
mod schemas;
mod upgrades;
mod world;
