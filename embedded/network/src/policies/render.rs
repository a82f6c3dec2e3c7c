//! The rule set for the NetworkPolicies that concern a node's pods. Pure.
//!
//! ```text
//! forward ─ egress[source]       ─► egress/POD  ─► egress/NAMESPACE/POLICY …  or drop
//! forward ─ ingress[destination] ─► ingress/POD ─► ingress/NAMESPACE/POLICY … or drop
//! ```
//!
//! Two chains hang on the same hook: what the first accepts is still judged by the second, so that between two pods of
//! one node both the one's egress and the other's ingress must allow.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Namespace, Pod};
use k8s_openapi::api::networking::v1::{NetworkPolicy, NetworkPolicyPeer, NetworkPolicyPort};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::Place;
use super::peers::{Peer, Peers, block, protocol};
use crate::ranges::Ranges;
use crate::ruleset::{Ruleset, name};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Ingress,
    Egress,
}

impl Direction {
    const BOTH: [Self; 2] = [Self::Egress, Self::Ingress];

    /// The chain and the policy's type.
    fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Ingress => ("ingress", "Ingress"),
            Self::Egress => ("egress", "Egress"),
        }
    }

    /// The addresses of the isolated pod and of its peer, as the packet has them.
    fn ends(self) -> (&'static str, &'static str) {
        match self {
            Self::Ingress => ("ip daddr", "ip saddr"),
            Self::Egress => ("ip saddr", "ip daddr"),
        }
    }
}

/// A rule of a policy, the same for both directions.
struct Rule<'a> {
    peers: &'a [NetworkPolicyPeer],
    ports: &'a [NetworkPolicyPort],
}

/// What a policy allows in a direction. None: it does not isolate in that direction.
fn rules(policy: &NetworkPolicy, direction: Direction) -> Option<Vec<Rule<'_>>> {
    let spec = policy.spec.as_ref()?;
    let applies = match &spec.policy_types {
        Some(types) if !types.is_empty() => types.iter().any(|kind| kind == direction.names().1),
        // A policy that does not say is about ingress, and about egress if it has rules for that.
        _ => direction == Direction::Ingress || spec.egress.as_ref().is_some_and(|rules| !rules.is_empty()),
    };
    applies.then(|| match direction {
        Direction::Ingress => {
            let rules = spec.ingress.iter().flatten();
            rules.map(|rule| Rule { peers: slice(rule.from.as_ref()), ports: slice(rule.ports.as_ref()) }).collect()
        }
        Direction::Egress => {
            let rules = spec.egress.iter().flatten();
            rules.map(|rule| Rule { peers: slice(rule.to.as_ref()), ports: slice(rule.ports.as_ref()) }).collect()
        }
    })
}

fn slice<T>(list: Option<&Vec<T>>) -> &[T] {
    list.map_or(&[], Vec::as_slice)
}

/// The rules for these policies on this node.
pub fn render(
    place: &Place,
    policies: &[Arc<NetworkPolicy>],
    pods: &[Arc<Pod>],
    namespaces: &[Arc<Namespace>],
) -> Ruleset {
    let peers = Peers::new(pods, namespaces, place.dns);
    let mut ruleset = Ruleset::new(&place.table);
    let mut isolated = Vec::new();
    for direction in Direction::BOTH {
        isolated.extend(isolate(&mut ruleset, place, direction, policies, &peers));
    }
    let itself = isolated.into_iter().map(|address| format!("{address} . {address}"));
    ruleset.set("itself", "type ipv4_addr . ipv4_addr", itself);
    ruleset
}

/// Isolates the pods that policies select in a direction, and gives their addresses.
fn isolate(
    ruleset: &mut Ruleset,
    place: &Place,
    direction: Direction,
    policies: &[Arc<NetworkPolicy>],
    peers: &Peers,
) -> Vec<Ipv4Addr> {
    let (chain, _) = direction.names();
    let mut isolated: BTreeMap<Ipv4Addr, Vec<String>> = BTreeMap::new();
    for policy in policies {
        let (Some(spec), Some(namespace), Some(policy_name)) =
            (&policy.spec, &policy.metadata.namespace, &policy.metadata.name)
        else {
            continue;
        };
        let Some(rules) = rules(policy, direction) else { continue };
        let selected: Vec<_> = peers
            .within(namespace, spec.pod_selector.as_ref())
            .filter(|peer| peer.node.as_ref() == Some(&place.node))
            .collect();
        if selected.is_empty() {
            continue;
        }
        let path = name(&[chain, namespace, policy_name]);
        for pod in &selected {
            isolated.entry(pod.address).or_default().push(format!("jump {path}"));
        }
        let mut allowed = Allowed { ruleset, direction, peers, selected: &selected, namespace, path: &path };
        let lines = rules.iter().enumerate().flat_map(|(index, rule)| allowed.by(index, rule)).collect();
        ruleset.chain(&path, lines);
    }
    enforce(ruleset, direction, &isolated);
    isolated.into_keys().collect()
}

/// Lets the kernel ask about every new connection of these pods: one of their policies must accept it.
fn enforce(ruleset: &mut Ruleset, direction: Direction, isolated: &BTreeMap<Ipv4Addr, Vec<String>>) {
    let (chain, _) = direction.names();
    for (address, jumps) in isolated {
        let mut rules = jumps.clone();
        rules.sort();
        rules.push("drop".to_owned());
        ruleset.chain(&format!("{chain}/{address}"), rules);
    }
    let verdicts = isolated.keys().map(|address| format!("{address} : goto {chain}/{address}"));
    ruleset.map(chain, "type ipv4_addr : verdict", verdicts);
    let priority = if direction == Direction::Egress { -1 } else { 0 };
    let (isolated_end, _) = direction.ends();
    ruleset.hook(
        &format!("{chain}-forward"),
        &format!("type filter hook forward priority {priority}"),
        &[
            "ct state established,related accept",
            "ip saddr . ip daddr @itself accept",
            &format!("{isolated_end} vmap @{chain}"),
        ],
    );
}

/// What one policy allows the pods that it selects on this node.
struct Allowed<'a> {
    ruleset: &'a mut Ruleset,
    direction: Direction,
    peers: &'a Peers,
    selected: &'a [&'a Peer],
    namespace: &'a str,
    path: &'a str,
}

impl Allowed<'_> {
    /// The nftables rules that one rule comes to; they say no more than accept.
    fn by(&mut self, index: usize, rule: &Rule<'_>) -> Vec<String> {
        let peer = match rule.peers {
            [] => String::new(),
            entries => {
                let set = format!("{}/{index}", self.path);
                let elements = self.addresses(entries).addresses();
                self.ruleset.set(&set, "type ipv4_addr; flags interval", elements);
                format!("{} @{set} ", self.direction.ends().1)
            }
        };
        if rule.ports.is_empty() {
            return vec![format!("{peer}accept")];
        }
        let mut lines = Vec::new();
        for protocol in ["tcp", "udp", "sctp"] {
            lines.extend(numbered(rule.ports, protocol).map(|ports| format!("{peer}{ports} accept")));
        }
        let named = self.named(rule);
        if !named.is_empty() {
            let set = format!("{}/{index}-named", self.path);
            self.ruleset.set(&set, "type ipv4_addr . inet_proto . inet_service", named);
            lines.push(format!("{peer}ip daddr . meta l4proto . th dport @{set} accept"));
        }
        lines
    }

    fn addresses(&self, entries: &[NetworkPolicyPeer]) -> Ranges {
        let mut ranges = Ranges::default();
        for entry in entries {
            if let Some(written) = &entry.ip_block {
                ranges.extend(&block(written));
            }
            for peer in self.peers.meant(entry, self.namespace) {
                ranges.add_address(peer.address);
            }
        }
        ranges
    }

    /// Ports that have a name are looked up where the connection goes to: in the selected pods, or in their peers.
    fn named(&self, rule: &Rule<'_>) -> Vec<String> {
        let destinations: Vec<&Peer> = match (self.direction, rule.peers) {
            (Direction::Ingress, _) => self.selected.to_vec(),
            (Direction::Egress, []) => self.peers.all().collect(),
            (Direction::Egress, entries) => {
                entries.iter().flat_map(|entry| self.peers.meant(entry, self.namespace)).collect()
            }
        };
        let mut elements = Vec::new();
        for port in rule.ports {
            let (Some(IntOrString::String(name)), Some(protocol)) = (&port.port, protocol(port.protocol.as_deref()))
            else {
                continue;
            };
            elements.extend(destinations.iter().filter_map(|peer| {
                peer.port(name, protocol).map(|number| format!("{} . {protocol} . {number}", peer.address))
            }));
        }
        elements
    }
}

/// The match for the ports of a protocol that are numbers, or for all of its ports.
fn numbered(ports: &[NetworkPolicyPort], over: &str) -> Option<String> {
    let mut ranges = Ranges::default();
    for port in ports.iter().filter(|port| protocol(port.protocol.as_deref()) == Some(over)) {
        match &port.port {
            None => return Some(format!("meta l4proto {over}")),
            Some(IntOrString::Int(first)) => {
                let last = port.end_port.unwrap_or(*first);
                if let (Ok(first), Ok(last)) = (u32::try_from(*first), u32::try_from(last)) {
                    ranges.add(first, last);
                }
            }
            Some(IntOrString::String(_)) => {}
        }
    }
    (!ranges.is_empty()).then(|| format!("{over} dport {{ {} }}", ranges.numbers().join(", ")))
}

#[cfg(test)]
mod tests;
