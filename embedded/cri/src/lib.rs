//! A node's container runtime: the client of the Container Runtime Interface (CRI).
//!
//! [`Runtime`] has one method for each call of the interface that a kubelet makes; [`v1`] holds the messages.

mod runtime;

pub use runtime::{CallError, Runtime};

/// The messages of the CRI, version 1, as generated from `proto/v1.proto`, where they are documented. The protocol is
/// the one of Kubernetes' `cri-api`; fields that an older containerd does not know are ignored by it.
#[allow(missing_docs, clippy::all, clippy::pedantic)]
pub mod v1 {
    include!(concat!(env!("OUT_DIR"), "/runtime.v1.rs"));
}
