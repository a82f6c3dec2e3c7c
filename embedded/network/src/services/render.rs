//! The rule set for a cluster's Services, as seen from one place. Pure.
//!
//! ```text
//! prerouting, output ─ frontends[address . protocol . port] ─► external/… ─┬─► anywhere/… ─► dnat
//!                                                           └──────────────┴─► local/…    ─► dnat
//! what no Service took ─ unserved[…] ─► refuse or drop
//! postrouting ─ marked, or from an endpoint to itself ─► masquerade
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Service, ServicePort, ServiceSpec};
use k8s_openapi::api::discovery::v1::EndpointSlice;

use super::backends::{Backends, Slices};
use super::{Frontends, Place};
use crate::ruleset::{Ruleset, name};

/// The bit of a packet's mark that asks for masquerading, the same as kube-proxy's.
const MASQUERADE: &str = "0x4000";

/// How long a client keeps its endpoint when a Service does not say: three hours.
const STICKY_SECONDS: i32 = 10_800;

/// Who proxies a Service when it is not us.
const PROXY_NAME: &str = "service.kubernetes.io/service-proxy-name";

/// What Services come to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    /// The table.
    pub ruleset: Ruleset,
    /// Where UDP goes: flows that say otherwise must be ended, too.
    pub udp: Frontends,
}

/// The rules for these Services at this place.
pub fn render(place: &Place, services: &[Arc<Service>], slices: &[Arc<EndpointSlice>]) -> Rules {
    let slices = Slices::index(slices);
    let mut rendering = Rendering::new(place);
    for service in services {
        let (Some(spec), Some(namespace), Some(name)) =
            (&service.spec, &service.metadata.namespace, &service.metadata.name)
        else {
            continue;
        };
        if !is_proxied(service, spec) {
            continue;
        }
        for port in spec.ports.iter().flatten() {
            let backends = Backends::choose(slices.of(service), port, place.node.as_deref());
            if let Some(served) = Served::new(service, spec, port, [namespace, name], &backends) {
                rendering.port(&served);
            }
        }
    }
    rendering.finish()
}

fn is_proxied(service: &Service, spec: &ServiceSpec) -> bool {
    let elsewhere = service.metadata.labels.as_ref().is_some_and(|labels| labels.contains_key(PROXY_NAME));
    !elsewhere && spec.type_.as_deref() != Some("ExternalName")
}

/// One port of a Service with everything that decides about it.
struct Served<'a> {
    /// `namespace/service/protocol/port`
    path: String,
    protocol: &'static str,
    port: u16,
    node_port: Option<u16>,
    cluster: Vec<Ipv4Addr>,
    external: Vec<Ipv4Addr>,
    balancers: Vec<Ipv4Addr>,
    internal_local: bool,
    external_local: bool,
    sticky: Option<i32>,
    backends: &'a Backends,
}

impl<'a> Served<'a> {
    fn new(
        service: &Service,
        spec: &ServiceSpec,
        port: &ServicePort,
        [namespace, service_name]: [&str; 2],
        backends: &'a Backends,
    ) -> Option<Self> {
        let protocol = match port.protocol.as_deref() {
            None | Some("TCP") => "tcp",
            Some("UDP") => "udp",
            Some("SCTP") => "sctp",
            Some(_) => return None,
        };
        let is_local = |policy: &Option<String>| policy.as_deref() == Some("Local");
        let sticky = (spec.session_affinity.as_deref() == Some("ClientIP")).then(|| {
            let config = spec.session_affinity_config.as_ref().and_then(|config| config.client_ip.as_ref());
            config.and_then(|client| client.timeout_seconds).unwrap_or(STICKY_SECONDS)
        });
        Some(Self {
            path: name(&[namespace, service_name, protocol, &port.port.to_string()]),
            protocol,
            port: u16::try_from(port.port).ok()?,
            node_port: port.node_port.and_then(|number| u16::try_from(number).ok()).filter(|number| *number != 0),
            // A headless Service has `None` here, which is no address.
            cluster: addresses(spec.cluster_ips.as_deref().unwrap_or_default()),
            external: addresses(spec.external_ips.as_deref().unwrap_or_default()),
            balancers: balancer(service),
            internal_local: is_local(&spec.internal_traffic_policy),
            external_local: is_local(&spec.external_traffic_policy),
            sticky,
            backends,
        })
    }

    /// The addresses from outside, each with its port: external ones, those of load balancers, and NodePorts. The machine
    /// itself serves only load balancers whose addresses are its own to give.
    fn outside(&self, place: &Place) -> Vec<SocketAddrV4> {
        let external: Vec<_> = if place.node.is_some() {
            self.external.iter().chain(&self.balancers).collect()
        } else {
            let is_own = |address: &&Ipv4Addr| place.balancers.is_some_and(|pool| pool.contains(**address));
            self.balancers.iter().filter(is_own).collect()
        };
        let external = external.into_iter().map(|address| SocketAddrV4::new(*address, self.port));
        let node = self
            .node_port
            .into_iter()
            .flat_map(|port| place.node_addresses.iter().map(move |address| SocketAddrV4::new(*address, port)));
        external.chain(node).collect()
    }
}

fn addresses(texts: &[String]) -> Vec<Ipv4Addr> {
    texts.iter().filter_map(|text| text.parse().ok()).collect()
}

/// The addresses of a load balancer that wants to be short-cut: those it does not proxy for.
fn balancer(service: &Service) -> Vec<Ipv4Addr> {
    let status = service.status.as_ref().and_then(|status| status.load_balancer.as_ref());
    let ingress = status.and_then(|balancer| balancer.ingress.as_deref()).unwrap_or_default();
    let direct = ingress.iter().filter(|ingress| ingress.ip_mode.as_deref() != Some("Proxy"));
    direct.filter_map(|ingress| ingress.ip.as_deref()?.parse().ok()).collect()
}

struct Rendering<'a> {
    place: &'a Place,
    ruleset: Ruleset,
    frontends: BTreeMap<String, String>,
    unserved: BTreeMap<String, &'static str>,
    endpoints: BTreeSet<Ipv4Addr>,
    udp: Frontends,
}

const KEY: &str = "ip daddr . meta l4proto . th dport";

fn key(address: SocketAddrV4, protocol: &str) -> String {
    format!("{} . {protocol} . {}", address.ip(), address.port())
}

impl<'a> Rendering<'a> {
    fn new(place: &'a Place) -> Self {
        Self {
            place,
            ruleset: Ruleset::new(&place.table),
            frontends: BTreeMap::new(),
            unserved: BTreeMap::new(),
            endpoints: BTreeSet::new(),
            udp: Frontends::default(),
        }
    }

    fn port(&mut self, served: &Served<'_>) {
        let Backends { anywhere, local } = served.backends;
        let inside: Vec<_> = served.cluster.iter().map(|address| SocketAddrV4::new(*address, served.port)).collect();
        let outside = served.outside(self.place);
        if inside.is_empty() && outside.is_empty() {
            return;
        }
        self.watch_udp(served, inside.iter().chain(&outside));
        if anywhere.is_empty() {
            self.leave_unserved(served, inside.iter().chain(&outside), "goto refuse");
            return;
        }
        self.endpoints.extend(anywhere.iter().chain(local).map(|endpoint| *endpoint.ip()));

        let within = if served.internal_local { "local" } else { "anywhere" };
        if served.internal_local && local.is_empty() {
            self.leave_unserved(served, inside.iter(), "drop");
        } else {
            self.send(served, &inside, within);
        }
        if !outside.is_empty() {
            self.outside(served, &outside);
        }
        let used_outside = !outside.is_empty();
        if (within == "anywhere" && !inside.is_empty()) || used_outside {
            self.balance("anywhere", served, anywhere);
        }
        if !local.is_empty() && (within == "local" || (used_outside && served.external_local)) {
            self.balance("local", served, local);
        }
    }

    fn watch_udp<'s>(&mut self, served: &Served<'_>, fronts: impl Iterator<Item = &'s SocketAddrV4>) {
        if served.protocol == "udp" {
            let Backends { anywhere, local } = served.backends;
            let backends: BTreeSet<_> = anywhere.iter().chain(local).copied().collect();
            self.udp.extend(fronts.map(|front| (*front, backends.clone())));
        }
    }

    fn leave_unserved<'s>(
        &mut self,
        served: &Served<'_>,
        fronts: impl Iterator<Item = &'s SocketAddrV4>,
        verdict: &'static str,
    ) {
        self.unserved.extend(fronts.map(|front| (key(*front, served.protocol), verdict)));
    }

    fn send(&mut self, served: &Served<'_>, fronts: &[SocketAddrV4], scope: &str) {
        for front in fronts {
            self.frontends.insert(key(*front, served.protocol), format!("goto {scope}/{}", served.path));
        }
    }

    /// What comes from outside may be answered by an endpoint on another node, whose answer must come back here: it is
    /// masqueraded. With the policy `Local` the client's address is kept, and only endpoints of this node answer; pods
    /// and processes of this node are not outside, and reach them all.
    fn outside(&mut self, served: &Served<'_>, fronts: &[SocketAddrV4]) {
        self.send(served, fronts, "external");
        let path = &served.path;
        let mut rules = Vec::new();
        if self.place.node.is_none() {
            // The machine is the way back of every pod's answer, so that the client's address can be kept.
            rules.push(format!("goto anywhere/{path}"));
        } else if served.external_local {
            rules.extend(self.place.pods.map(|pods| format!("ip saddr {pods} goto anywhere/{path}")));
            rules.push(format!("fib saddr type local goto anywhere/{path}"));
            if served.backends.local.is_empty() {
                self.leave_unserved(served, fronts.iter(), "drop");
            } else {
                rules.push(format!("goto local/{path}"));
            }
        } else {
            rules.push(format!("meta mark set meta mark | {MASQUERADE}"));
            rules.push(format!("goto anywhere/{path}"));
        }
        self.ruleset.chain(&format!("external/{path}"), rules);
    }

    fn balance(&mut self, scope: &str, served: &Served<'_>, backends: &[SocketAddrV4]) {
        let protocol = served.protocol;
        let chain = format!("{scope}/{}", served.path);
        let rules = match (served.sticky, backends) {
            (Some(seconds), _) => self.stick(served, seconds, backends),
            (None, [only]) => vec![format!("meta l4proto {protocol} dnat to {only}")],
            (None, several) => {
                let choices = several.iter().map(|backend| format!("{} . {}", backend.ip(), backend.port()));
                vec![format!("meta l4proto {protocol} dnat to {}", one_of("map", choices))]
            }
        };
        self.ruleset.chain(&chain, rules);
    }

    /// A set per endpoint remembers its clients, for as long as they come.
    fn stick(&mut self, served: &Served<'_>, seconds: i32, backends: &[SocketAddrV4]) -> Vec<String> {
        let names: Vec<_> = backends
            .iter()
            .map(|backend| format!("sticky/{}/{}-{}", served.path, backend.ip(), backend.port()))
            .collect();
        for (name, backend) in names.iter().zip(backends) {
            self.ruleset.set(name, &format!("type ipv4_addr; flags dynamic, timeout; timeout {seconds}s"), []);
            let dnat = format!("meta l4proto {} dnat to {backend}", served.protocol);
            self.ruleset.chain(name, vec![format!("update @{name} {{ ip saddr }}"), dnat]);
        }
        let known = names.iter().map(|name| format!("ip saddr @{name} goto {name}"));
        let new = one_of("vmap", names.iter().map(|name| format!("goto {name}")));
        known.chain([new]).collect()
    }

    fn finish(mut self) -> Rules {
        let pair = |(key, value): (String, String)| format!("{key} : {value}");
        let verdicts = "type ipv4_addr . inet_proto . inet_service : verdict";
        self.ruleset.map("frontends", verdicts, self.frontends.into_iter().map(pair));
        let unserved = self.unserved.into_iter().map(|(key, verdict)| pair((key, verdict.to_owned())));
        self.ruleset.map("unserved", verdicts, unserved);
        // An endpoint on this very machine that talks to itself needs no other address to get its answer.
        let own = &self.place.node_addresses;
        let hairpin = self.endpoints.iter().filter(|address| !own.contains(address));
        self.ruleset.set(
            "hairpin",
            "type ipv4_addr . ipv4_addr",
            hairpin.map(|address| format!("{address} . {address}")),
        );

        let translate = [&*format!("{KEY} vmap @frontends")];
        self.ruleset.hook("prerouting", "type nat hook prerouting priority -100", &translate);
        self.ruleset.hook("output", "type nat hook output priority -100", &translate);
        // After translation: what still goes to a Service's address was taken by none.
        let refuse = [&*format!("{KEY} vmap @unserved"), &format!("ip daddr {} goto refuse", self.place.services)];
        self.ruleset.hook("unserved-prerouting", "type filter hook prerouting priority 0", &refuse);
        self.ruleset.hook("unserved-output", "type filter hook output priority 0", &refuse);
        // The kernel sends few ICMP messages a second, and a client that gets none tries for minutes.
        let refuse = ["meta l4proto tcp reject with tcp reset", "reject"];
        self.ruleset.chain("refuse", refuse.map(str::to_owned).into());
        let masquerade = [
            &*format!(
                "meta mark & {MASQUERADE} == {MASQUERADE} meta mark set meta mark ^ {MASQUERADE} masquerade fully-random"
            ),
            "ct status dnat ip saddr . ip daddr @hairpin masquerade fully-random",
        ];
        self.ruleset.hook("postrouting", "type nat hook postrouting priority 100", &masquerade);
        Rules { ruleset: self.ruleset, udp: self.udp }
    }
}

/// An expression that is one of these, each as likely.
fn one_of(map: &str, choices: impl ExactSizeIterator<Item = String>) -> String {
    let count = choices.len();
    let choices: Vec<_> = choices.enumerate().map(|(index, choice)| format!("{index} : {choice}")).collect();
    format!("numgen random mod {count} {map} {{ {} }}", choices.join(", "))
}

#[cfg(test)]
mod tests;
