//! Stages for tests of services: what is there beside an object when a plan is made for it, and a cluster with everybody else
//! on it.

mod common;
mod fields;
mod installs;
mod mortal;
mod stage;
mod upgrades;
mod world;

pub use common::{COMMON, SIGNS_IN, common_at, everything};
pub use fields::{Becomes, Row, leaves, merge, outcome};
pub use mortal::Mortal;
pub use stage::{Jobs, PATIENCE, Running, Said, Stage, ready_is};
pub use world::{BackingObjects, World, file, ready, secret, waits};
