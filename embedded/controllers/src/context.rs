//! What every controller is given.

use std::sync::Arc;

use c5c3_events::Events;
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Client;
use tokio_util::sync::CancellationToken;

use crate::Options;
use crate::watched::Watched;

/// What every controller is given: the API, what is watched once for all, its voice, and when to stop. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Context {
    pub(crate) client: Client,
    pub(crate) options: Arc<Options>,
    pub(crate) stop: CancellationToken,
    /// Events from the controller that has this context.
    pub(crate) events: Events,
    pub(crate) pods: Watched<Pod>,
    pub(crate) nodes: Watched<Node>,
    pub(crate) jobs: Watched<Job>,
    pub(crate) replica_sets: Watched<ReplicaSet>,
}

impl Context {
    pub(crate) fn new(client: Client, options: Options, stop: CancellationToken) -> Self {
        let events = Events::new(client.clone(), "controllers");
        Self {
            client,
            options: Arc::new(options),
            stop,
            events,
            pods: Watched::default(),
            nodes: Watched::default(),
            jobs: Watched::default(),
            replica_sets: Watched::default(),
        }
    }

    /// The context of the controller of that name.
    pub(crate) fn of(&self, component: &'static str) -> Self {
        Self { events: self.events.of(component), ..self.clone() }
    }
}
