//! The controllers on a whole API server, with a pretended node: after upstream's conformance specs.

mod daemon_sets;
mod deployments;
mod fixtures;
mod jobs;
mod nodes;
mod replica_sets;
mod services;
mod start;
mod stateful_sets;
mod volumes;
