//! Nova objects: their plans, every field of them, and their life on a cluster.

mod compute_fields;
mod conditions;
mod fields;
mod life;
mod plans;
