//! A node's container runtime: a private containerd, the client of its Container Runtime Interface (CRI), the images
//! that are made here, and the links that join several nodes on one machine.
//!
//! - [`Programs::find`] says what is missing on the machine.
//! - [`links::Network`] makes the bridge of a cluster, and a network namespace for each of its nodes.
//! - [`Containerd::start`] finds or starts the containerd of a [`Site`]: one node of one cluster ([`Instance`]).
//! - [`Runtime`] has one method for each call of the CRI that a kubelet makes; [`v1`] holds the messages.
//! - [`images`] makes small images, and imports archives.
//! - [`end_node`] and [`links::remove`] leave nothing behind outside the data folder.
//!
//! Every name on the machine holds the instance, so that clusters live side by side. Nothing of a system-wide containerd
//! is touched. IPv4 only.

mod addresses;
mod cgroups;
mod command;
mod config;
mod containerd;
mod exits;
pub mod images;
pub mod links;
mod processes;
mod programs;
mod remains;
mod runtime;
mod site;
mod tasks;
#[cfg(feature = "testing")]
pub mod testing;

pub use addresses::Addresses;
pub use cgroups::{Cgroups, Layout, NoCgroups};
pub use command::CommandError;
pub use config::{Registry, protect_from_oom};
pub use containerd::{Containerd, Settings, StartError};
pub use programs::{Missing, Programs};
pub use remains::{Remains, end_node};
pub use runtime::{CallError, Runtime};
pub use site::{BadName, Instance, Site};

/// The messages of the CRI, version 1, as generated from `proto/v1.proto`, where they are documented. The protocol is
/// the one of Kubernetes' `cri-api`; fields that an older containerd does not know are ignored by it.
#[allow(missing_docs, clippy::all, clippy::pedantic)]
pub mod v1 {
    include!(concat!(env!("OUT_DIR"), "/runtime.v1.rs"));
}
