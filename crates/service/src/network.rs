//! Who may reach a service's pods, and what they may reach: derived from what the service stands on.

use c5c3_api::blocks::{Cidr, NetworkAccess, NetworkPeer, NetworkTarget};
use c5c3_kit::Child;
use k8s_openapi::api::networking::v1::{
    IPBlock, NetworkPolicy, NetworkPolicyEgressRule, NetworkPolicyIngressRule, NetworkPolicyPeer, NetworkPolicyPort,
    NetworkPolicySpec,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use crate::instance::Instance;

/// Something that pods have to reach.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Egress {
    /// Its namespace; anywhere when absent.
    pub namespace: Option<String>,
    /// Its port, or the first one.
    pub port: i32,
    /// The last port, if it has many.
    pub end_port: Option<i32>,
}

impl Egress {
    /// One port, in a namespace or anywhere.
    pub fn new(namespace: Option<String>, port: i32) -> Self {
        Self { namespace, port, end_port: None }
    }

    /// What pods of the namespace `own` have to reach for a URL. A NetworkPolicy applies to the port of the pod behind a Service,
    /// which a URL does not tell, so that all ports are open in the namespace of a Service, and else the port of the URL.
    pub fn to_url(url: &str, own: &str) -> Vec<Self> {
        let (scheme, rest) = url.split_once("://").unwrap_or(("http", url));
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        // The colons of an IPv6 address are in brackets.
        let (host, port) = match authority.rsplit_once(':').filter(|(_, port)| !port.ends_with(']')) {
            Some((host, port)) => (host, port.parse().ok()),
            None => (authority, None),
        };
        let anywhere = || Self::new(None, port.unwrap_or(if scheme == "https" { 443 } else { 80 }));
        let within = |namespace: &str| Self { end_port: Some(LAST_PORT), ..Self::new(Some(namespace.to_owned()), 1) };
        let labels: Vec<&str> = host.trim_end_matches('.').split('.').collect();
        match labels.as_slice() {
            [one] if !one.starts_with('[') => vec![within(own)],
            [_, namespace, "svc", ..] => vec![within(namespace)],
            // Either a Service and its namespace, or a host elsewhere.
            [_, namespace] => vec![within(namespace), anywhere()],
            _ => vec![anywhere()],
        }
    }
}

const LAST_PORT: i32 = 65535;

/// Whose traffic a NetworkPolicy is about.
#[derive(Clone, Debug)]
pub struct Traffic<'a> {
    /// The name of the policy, and the component that it belongs to.
    pub component: &'a str,
    /// The pods.
    pub pods: LabelSelector,
    /// The ports that they serve.
    pub ports: &'a [i32],
    /// What they have to reach. Everything when absent.
    pub egress: Option<&'a [Egress]>,
}

/// The NetworkPolicy of some pods; none if it is switched off.
pub fn policy(instance: &Instance, traffic: Traffic<'_>, access: Option<&NetworkAccess>) -> Option<Child> {
    if access.is_some_and(|access| !access.enabled) {
        return None;
    }
    let Traffic { component, pods, ports, egress } = traffic;
    let peers: Vec<NetworkPolicyPeer> = access.into_iter().flat_map(|access| access.ingress.iter().map(peer)).collect();
    let ingress = NetworkPolicyIngressRule {
        from: Some(peers).filter(|peers| !peers.is_empty()),
        ports: Some(ports.iter().copied().map(tcp).collect()),
    };
    let egress = match egress {
        None => vec![NetworkPolicyEgressRule::default()],
        Some(egress) => {
            let names = NetworkPolicyEgressRule { ports: Some(vec![udp(53), tcp(53)]), to: None };
            let needed = distinct(egress).into_iter().map(|egress| NetworkPolicyEgressRule {
                ports: Some(vec![NetworkPolicyPort { end_port: egress.end_port, ..tcp(egress.port) }]),
                to: egress.namespace.as_deref().map(|namespace| vec![in_namespace(namespace)]),
            });
            let more = access.into_iter().flat_map(|access| access.additional_egress.iter().map(target));
            std::iter::once(names).chain(needed).chain(more).collect()
        }
    };
    let policy = NetworkPolicy {
        metadata: instance.meta(instance.named(component), component),
        spec: Some(NetworkPolicySpec {
            pod_selector: Some(pods),
            policy_types: Some(vec!["Ingress".into(), "Egress".into()]),
            ingress: Some(if ports.is_empty() { Vec::new() } else { vec![ingress] }),
            egress: Some(egress),
        }),
    };
    Some(Child::new(&policy))
}

fn distinct(egress: &[Egress]) -> Vec<&Egress> {
    let mut found: Vec<&Egress> = Vec::new();
    for egress in egress {
        if !found.contains(&egress) {
            found.push(egress);
        }
    }
    found
}

/// Whether ingress to the API is restricted.
pub fn is_restricted(access: Option<&NetworkAccess>) -> bool {
    access.is_some_and(|access| access.enabled && !access.ingress.is_empty())
}

fn peer(peer: &NetworkPeer) -> NetworkPolicyPeer {
    if let Some(cidr) = &peer.cidr {
        return block(cidr);
    }
    // Neither selector would be no peer at all: all pods of the own namespace are meant.
    let pods = peer.pod_selector.clone().or_else(|| peer.namespace_selector.is_none().then(LabelSelector::default));
    NetworkPolicyPeer { namespace_selector: peer.namespace_selector.clone(), pod_selector: pods, ip_block: None }
}

fn in_namespace(namespace: &str) -> NetworkPolicyPeer {
    let labels = [("kubernetes.io/metadata.name".to_owned(), namespace.to_owned())].into();
    let selector = LabelSelector { match_labels: Some(labels), ..LabelSelector::default() };
    NetworkPolicyPeer { namespace_selector: Some(selector), ..NetworkPolicyPeer::default() }
}

fn block(cidr: &Cidr) -> NetworkPolicyPeer {
    let ip_block = Some(IPBlock { cidr: cidr.to_string(), except: None });
    NetworkPolicyPeer { ip_block, ..NetworkPolicyPeer::default() }
}

fn target(target: &NetworkTarget) -> NetworkPolicyEgressRule {
    NetworkPolicyEgressRule {
        ports: Some(vec![tcp(target.port.get())]),
        to: target.cidr.as_ref().map(|cidr| vec![block(cidr)]),
    }
}

fn tcp(port: i32) -> NetworkPolicyPort {
    port_of("TCP", port)
}

fn udp(port: i32) -> NetworkPolicyPort {
    port_of("UDP", port)
}

fn port_of(protocol: &str, port: i32) -> NetworkPolicyPort {
    NetworkPolicyPort { port: Some(IntOrString::Int(port)), protocol: Some(protocol.into()), end_port: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_reached_by_the_namespace_of_its_service_or_by_its_port() {
        let namespace = |name: &str| Egress { end_port: Some(65535), ..Egress::new(Some(name.into()), 1) };
        let reached = |url: &str| Egress::to_url(url, "cloud");
        assert_eq!(reached("http://gateway"), [namespace("cloud")]);
        assert_eq!(reached("https://gateway.rook-ceph.svc:8443/x"), [namespace("rook-ceph")]);
        assert_eq!(reached("http://gateway.rook-ceph.svc.cluster.local."), [namespace("rook-ceph")]);
        assert_eq!(reached("http://gateway.rook-ceph"), [namespace("rook-ceph"), Egress::new(None, 80)]);
        assert_eq!(reached("https://s3.example.net/bucket"), [Egress::new(None, 443)]);
        assert_eq!(reached("http://192.0.2.1:9000?a=b"), [Egress::new(None, 9000)]);
        assert_eq!(reached("http://[2001:db8::1]"), [Egress::new(None, 80)]);
        assert_eq!(reached("https://[2001:db8::1]:9000"), [Egress::new(None, 9000)]);
    }
}
