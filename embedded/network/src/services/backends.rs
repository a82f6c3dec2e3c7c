//! Which endpoints serve a port of a Service now: everywhere, and on this node.

use std::collections::{BTreeMap, HashMap};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Service, ServicePort};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointConditions, EndpointSlice};
use kube::ResourceExt;

/// The label that says which Service a slice belongs to.
const SERVICE_NAME: &str = "kubernetes.io/service-name";

/// Slices by the Service that they belong to.
pub(crate) struct Slices<'a>(HashMap<(&'a str, &'a str), Vec<&'a EndpointSlice>>);

impl<'a> Slices<'a> {
    pub(crate) fn index(slices: &'a [Arc<EndpointSlice>]) -> Self {
        let mut index: HashMap<_, Vec<_>> = HashMap::new();
        for slice in slices.iter().filter(|slice| slice.address_type == "IPv4") {
            if let (Some(namespace), Some(service)) = (&slice.metadata.namespace, slice.labels().get(SERVICE_NAME)) {
                index.entry((namespace.as_str(), service.as_str())).or_default().push(&**slice);
            }
        }
        Self(index)
    }

    pub(crate) fn of(&self, service: &'a Service) -> &[&'a EndpointSlice] {
        let key = (service.metadata.namespace.as_deref(), service.metadata.name.as_deref());
        let (Some(namespace), Some(name)) = key else { return &[] };
        self.0.get(&(namespace, name)).map_or(&[], Vec::as_slice)
    }
}

/// The addresses of an endpoint. All of them mean the same endpoint, and the first is the one to use.
pub(crate) fn address(endpoint: &Endpoint) -> Option<Ipv4Addr> {
    endpoint.addresses.first()?.parse().ok()
}

/// Whether an endpoint may be sent anything. What is not said is true.
pub(crate) fn is_ready(endpoint: &Endpoint) -> bool {
    conditions(endpoint).ready != Some(false)
}

fn conditions(endpoint: &Endpoint) -> EndpointConditions {
    endpoint.conditions.clone().unwrap_or_default()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum State {
    /// On its way out, and still answering: used when no one else is left.
    Draining,
    Ready,
}

fn state(endpoint: &Endpoint) -> Option<State> {
    let EndpointConditions { serving, terminating, .. } = conditions(endpoint);
    if is_ready(endpoint) {
        return Some(State::Ready);
    }
    // Serving that is not said follows ready, which is false here.
    (serving == Some(true) && terminating == Some(true)).then_some(State::Draining)
}

#[derive(Clone, Copy)]
struct Candidate {
    state: State,
    local: bool,
}

/// The endpoints to use for one port.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Backends {
    pub(super) anywhere: Vec<SocketAddrV4>,
    /// Those on this node, by themselves: a draining one counts when no other is ready here.
    pub(super) local: Vec<SocketAddrV4>,
}

impl Backends {
    pub(super) fn choose(slices: &[&EndpointSlice], port: &ServicePort, node: Option<&str>) -> Self {
        let mut candidates = BTreeMap::new();
        for slice in slices {
            let Some(number) = target(slice, port) else { continue };
            for endpoint in &slice.endpoints {
                let (Some(address), Some(state)) = (address(endpoint), state(endpoint)) else { continue };
                let local = node.is_some() && endpoint.node_name.as_deref() == node;
                let candidate = Candidate { state, local };
                // While an endpoint moves from one slice to another it may be in both.
                candidates
                    .entry(SocketAddrV4::new(address, number))
                    .and_modify(|known: &mut Candidate| known.state = known.state.max(state))
                    .or_insert(candidate);
            }
        }
        Self { anywhere: best(&candidates, |_| true), local: best(&candidates, |candidate| candidate.local) }
    }
}

fn best(candidates: &BTreeMap<SocketAddrV4, Candidate>, eligible: impl Fn(&Candidate) -> bool) -> Vec<SocketAddrV4> {
    let eligible = || candidates.iter().filter(|(_, candidate)| eligible(candidate));
    let best = eligible().map(|(_, candidate)| candidate.state).max();
    eligible().filter(|(_, candidate)| Some(candidate.state) == best).map(|(address, _)| *address).collect()
}

/// The port that a slice's endpoints serve the Service's port at: the one of the same name, where no name is one, too.
fn target(slice: &EndpointSlice, port: &ServicePort) -> Option<u16> {
    let named = |name: &Option<String>| name.clone().unwrap_or_default();
    let protocol = |protocol: &Option<String>| protocol.clone().unwrap_or_else(|| "TCP".to_owned());
    let target = slice.ports.iter().flatten().find(|candidate| {
        named(&candidate.name) == named(&port.name) && protocol(&candidate.protocol) == protocol(&port.protocol)
    })?;
    u16::try_from(target.port?).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[allow(clippy::needless_pass_by_value, reason = "`json!` reads best where it is used")]
    fn choose(endpoints: serde_json::Value) -> (Vec<String>, Vec<String>) {
        let slice: EndpointSlice = serde_json::from_value(json!({
            "addressType": "IPv4", "ports": [{"name": "http", "port": 8080}], "endpoints": endpoints,
        }))
        .unwrap();
        let port = ServicePort { name: Some("http".to_owned()), port: 80, ..ServicePort::default() };
        let Backends { anywhere, local } = Backends::choose(&[&slice], &port, Some("here"));
        let text = |addresses: Vec<SocketAddrV4>| addresses.iter().map(ToString::to_string).collect();
        (text(anywhere), text(local))
    }

    #[test]
    fn ready_endpoints_are_used_and_others_are_not() {
        let (anywhere, local) = choose(json!([
            {"addresses": ["10.0.0.2"], "conditions": {"ready": true}},
            {"addresses": ["10.0.0.1"], "nodeName": "here"},
            {"addresses": ["10.0.0.3"], "conditions": {"ready": false, "serving": false}},
            {"addresses": ["10.0.0.4"], "conditions": {"ready": false, "serving": true, "terminating": true}},
        ]));
        assert_eq!(anywhere, ["10.0.0.1:8080", "10.0.0.2:8080"]);
        assert_eq!(local, ["10.0.0.1:8080"]);
    }

    #[test]
    fn endpoints_that_are_draining_serve_when_nobody_else_is_left_here_or_anywhere() {
        let draining = json!({"ready": false, "serving": true, "terminating": true});
        let (anywhere, local) = choose(json!([
            {"addresses": ["10.0.0.1"], "nodeName": "here", "conditions": draining},
            {"addresses": ["10.0.0.2"], "nodeName": "there"},
        ]));
        assert_eq!((anywhere, local), (vec!["10.0.0.2:8080".to_owned()], vec!["10.0.0.1:8080".to_owned()]));
        let (anywhere, _) = choose(json!([
            {"addresses": ["10.0.0.1"], "conditions": draining},
            {"addresses": ["10.0.0.2"], "conditions": {"ready": false, "serving": false, "terminating": true}},
        ]));
        assert_eq!(anywhere, ["10.0.0.1:8080"]);
    }

    #[test]
    fn ports_are_found_by_name_and_protocol() {
        let slice: EndpointSlice = serde_json::from_value(json!({
            "addressType": "IPv4", "endpoints": [],
            "ports": [{"name": "dns", "protocol": "UDP", "port": 53}, {"name": "dns", "port": 5353}, {"port": 80}],
        }))
        .unwrap();
        let find = |name: Option<&str>, protocol: Option<&str>| {
            let (name, protocol) = (name.map(str::to_owned), protocol.map(str::to_owned));
            target(&slice, &ServicePort { name, protocol, port: 1, ..ServicePort::default() })
        };
        assert_eq!(find(Some("dns"), Some("UDP")), Some(53));
        assert_eq!(find(Some("dns"), None), Some(5353));
        assert_eq!(find(None, Some("TCP")), Some(80));
        assert_eq!(find(Some("web"), None), None);
    }
}
