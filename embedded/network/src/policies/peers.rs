//! The pods that policies speak of, and which of them a policy selects.

use std::collections::{BTreeMap, HashMap};
use std::net::Ipv4Addr;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Container, Namespace, Pod, PodSpec};
use k8s_openapi::api::networking::v1::{IPBlock, NetworkPolicyPeer};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::ResourceExt;
use kube::core::{Selector, SelectorExt};

use crate::ranges::Ranges;

/// A pod as policies see it.
#[derive(Clone, Debug)]
pub(super) struct Peer {
    pub(super) namespace: String,
    labels: BTreeMap<String, String>,
    pub(super) address: Ipv4Addr,
    pub(super) node: Option<String>,
    /// Name and protocol of a port, and its number.
    ports: Vec<(String, &'static str, u16)>,
}

impl Peer {
    /// None without an address of its own: not started, ended, or with the host's network.
    fn new(pod: &Pod) -> Option<Self> {
        let (spec, status) = (pod.spec.as_ref()?, pod.status.as_ref()?);
        let ended = matches!(status.phase.as_deref(), Some("Succeeded" | "Failed"));
        if ended || spec.host_network == Some(true) {
            return None;
        }
        Some(Self {
            namespace: pod.namespace()?,
            labels: pod.labels().clone(),
            address: status.pod_ip.as_ref()?.parse().ok()?,
            node: spec.node_name.clone(),
            ports: ports(spec),
        })
    }

    /// The DNS server in the shape of the pod that serves DNS elsewhere.
    pub(super) fn dns(address: Ipv4Addr) -> Self {
        Self {
            namespace: "kube-system".to_owned(),
            labels: [("k8s-app".to_owned(), "kube-dns".to_owned())].into(),
            address,
            node: None,
            ports: vec![("dns".to_owned(), "udp", 53), ("dns-tcp".to_owned(), "tcp", 53)],
        }
    }

    /// The number of a named port here.
    pub(super) fn port(&self, name: &str, protocol: &str) -> Option<u16> {
        let (_, _, number) = self.ports.iter().find(|(known, over, _)| known == name && *over == protocol)?;
        Some(*number)
    }
}

fn ports(spec: &PodSpec) -> Vec<(String, &'static str, u16)> {
    let sidecars = spec.init_containers.iter().flatten().filter(|c| c.restart_policy.as_deref() == Some("Always"));
    let declared = |container: &Container| {
        let ports = container.ports.clone().unwrap_or_default();
        ports.into_iter().filter_map(|port| {
            Some((port.name?, protocol(port.protocol.as_deref())?, u16::try_from(port.container_port).ok()?))
        })
    };
    spec.containers.iter().chain(sidecars).flat_map(declared).collect()
}

/// A protocol as nftables writes it.
pub(super) fn protocol(name: Option<&str>) -> Option<&'static str> {
    match name {
        None | Some("TCP") => Some("tcp"),
        Some("UDP") => Some("udp"),
        Some("SCTP") => Some("sctp"),
        Some(_) => None,
    }
}

/// Whether these labels are selected. A selector that cannot be read selects nothing.
fn selects(selector: &LabelSelector, labels: &BTreeMap<String, String>) -> bool {
    Selector::try_from(selector.clone()).is_ok_and(|selector| selector.matches(labels))
}

/// Everybody a policy can speak of.
pub(super) struct Peers {
    all: Vec<Peer>,
    namespaces: HashMap<String, BTreeMap<String, String>>,
}

impl Peers {
    pub(super) fn new(pods: &[Arc<Pod>], namespaces: &[Arc<Namespace>], dns: Option<Ipv4Addr>) -> Self {
        let mut all: Vec<_> = pods.iter().filter_map(|pod| Peer::new(pod)).chain(dns.map(Peer::dns)).collect();
        all.sort_by_key(|peer| peer.address);
        let labels = |namespace: &Arc<Namespace>| (namespace.name_any(), namespace.labels().clone());
        Self { all, namespaces: namespaces.iter().map(labels).collect() }
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Peer> {
        self.all.iter()
    }

    /// The pods of a namespace that are selected; no selector selects all.
    pub(super) fn within<'a>(
        &'a self,
        namespace: &'a str,
        selector: Option<&'a LabelSelector>,
    ) -> impl Iterator<Item = &'a Peer> {
        let selected = move |peer: &&Peer| selector.is_none_or(|selector| selects(selector, &peer.labels));
        self.all.iter().filter(move |peer| peer.namespace == namespace).filter(selected)
    }

    /// The pods that one entry of `from` or `to` in a policy of `namespace` means.
    pub(super) fn meant<'a>(&'a self, entry: &NetworkPolicyPeer, namespace: &str) -> Vec<&'a Peer> {
        let NetworkPolicyPeer { pod_selector, namespace_selector, ip_block: None } = entry else { return Vec::new() };
        let in_namespace = |peer: &Peer| match namespace_selector {
            None => peer.namespace == namespace,
            Some(selector) => self.namespaces.get(&peer.namespace).is_some_and(|labels| selects(selector, labels)),
        };
        let selected = |peer: &Peer| pod_selector.as_ref().is_none_or(|selector| selects(selector, &peer.labels));
        self.all.iter().filter(|peer| in_namespace(peer) && selected(peer)).collect()
    }
}

/// The addresses of a block, without its exceptions. One that cannot be read, or is not IPv4, has none.
pub(super) fn block(block: &IPBlock) -> Ranges {
    let mut ranges = Ranges::default();
    if let Ok(net) = block.cidr.parse() {
        ranges.add_net(net);
    }
    for except in block.except.iter().flatten().filter_map(|except| except.parse().ok()) {
        ranges.remove_net(except);
    }
    ranges
}
