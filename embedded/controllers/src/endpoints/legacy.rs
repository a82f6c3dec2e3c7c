//! The Endpoints object of a Service: the same in one object, as it was before slices.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{EndpointAddress, EndpointPort, EndpointSubset, Endpoints, Pod, Service};
use k8s_openapi::api::discovery::v1;
use kube::ResourceExt;
use kube::api::{Api, PostParams};
use kube::core::ObjectMeta;

use super::desired::{self, ByPorts};
use crate::context::Context;
use crate::error::{Error, is_namespace_going};
use crate::owners::is_going;
use crate::pods::{is_finished, is_ready};

/// Says that it is ours.
pub(super) const MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";
/// Who we are.
pub(super) const OURS: &str = "endpoint-controller";
/// Says that some are left out.
const OVER_CAPACITY: &str = "endpoints.kubernetes.io/over-capacity";
/// How many addresses one object holds.
const FULL: usize = 1000;

/// An address, and whether it is ready.
type Found = (EndpointAddress, bool);

/// The subsets of a Service: addresses with the same ports together, in an order that is always the same.
pub(super) fn subsets(service: &Service, pods: &[Pod]) -> (Vec<EndpointSubset>, bool) {
    let families = desired::families(service);
    let first = families.first().map_or("IPv4", String::as_str);
    let unready_too = desired::publishes_not_ready(service);
    let mut found: ByPorts<Found> = Vec::new();
    let mut count = 0;
    for pod in pods.iter().filter(|pod| !is_finished(pod) && (unready_too || !is_going(&pod.metadata))) {
        let own = desired::addresses(pod);
        let Some(address) = own.into_iter().find(|address| desired::family(address) == Some(first)) else { continue };
        let ports = desired::ports(service, pod);
        // A Service that has ports, of which the pod has none, is not to be found there.
        if ports.is_empty() && service.spec.iter().any(|spec| spec.ports.as_ref().is_some_and(|all| !all.is_empty())) {
            continue;
        }
        count += 1;
        if count <= FULL {
            let address = EndpointAddress {
                ip: address.to_owned(),
                hostname: desired::hostname(service, pod),
                node_name: pod.spec.as_ref().and_then(|spec| spec.node_name.clone()),
                target_ref: Some(desired::reference(pod)),
            };
            desired::add(&mut found, ports, (address, unready_too || is_ready(pod)));
        }
    }
    let mut subsets: Vec<EndpointSubset> = found.into_iter().map(|(ports, found)| subset(ports, found)).collect();
    subsets.sort_by_key(|subset| subset.ports.iter().flatten().map(|port| port.port).collect::<Vec<_>>());
    (subsets, count > FULL)
}

fn subset(ports: Vec<v1::EndpointPort>, mut found: Vec<Found>) -> EndpointSubset {
    found.sort_by(|(one, _), (other, _)| one.ip.cmp(&other.ip));
    let (ready, waiting): (Vec<Found>, Vec<Found>) = found.into_iter().partition(|(_, ready)| *ready);
    let list = |found: Vec<Found>| {
        Some(found.into_iter().map(|(address, _)| address).collect::<Vec<_>>()).filter(|list| !list.is_empty())
    };
    let ports: Vec<EndpointPort> = ports.into_iter().map(port).collect();
    EndpointSubset {
        addresses: list(ready),
        not_ready_addresses: list(waiting),
        ports: Some(ports).filter(|ports| !ports.is_empty()),
    }
}

fn port(port: v1::EndpointPort) -> EndpointPort {
    EndpointPort {
        name: port.name.filter(|name| !name.is_empty()),
        port: port.port.unwrap_or_default(),
        protocol: port.protocol,
        app_protocol: port.app_protocol,
    }
}

/// What the object of a Service should be, from what it is.
fn wanted(service: &Service, pods: &[Pod], found: Option<&Endpoints>) -> Endpoints {
    let (subsets, truncated) = subsets(service, pods);
    let mut labels: BTreeMap<String, String> = service.labels().clone();
    labels.insert(MANAGED_BY.into(), OURS.into());
    if desired::is_headless(service) {
        labels.insert("service.kubernetes.io/headless".into(), String::new());
    }
    let metadata = found.map_or_else(ObjectMeta::default, |found| found.metadata.clone());
    let mut annotations = metadata.annotations.clone().unwrap_or_default();
    annotations.remove(OVER_CAPACITY);
    if truncated {
        annotations.insert(OVER_CAPACITY.into(), "truncated".into());
    }
    let metadata = ObjectMeta {
        name: service.metadata.name.clone(),
        namespace: service.metadata.namespace.clone(),
        labels: Some(labels),
        annotations: Some(annotations).filter(|annotations| !annotations.is_empty()),
        ..metadata
    };
    Endpoints { metadata, subsets: Some(subsets).filter(|subsets| !subsets.is_empty()) }
}

/// Brings the object of a Service up to date.
pub(super) async fn write(context: &Context, service: &Service, pods: &[Pod]) -> Result<(), Error> {
    let api = Api::<Endpoints>::namespaced(context.client.clone(), &service.namespace().unwrap_or_default());
    let found = api.get_opt(&service.name_any()).await?;
    let wanted = wanted(service, pods, found.as_ref());
    let written = match found {
        Some(found) if found == wanted => return Ok(()),
        Some(_) => api.replace(&service.name_any(), &PostParams::default(), &wanted).await,
        None => api.create(&PostParams::default(), &wanted).await,
    };
    match written {
        Err(error) if !is_namespace_going(&error) => Err(error.into()),
        _ => Ok(()),
    }
}
