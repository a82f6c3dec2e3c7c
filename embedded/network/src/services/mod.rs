//! Services: connections to a Service's addresses go to its endpoints, as kube-proxy has it.
//!
//! ClusterIP, NodePort, externalIPs and load balancer addresses; TCP, UDP and SCTP; session affinity by client address;
//! internal and external traffic policies; endpoints that are terminating when no others are left. A Service without
//! endpoints refuses. Not done: topology hints, `loadBalancerSourceRanges`, health check ports of load balancers, and
//! NodePorts at loopback addresses (kube-proxy's nftables mode has none either).

mod backends;
mod flows;
mod render;

use std::net::Ipv4Addr;

use ipnet::Ipv4Net;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::Client;
use tokio_util::sync::CancellationToken;

use crate::balancers::Pool;
use crate::mirror::Mirrors;
use crate::namespace::Namespace;
use crate::table::Table;

pub(crate) use backends::{Slices, address, is_ready};
pub use flows::Frontends;
pub use render::{Rules, render};

/// The place in the network that rules are for: a node, or the machine itself, which is none.
#[derive(Clone, Debug)]
pub struct Place {
    /// The name of the table that holds the rules; no one else writes there.
    pub table: String,
    /// The node whose endpoints are local.
    pub node: Option<String>,
    /// The addresses of this place, where NodePorts are served.
    pub node_addresses: Vec<Ipv4Addr>,
    /// The addresses of this node's pods: their connections come from within the cluster.
    pub pods: Option<Ipv4Net>,
    /// The addresses of load balancers that this place serves. A node serves those of every Service; the machine serves
    /// those of its own pool, because a Service's address must not catch connections of programs that know nothing of the
    /// cluster.
    pub balancers: Option<Pool>,
    /// Where ClusterIPs come from: what is there and belongs to no Service is refused instead of routed somewhere.
    pub services: Ipv4Net,
}

/// Keeps the rules of a namespace as Services and EndpointSlices say, until told to stop. The rules stay.
pub async fn run(client: Client, namespace: Namespace, place: Place, stop: CancellationToken) {
    let mirrors = Mirrors::new(client, stop);
    let services = mirrors.of::<Service>();
    let slices = mirrors.of::<EndpointSlice>();
    if !(mirrors.filled(&services).await && mirrors.filled(&slices).await) {
        return;
    }
    let mut table = Table::new(namespace.clone());
    let mut udp = Frontends::default();
    loop {
        let rules = render(&place, &services.state(), &slices.state());
        match table.load(rules.ruleset).await {
            Ok(()) => {
                flows::end_stale(&namespace, &udp, &rules.udp).await;
                udp = rules.udp;
            }
            Err(error) => {
                tracing::error!(%error, table = place.table, "the rules of Services could not be written");
                mirrors.retry().await;
            }
        }
        if !mirrors.changed().await {
            return;
        }
    }
}
