//! NetworkPolicies: which connections the pods of one node may make and take.
//!
//! Enforced where packets are forwarded in the node's namespace, after Services are translated: rules see pods, as they do
//! on other clusters. Answers follow their connection. The node itself always reaches its own pods, which probes rely
//! on, and its pods always reach it; a pod always reaches itself. Pods with the host's network are the node, and no policy
//! selects them. What is not allowed is dropped.
//!
//! A connection that exists when a policy comes is left alone. A pod is isolated once its address is known to the API;
//! until then, in the first moments of its life, it is not.

mod peers;
mod render;

use std::net::Ipv4Addr;

use k8s_openapi::api::core::v1::{Namespace as KubeNamespace, Pod};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::Client;
use tokio_util::sync::CancellationToken;

use crate::mirror::Mirrors;
use crate::namespace::Namespace;
use crate::table::Table;

pub use render::render;

/// The node that rules are for.
#[derive(Clone, Debug)]
pub struct Place {
    /// The name of the table that holds the rules; no one else writes there.
    pub table: String,
    /// The node whose pods are protected.
    pub node: String,
    /// Where the cluster's DNS server is, which here is no pod: policies take it for the pod `k8s-app=kube-dns` in
    /// `kube-system` that they know from other clusters.
    pub dns: Option<Ipv4Addr>,
}

/// Keeps the rules of a node's namespace as NetworkPolicies say, until told to stop. The rules stay.
pub async fn run(client: Client, namespace: Namespace, place: Place, stop: CancellationToken) {
    let mirrors = Mirrors::new(client, stop);
    let policies = mirrors.of::<NetworkPolicy>();
    let pods = mirrors.of::<Pod>();
    let namespaces = mirrors.of::<KubeNamespace>();
    if !(mirrors.filled(&policies).await && mirrors.filled(&pods).await && mirrors.filled(&namespaces).await) {
        return;
    }
    let mut table = Table::new(namespace);
    loop {
        let ruleset = render(&place, &policies.state(), &pods.state(), &namespaces.state());
        if let Err(error) = table.load(ruleset).await {
            tracing::error!(%error, table = place.table, "the rules of NetworkPolicies could not be written");
            mirrors.retry().await;
        }
        if !mirrors.changed().await {
            return;
        }
    }
}
