//! Mounts, folders and logs of this machine. Removing a folder never reaches into what is mounted below it: that may be a share
//! with the data of others, which a container has mounted and left behind.

#![cfg_attr(not(test), warn(clippy::unwrap_used))]

mod logs;
mod mounts;
mod remove;

pub use logs::{LOG_LIMIT, rotate_log};
pub use mounts::{is_namespace, unmount_under};
pub use remove::remove_tree;
