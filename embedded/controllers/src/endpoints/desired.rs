//! Which endpoints a Service has, from the pods that it selects.

use std::collections::BTreeMap;
use std::net::IpAddr;

use k8s_openapi::api::core::v1::{ContainerPort, ObjectReference, Pod, Service, ServicePort};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointConditions, EndpointPort};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::ResourceExt;

use crate::owners::is_going;
use crate::pods::{is_finished, is_ready};

/// The family of an address, by the name that slices have for it.
pub(super) const FAMILIES: [&str; 2] = ["IPv4", "IPv6"];

/// The ports of a Service as one pod has them, and the endpoints that have them so.
pub(super) type ByPorts<E> = Vec<(Vec<EndpointPort>, Vec<E>)>;

/// Where the zone of a node is found.
pub(super) type Zones = BTreeMap<String, String>;

pub(super) fn family(address: &str) -> Option<&'static str> {
    Some(FAMILIES[usize::from(address.parse::<IpAddr>().ok()?.is_ipv6())])
}

/// The families that a Service has addresses of.
pub(super) fn families(service: &Service) -> Vec<String> {
    let named = service.spec.as_ref().and_then(|spec| spec.ip_families.clone()).unwrap_or_default();
    if named.is_empty() { vec![FAMILIES[0].into()] } else { named }
}

pub(super) fn is_headless(service: &Service) -> bool {
    service.spec.as_ref().and_then(|spec| spec.cluster_ip.as_deref()) == Some("None")
}

pub(super) fn publishes_not_ready(service: &Service) -> bool {
    service.spec.as_ref().and_then(|spec| spec.publish_not_ready_addresses) == Some(true)
}

/// The addresses of a pod.
pub(super) fn addresses(pod: &Pod) -> Vec<&str> {
    let Some(status) = &pod.status else { return Vec::new() };
    let all: Vec<&str> = status.pod_ips.iter().flatten().map(|ip| ip.ip.as_str()).collect();
    if all.is_empty() { status.pod_ip.as_deref().into_iter().collect() } else { all }
}

/// Everything about a pod that an endpoint depends on: a change of anything else concerns no Service.
pub(super) fn facts(pod: &Pod) -> impl PartialEq + use<> {
    let of_spec = pod.spec.as_ref().map(|spec| (spec.node_name.clone(), spec.hostname.clone(), spec.subdomain.clone()));
    let ips: Vec<String> = addresses(pod).into_iter().map(str::to_owned).collect();
    let is = (is_ready(pod), is_finished(pod), is_going(&pod.metadata));
    (pod.metadata.labels.clone(), pod.metadata.uid.clone(), of_spec, ips, is)
}

/// The endpoints of a Service in one family, by the ports that their pods have for it.
pub(super) fn endpoints(service: &Service, pods: &[Pod], family: &str, zones: &Zones) -> ByPorts<Endpoint> {
    let mut found: ByPorts<Endpoint> = Vec::new();
    for pod in pods.iter().filter(|pod| !is_finished(pod)) {
        let Some(address) = addresses(pod).into_iter().find(|address| self::family(address) == Some(family)) else {
            continue;
        };
        add(&mut found, ports(service, pod), endpoint(service, pod, address, zones));
    }
    found
}

/// Adds something to what has the same ports.
pub(super) fn add<E>(found: &mut ByPorts<E>, ports: Vec<EndpointPort>, what: E) {
    match found.iter_mut().find(|(known, _)| *known == ports) {
        Some((_, list)) => list.push(what),
        None => found.push((ports, vec![what])),
    }
}

fn endpoint(service: &Service, pod: &Pod, address: &str, zones: &Zones) -> Endpoint {
    let (serving, terminating) = (is_ready(pod), is_going(&pod.metadata));
    let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
    Endpoint {
        addresses: vec![address.to_owned()],
        conditions: Some(EndpointConditions {
            ready: Some(publishes_not_ready(service) || (serving && !terminating)),
            serving: Some(serving),
            terminating: Some(terminating),
        }),
        hostname: hostname(service, pod),
        zone: node.as_ref().and_then(|node| zones.get(node).cloned()),
        node_name: node,
        target_ref: Some(reference(pod)),
        ..Endpoint::default()
    }
}

pub(super) fn reference(pod: &Pod) -> ObjectReference {
    ObjectReference {
        kind: Some("Pod".into()),
        namespace: pod.namespace(),
        name: Some(pod.name_any()),
        uid: pod.uid(),
        ..ObjectReference::default()
    }
}

/// The name that a pod has below that of a Service which is its subdomain.
pub(super) fn hostname(service: &Service, pod: &Pod) -> Option<String> {
    let spec = pod.spec.as_ref()?;
    let name = spec.hostname.clone().filter(|name| !name.is_empty())?;
    (spec.subdomain.as_deref() == Some(service.name_any().as_str())).then_some(name)
}

/// The ports of a Service as a pod has them; a port that it has not is left out.
pub(super) fn ports(service: &Service, pod: &Pod) -> Vec<EndpointPort> {
    let wanted = service.spec.iter().flat_map(|spec| spec.ports.iter().flatten());
    wanted.filter_map(|wanted| Some(endpoint_port(wanted, target(wanted, pod)?))).collect()
}

fn endpoint_port(wanted: &ServicePort, port: i32) -> EndpointPort {
    EndpointPort {
        name: Some(wanted.name.clone().unwrap_or_default()),
        port: Some(port),
        protocol: Some(wanted.protocol.clone().unwrap_or_else(|| "TCP".into())),
        app_protocol: wanted.app_protocol.clone(),
    }
}

/// The number of the port that is meant, which a name is looked up for in the containers that keep running.
fn target(wanted: &ServicePort, pod: &Pod) -> Option<i32> {
    let name = match &wanted.target_port {
        None => return Some(wanted.port),
        Some(IntOrString::Int(number)) => return Some(*number),
        Some(IntOrString::String(name)) => name,
    };
    let spec = pod.spec.as_ref()?;
    let sidecars = spec.init_containers.iter().flatten();
    let sidecars = sidecars.filter(|container| container.restart_policy.as_deref() == Some("Always"));
    let ports = spec.containers.iter().chain(sidecars).flat_map(|container| container.ports.iter().flatten());
    let protocol = |port: &ContainerPort| port.protocol.clone().unwrap_or_else(|| "TCP".into());
    let same = |port: &&ContainerPort| {
        port.name.as_ref() == Some(name) && protocol(port) == wanted.protocol.as_deref().unwrap_or("TCP")
    };
    ports.into_iter().find(same).map(|port| port.container_port)
}
