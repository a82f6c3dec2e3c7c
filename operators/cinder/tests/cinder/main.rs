//! Cinder objects: their plans, every field of them, and their life on a cluster.

mod fields;
mod life;
mod plans;
mod upgrades;
