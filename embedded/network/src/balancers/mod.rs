//! Addresses for Services of type LoadBalancer: each gets one that this machine reaches or, if the machine exposes one of
//! its own addresses, that one, as long as no two Services want the same port of it.
//!
//! A Service that names a `loadBalancerClass` is left to whoever implements it.

mod allocate;
mod listeners;

use std::net::Ipv4Addr;
use std::sync::Arc;

use c5c3_events::Events;
use ipnet::Ipv4Net;
use k8s_openapi::api::core::v1::Service;
use kube::api::{Api, Patch, PatchParams};
use kube::{Client, ResourceExt};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::mirror::Mirrors;
use allocate::{Decision, allocate};

/// The addresses that load balancers can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pool {
    /// One for each Service, which only this machine and its nodes reach.
    Range(Ipv4Net),
    /// An address of this machine that its neighbours reach; Services share it by their ports.
    Exposed(Ipv4Addr),
}

impl Pool {
    /// Whether an address is one of these.
    pub fn contains(&self, address: Ipv4Addr) -> bool {
        match self {
            Self::Range(range) => range.contains(&address),
            Self::Exposed(exposed) => *exposed == address,
        }
    }
}

/// Gives addresses to Services, and takes them back, until told to stop.
pub async fn run(client: Client, pool: Pool, stop: CancellationToken) {
    let mirrors = Mirrors::new(client.clone(), stop);
    let services = mirrors.of::<Service>();
    if !mirrors.filled(&services).await {
        return;
    }
    let events = Events::new(client.clone(), "service-controller");
    loop {
        let taken = listeners::taken(pool);
        let mut failed = false;
        for (service, decision) in allocate(pool, &services.state(), &taken) {
            failed |= apply(&client, &events, &service, &decision).await.is_err();
        }
        if failed {
            mirrors.retry().await;
        }
        if !mirrors.changed().await {
            return;
        }
    }
}

async fn apply(
    client: &Client,
    events: &Events,
    service: &Arc<Service>,
    decision: &Decision,
) -> Result<(), kube::Error> {
    let status = match decision {
        Decision::Give(address) => json!({"ingress": [{"ip": address, "ipMode": "VIP"}]}),
        Decision::Take => json!({"ingress": null}),
        Decision::Refuse(why) => {
            events.warning(&**service, "SyncLoadBalancerFailed", why.clone()).await;
            return Ok(());
        }
    };
    let api = Api::<Service>::namespaced(client.clone(), &service.namespace().unwrap_or_default());
    let patch = json!({"status": {"loadBalancer": status}});
    match api.patch_status(&service.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await {
        Ok(_) => {
            if let Decision::Give(address) = decision {
                let message = format!("Ensured load balancer at {address}");
                events.normal(&**service, "EnsuredLoadBalancer", message).await;
            }
            Ok(())
        }
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        Err(error) => {
            tracing::warn!(%error, service = service.name_any(), "cannot give a load balancer its address");
            Err(error)
        }
    }
}
