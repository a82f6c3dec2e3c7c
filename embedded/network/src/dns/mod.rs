//! The cluster's DNS server: Kubernetes' DNS-based service discovery, version 1.1.0.
//!
//! Authoritative for the cluster's domain and for the reverse names of what it knows; everything else is asked of the
//! machine's resolvers. Names of Services, of their endpoints and named ports, and of pods by address. Where the
//! specification is silent, answers are CoreDNS's: endpoints without a hostname are named after their address, and have
//! reverse names as well; pods by address are not checked (`pods insecure`).

mod answer;
mod server;
mod upstream;
mod zone;

use std::path::Path;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Namespace, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::Client;
use thiserror::Error;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::mirror::Mirrors;

pub use answer::{Answer, answer};
pub use server::Listener;
pub use upstream::Upstream;
pub use zone::Zone;

/// Why names cannot be served.
#[derive(Debug, Error)]
pub enum DnsError {
    /// The domain is no name.
    #[error("{domain} is not the name of a domain")]
    Domain {
        /// What was given.
        domain: String,
        /// What is wrong with it.
        source: hickory_proto::ProtoError,
    },
}

/// Where the machine's resolvers are written.
pub const RESOLV_CONF: &str = "/etc/resolv.conf";

/// Answers queries until told to stop.
pub async fn run(
    client: Client,
    listener: Listener,
    domain: &str,
    upstream: Upstream,
    stop: CancellationToken,
) -> Result<(), DnsError> {
    let origin = zone::origin(domain).map_err(|source| DnsError::Domain { domain: domain.to_owned(), source })?;
    let mirrors = Mirrors::new(client, stop.clone());
    let services = mirrors.of::<Service>();
    let slices = mirrors.of::<EndpointSlice>();
    let namespaces = mirrors.of::<Namespace>();
    if !(mirrors.filled(&services).await && mirrors.filled(&slices).await && mirrors.filled(&namespaces).await) {
        return Ok(());
    }
    let build = |serial| {
        let names: Vec<_> = namespaces.state().iter().filter_map(|object| object.metadata.name.clone()).collect();
        Arc::new(Zone::build(&origin, serial, &names, &services.state(), &slices.state()))
    };
    let (publish, zone) = watch::channel(build(1));
    let keep_current = async {
        for serial in 2.. {
            if !mirrors.changed().await {
                return;
            }
            publish.send_replace(build(serial));
        }
    };
    tokio::join!(keep_current, server::serve(listener, zone, upstream, stop));
    Ok(())
}

impl Upstream {
    /// The resolvers of this machine, without the address that we listen on ourselves.
    pub fn of_this_machine(listener: &Listener) -> Self {
        let text = std::fs::read_to_string(Path::new(RESOLV_CONF)).unwrap_or_default();
        Self::parse(&text).without(listener.address())
    }
}
