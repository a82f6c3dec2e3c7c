//! The one-machine cluster: its data folder, its process tree, how it is started, ended and examined.
//!
//! ```text
//! c5c3 up ─┬─ API server, controllers, scheduler, names      (this process, the machine's network)
//!          ├─ c5c3 node-agent ── containerd ── containers    (a process for each node, in its own network)
//!          └─ c5c3 node-agent ── containerd ── containers
//! ```
//!
//! Everything that outlives a start is in the data folder; everything else that is made on the machine carries the
//! cluster's name, and is removed when the cluster ends. Killed at any moment, the next start finds the containers again.

#![cfg_attr(not(test), warn(clippy::unwrap_used))]

mod addresses;
pub mod agent;
mod agents;
mod archive;
mod client;
mod control;
mod descriptors;
pub mod doctor;
mod down;
mod folder;
mod furnish;
mod issuer;
mod logs;
mod nics;
mod node;
mod parts;
mod remains;
#[cfg(test)]
mod soak;
mod up;

pub use archive::{ArchiveError, backup, restore};
pub use control::Ask;
pub use down::{DownError, down};
pub use folder::{Folder, FolderError};
pub use node::{Asked, MOST_NODES, Mark};
pub use remains::Left;
pub use up::{Cluster, Exposure, Options, UpError};

/// Asks the process that runs the cluster of a folder to change a node.
pub async fn ask(folder: &Folder, ask: &Ask) -> Result<String, String> {
    control::ask(&folder.control(), ask).await
}
