//! The operator of hypervisors: a node with the role becomes a compute host of Nova, is tested, drained and taken out again.
//!
//! | controller | of | writes |
//! |---|---|---|
//! | [`node`] | Node | the Hypervisor of the node: its spec, labels and annotations |
//! | [`host`] | Hypervisor | its status: every condition but those of agents and of high availability; its Eviction |
//! | [`eviction`] | Eviction | its status |
//!
//! Nova and Placement are reached through one remote, [`cloud`], whose lists answer for all hosts.

#![cfg_attr(not(test), warn(clippy::unwrap_used))]

mod access;
mod cloud;
mod eviction;
mod host;
mod node;
mod settings;

use std::sync::Arc;

use c5c3_kit::Operator;
use c5c3_openstack::{Clients, Options};

use cloud::Cloud;
pub use settings::{CloudSecret, Drain, Hold, Issuer, Settings, Smoke};

/// The field manager, and the value of the ownership label. It must never change.
pub const NAME: &str = "hypervisor-operator";

/// The label of nodes that are hypervisors.
pub const ROLE: &str = "node-role.kubernetes.io/hypervisor";

/// The operator. Its credential is in the namespace that the settings name, so `cross_namespace` changes nothing.
pub fn operator(_cross_namespace: bool) -> Operator {
    let options = Options::default();
    let metrics = options.metrics.clone();
    with(Clients::new(options), Settings::get()).metrics(move |registry| metrics.register(registry))
}

/// The operator with these clients and settings.
pub fn with(clients: Clients, settings: Settings) -> Operator {
    let cloud = Arc::new(Cloud::new(clients, settings.clone()));
    let (settings, shared) = (Arc::new(settings), cloud);
    let (hosts, evictions) = ((settings.clone(), shared.clone()), (settings, shared));
    Operator::new(NAME)
        .controller(|| node::Nodes)
        .controller(move || host::Hosts::new(hosts.0.clone(), hosts.1.clone()))
        .controller(move || eviction::Evictions::new(evictions.0.clone(), evictions.1.clone()))
}
