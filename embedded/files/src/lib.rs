//! Mounts, folders, private files and logs of this machine. Removing a folder never reaches into what is mounted below it: that may be a share
//! with the data of others, which a container has mounted and left behind.

#![cfg_attr(not(test), warn(clippy::unwrap_used))]

mod logs;
mod mounts;
mod private;
mod remove;

pub use logs::{LOG_LIMIT, rotate_log};
pub use mounts::{is_namespace, share, unmount_under};
pub use private::{create_private_folder, write_private};
pub use remove::remove_tree;
