//! Endpoints that someone else writes for a Service without a selector: mirrored into slices, and cleaned up after it.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{EndpointAddress, EndpointPort, Endpoints, Service};
use k8s_openapi::api::discovery::v1::{self, Endpoint, EndpointConditions, EndpointSlice};
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, Preconditions};
use kube::runtime::reflector::ObjectRef;

use super::desired::{self, ByPorts, FAMILIES};
use super::slices::{self, Frame, MANAGED_BY, SERVICE};
use super::{has_selector, legacy};
use crate::context::Context;
use crate::error::{Error, is_gone};
use crate::queue::Again;
use crate::watched::{Watched, live};
use crate::{owners, queue};

const MIRROR: &str = "endpointslicemirroring-controller.k8s.io";
/// Asks for an object to be left alone.
const SKIP: &str = "endpointslice.kubernetes.io/skip-mirror";
/// What used to elect leaders is no Service.
const LEADER: &str = "control-plane.alpha.kubernetes.io/leader";

/// Mirrors until the context says stop.
pub(super) async fn run(context: Context, services: &Watched<Service>, slices: &Watched<EndpointSlice>) {
    let all = Watched::<Endpoints>::default();
    let of_service = services.concerning(|change| {
        change.versions().map(|service| named(service.as_ref())).collect::<Vec<ObjectRef<Endpoints>>>()
    });
    let of_slice = slices.owners::<Endpoints>();
    let controller = all.controller().reconcile_on(of_service).reconcile_on(of_slice);
    tokio::join!(all.follow(&context), queue::run(controller, context.clone(), reconcile));
}

fn named(service: &Service) -> ObjectRef<Endpoints> {
    ObjectRef::new(&service.name_any()).within(&service.namespace().unwrap_or_default())
}

async fn reconcile(endpoints: Arc<Endpoints>, context: Context) -> Result<Again, Error> {
    let Some(endpoints) = live(&context.client, endpoints.as_ref()).await? else { return Ok(None) };
    let namespace = endpoints.namespace().unwrap_or_default();
    let services = Api::<Service>::namespaced(context.client.clone(), &namespace);
    let service = services.get_opt(&endpoints.name_any()).await?;
    let Some(service) = service.filter(|service| !owners::is_going(&service.metadata)) else {
        if endpoints.labels().get(legacy::MANAGED_BY).is_some_and(|by| by == legacy::OURS) {
            delete(&context, &endpoints).await?;
        }
        return Ok(None);
    };
    if has_selector(&service) {
        return Ok(None);
    }
    let skipped =
        endpoints.labels().get(SKIP).is_some_and(|skip| skip == "true") || endpoints.annotations().contains_key(LEADER);
    let frames = if skipped { Vec::new() } else { frames(&endpoints) };
    slices::write(&context.client, MIRROR, frames, (&namespace, &endpoints.name_any())).await?;
    Ok(None)
}

async fn delete(context: &Context, endpoints: &Endpoints) -> Result<(), Error> {
    let api = Api::<Endpoints>::namespaced(context.client.clone(), &endpoints.namespace().unwrap_or_default());
    let preconditions = Some(Preconditions { uid: endpoints.uid(), resource_version: None });
    let how = DeleteParams { preconditions, ..DeleteParams::default() };
    match api.delete(&endpoints.name_any(), &how).await {
        Err(error) if !is_gone(&error) => Err(error.into()),
        _ => Ok(()),
    }
}

/// The mirror image, by family. A family without addresses has no slices.
fn frames(endpoints: &Endpoints) -> Vec<(Frame, ByPorts<Endpoint>)> {
    let images = FAMILIES.map(|family| (frame(endpoints, family), mirrored(endpoints, family)));
    images.into_iter().filter(|(_, image)| !image.is_empty()).collect()
}

fn frame(endpoints: &Endpoints, family: &str) -> Frame {
    let mut labels = endpoints.labels().clone();
    labels.insert(SERVICE.into(), endpoints.name_any());
    labels.insert(MANAGED_BY.into(), MIRROR.into());
    let copied = |(key, _): &(&String, &String)| !key.starts_with("kubectl.kubernetes.io/");
    let annotations: BTreeMap<_, _> =
        endpoints.annotations().iter().filter(copied).map(|(key, value)| (key.clone(), value.clone())).collect();
    Frame {
        namespace: endpoints.namespace().unwrap_or_default(),
        service: endpoints.name_any(),
        family: family.into(),
        labels,
        annotations,
        owner: owners::reference(endpoints),
    }
}

fn mirrored(endpoints: &Endpoints, family: &str) -> ByPorts<Endpoint> {
    let mut found = ByPorts::new();
    for subset in endpoints.subsets.iter().flatten() {
        let ports: Vec<v1::EndpointPort> = subset.ports.iter().flatten().map(port).collect();
        let ready = subset.addresses.iter().flatten().map(|address| (address, true));
        let waiting = subset.not_ready_addresses.iter().flatten().map(|address| (address, false));
        for (address, ready) in ready.chain(waiting).filter(|(found, _)| desired::family(&found.ip) == Some(family)) {
            desired::add(&mut found, ports.clone(), endpoint(address, ready));
        }
    }
    found
}

fn endpoint(address: &EndpointAddress, ready: bool) -> Endpoint {
    Endpoint {
        addresses: vec![address.ip.clone()],
        conditions: Some(EndpointConditions { ready: Some(ready), ..EndpointConditions::default() }),
        hostname: address.hostname.clone(),
        node_name: address.node_name.clone(),
        target_ref: address.target_ref.clone(),
        ..Endpoint::default()
    }
}

fn port(port: &EndpointPort) -> v1::EndpointPort {
    v1::EndpointPort {
        name: Some(port.name.clone().unwrap_or_default()),
        port: Some(port.port),
        protocol: port.protocol.clone(),
        app_protocol: port.app_protocol.clone(),
    }
}
