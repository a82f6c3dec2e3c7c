//! Typed operations on whole objects: which fields there are, what differs, merging, removing, checking.

mod check;
mod compare;
mod fields;
mod merge;
mod reconcile;
mod remove;
mod unclaimed;

pub(crate) use check::check;
pub(crate) use compare::{Comparison, compare};
pub(crate) use fields::{every_path, field_set};
pub use merge::merge_into;
pub(crate) use reconcile::{is_current, reconcile};
pub(crate) use remove::remove;
pub(crate) use unclaimed::unclaimed;
