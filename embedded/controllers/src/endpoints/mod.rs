//! Services: where their pods are, as EndpointSlices and, for those who still read it, as Endpoints.
//!
//! There are no load balancers on one machine: a Service of that type has endpoints like any other, and waits for an
//! address as it does on bare metal.

mod desired;
mod legacy;
mod mirror;
mod slices;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use futures::StreamExt;
use k8s_openapi::api::core::v1::{Endpoints, Node, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams};
use kube::core::Selector;
use kube::runtime::reflector::{ObjectRef, Store};

use self::desired::Zones;
use self::slices::{Frame, MANAGED_BY, SERVICE};
use crate::context::Context;
use crate::error::{Error, is_gone};
use crate::queue::Again;
use crate::watched::{Change, Watched, live};
use crate::{owners, pods, queue};

const OURS: &str = "endpointslice-controller.k8s.io";
const ZONE: &str = "topology.kubernetes.io/zone";

/// Looks after Services until the context says stop.
pub(crate) async fn run(context: Context) {
    let (services, slices) = (Watched::<Service>::default(), Watched::<EndpointSlice>::default());
    tokio::join!(
        services.follow(&context),
        slices.follow(&context),
        look_after(context.clone(), &services, &slices),
        mirror::run(context.clone(), &services, &slices),
        clean_up(context.clone(), &services),
    );
}

async fn look_after(context: Context, services: &Watched<Service>, slices: &Watched<EndpointSlice>) {
    let known = services.store();
    let of_pods = context.pods.concerning(move |change| concerned(&known, change));
    let controller = services.controller().reconcile_on(of_pods).reconcile_on(slices.owners());
    queue::run(controller, context, reconcile).await;
}

/// The Services that a change of a pod concerns.
fn concerned(services: &Store<Service>, change: &Change<Pod>) -> Vec<ObjectRef<Service>> {
    if let (Some(before), Some(now)) = (&change.before, &change.now)
        && desired::facts(before) == desired::facts(now)
    {
        return Vec::new();
    }
    let selects = |service: &Arc<Service>| {
        let selector = service.spec.as_ref().and_then(|spec| spec.selector.as_ref()).filter(|all| !all.is_empty());
        selector.is_some_and(|selector| {
            change.versions().any(|pod| {
                let carries = |(key, value): (&String, &String)| pod.labels().get(key) == Some(value);
                pod.namespace() == service.namespace() && selector.iter().all(carries)
            })
        })
    };
    services
        .state()
        .iter()
        .filter(|service| selects(service))
        .map(|service| ObjectRef::from_obj(service.as_ref()))
        .collect()
}

/// The Endpoints of a Service that is gone go with it, whoever wrote them.
async fn clean_up(context: Context, services: &Watched<Service>) {
    let mut changes = std::pin::pin!(services.changes());
    while let Some(Some(change)) = context.stop.run_until_cancelled(changes.next()).await {
        let (None, Some(gone)) = (&change.now, &change.before) else { continue };
        let api = Api::<Endpoints>::namespaced(context.client.clone(), &gone.namespace().unwrap_or_default());
        match api.delete(&gone.name_any(), &DeleteParams::default()).await {
            Err(error) if !is_gone(&error) => tracing::warn!(name = gone.name_any(), %error, "endpoints stay behind"),
            _ => {}
        }
    }
}

/// Whether a Service finds its pods by itself.
fn has_selector(service: &Service) -> bool {
    service.spec.as_ref().and_then(|spec| spec.selector.as_ref()).is_some_and(|selector| !selector.is_empty())
}

async fn reconcile(service: Arc<Service>, context: Context) -> Result<Again, Error> {
    let Some(service) = live(&context.client, service.as_ref()).await? else { return Ok(None) };
    let external = service.spec.as_ref().and_then(|spec| spec.type_.as_deref()) == Some("ExternalName");
    if external || !has_selector(&service) || owners::is_going(&service.metadata) {
        return Ok(None);
    }
    let selector = service.spec.as_ref().and_then(|spec| spec.selector.clone()).unwrap_or_default();
    let namespace = service.namespace().unwrap_or_default();
    let pods = pods::list(&context.client, &namespace, &Selector::from_iter(selector)).await?;
    let zones = zones(&context.nodes.store());
    let frames = desired::families(&service).into_iter().map(|family| {
        let found = desired::endpoints(&service, &pods, &family, &zones);
        (frame(&service, family), found)
    });
    slices::write(&context.client, OURS, frames.collect(), (&namespace, &service.name_any())).await?;
    legacy::write(&context, &service, &pods).await?;
    Ok(None)
}

fn zones(nodes: &Store<Node>) -> Zones {
    let zone = |node: &Arc<Node>| Some((node.name_any(), node.labels().get(ZONE)?.clone()));
    nodes.state().iter().filter_map(zone).collect()
}

fn frame(service: &Service, family: String) -> Frame {
    let mut labels = service.labels().clone();
    labels.insert(SERVICE.into(), service.name_any());
    labels.insert(MANAGED_BY.into(), OURS.into());
    if desired::is_headless(service) {
        labels.insert("service.kubernetes.io/headless".into(), String::new());
    }
    Frame {
        namespace: service.namespace().unwrap_or_default(),
        service: service.name_any(),
        family,
        labels,
        annotations: std::collections::BTreeMap::new(),
        owner: owners::reference(service),
    }
}
