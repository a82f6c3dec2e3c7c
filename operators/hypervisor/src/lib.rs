//! The operator of hypervisors: a node with the role becomes a compute host of Nova, is tested, drained and taken out again.
//!
//! | controller | of | writes |
//! |---|---|---|
//! | [`node`] | Node | the Hypervisor of the node: its spec, labels and annotations |
//! | [`host`] | Hypervisor | its status: every condition but those of agents, of high availability and of the two below; its Eviction |
//! | [`eviction`] | Eviction | its status |
//! | [`hold`] | Hypervisor | a pod and a PodDisruptionBudget that hold its machine, and whether they do |
//! | [`certificate`] | Hypervisor | libvirt's Certificate, and whether it is issued |
//!
//! Nova and Placement are reached through one remote, [`cloud`], whose lists answer for all hosts.

#![cfg_attr(not(test), warn(clippy::unwrap_used))]

mod access;
mod certificate;
mod cloud;
mod elsewhere;
mod eviction;
mod hold;
mod host;
mod left_alone;
mod node;
mod settings;
mod unsupported;

use std::sync::Arc;

use c5c3_kit::{Access, Operator, Task};
use c5c3_openstack::{Clients, Options};

use cloud::Cloud;
pub use elsewhere::{certificate_access, event_access, hold_access};
pub use left_alone::{LeftAlone, left_alone};
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
    let (hold, issuer) = (settings.hold.clone(), settings.issuer.clone());
    let (settings, shared) = (Arc::new(settings), cloud);
    let (hosts, evictions) = ((settings.clone(), shared.clone()), (settings, shared));
    let mut operator = Operator::new(NAME)
        .controller(|| node::Nodes)
        .controller(move || host::Hosts::new(hosts.0.clone(), hosts.1.clone()))
        .controller(move || eviction::Evictions::new(evictions.0.clone(), evictions.1.clone()));
    // No rights here: those of `hold_access` and `certificate_access` are bound in the namespaces that the flags name.
    if let Some(hold) = hold {
        operator = operator.task(Access::default(), move |task: Task| {
            let controller = hold::Holds(hold.clone());
            elsewhere::work(task, controller, hold::MANAGER, hold.namespace.clone())
        });
    }
    if let Some(issuer) = issuer {
        operator = operator.task(Access::default(), move |task: Task| {
            let controller = certificate::Certificates(issuer.clone());
            elsewhere::work(task, controller, certificate::MANAGER, issuer.namespace.clone())
        });
    }
    operator
}
