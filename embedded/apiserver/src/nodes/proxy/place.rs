//! Where a proxied request goes: the address behind a pod, a Service or a node, by a name such as `https:web:443`.

use std::net::{IpAddr, SocketAddr};

use http::StatusCode;
use serde_json::Value;

use crate::call::Call;
use crate::nodes::{dial, find};
use crate::object::{meta, of_entry};
use crate::status::{ApiError, Reason};

/// How it is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scheme {
    Http,
    Https,
    /// As a node.
    Node,
}

/// Where a request goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) scheme: Scheme,
    pub(super) address: SocketAddr,
}

impl Place {
    pub(super) fn find(call: &Call<'_>) -> Result<Self, ApiError> {
        let (asked, namespace) = (call.name()?, call.namespace());
        let plural = call.served.resource.plural.as_str();
        let kind = call.served.resource.singular.as_str();
        let name =
            Name::parse(asked).ok_or_else(|| ApiError::bad_request(format!("invalid {kind} request {asked:?}")))?;
        let object = find(call.server, plural, namespace, name.object)?;
        let place = match plural {
            "pods" => of_pod(&object, name)?,
            "services" => {
                let address = random(&endpoints(&object, &slices(call, name.object)?, name)?);
                Self { scheme: name.scheme(), address }
            }
            _ => of_node(dial::address(call.server, name.object)?, name)?,
        };
        if is_allowed(place.address.ip(), call.server.reaches_loopback()) {
            return Ok(place);
        }
        Err(ApiError::bad_request("address not allowed"))
    }
}

/// A name with its parts: `web`, `web:80`, `https:web:443`, `http:web:`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Name<'a> {
    is_https: bool,
    object: &'a str,
    port: &'a str,
}

impl<'a> Name<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let parts: Vec<&str> = text.split(':').collect();
        let (scheme, object, port) = match parts.as_slice() {
            [object] => ("", *object, ""),
            [object, port] => ("", *object, *port),
            [scheme, object, port] => (*scheme, *object, *port),
            _ => return None,
        };
        let is_known = matches!(scheme, "" | "http" | "https");
        (is_known && !object.is_empty()).then_some(Self { is_https: scheme == "https", object, port })
    }

    fn scheme(self) -> Scheme {
        if self.is_https { Scheme::Https } else { Scheme::Http }
    }

    fn port_number(self) -> Result<Option<u16>, ApiError> {
        let wrong = || ApiError::bad_request(format!("invalid port {:?}", self.port));
        Some(self.port).filter(|port| !port.is_empty()).map(|port| port.parse().map_err(|_| wrong())).transpose()
    }
}

/// Whether a request may be passed on to an address. Whoever writes a status or an EndpointSlice names any, and must not
/// open what listens on this machine alone, or what a cloud tells machines of it at a link-local address.
fn is_allowed(ip: IpAddr, reaches_loopback: bool) -> bool {
    let ip = ip.to_canonical();
    let is_link_local = match ip {
        IpAddr::V4(ip) => ip.is_link_local() || ip.is_broadcast(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    };
    (reaches_loopback || !ip.is_loopback()) && !ip.is_unspecified() && !ip.is_multicast() && !is_link_local
}

fn of_pod(pod: &Value, name: Name<'_>) -> Result<Place, ApiError> {
    let mut containers = pod["spec"]["containers"].as_array().into_iter().flatten();
    let first = containers.find_map(|container| port(&container["ports"][0]["containerPort"]));
    let usual = if name.is_https { 443 } else { 80 };
    let port = name.port_number()?.or(first).unwrap_or(usual);
    let address: Option<IpAddr> = pod["status"]["podIP"].as_str().and_then(|ip| ip.parse().ok());
    let address = address.ok_or_else(|| ApiError::bad_request("address not allowed"))?;
    Ok(Place { scheme: name.scheme(), address: SocketAddr::new(address, port) })
}

fn of_node(node: SocketAddr, name: Name<'_>) -> Result<Place, ApiError> {
    match name.port_number()?.filter(|port| *port != node.port()) {
        None => Ok(Place { scheme: Scheme::Node, address: node }),
        Some(port) => Ok(Place { scheme: name.scheme(), address: SocketAddr::new(node.ip(), port) }),
    }
}

/// The EndpointSlices of a Service.
fn slices(call: &Call<'_>, service: &str) -> Result<Vec<Value>, ApiError> {
    let found = call.server.registry().find("discovery.k8s.io", "v1", "endpointslices");
    let served = found.ok_or_else(ApiError::no_such_path)?;
    let entries = call.server.store().list(&served.prefix(call.namespace()));
    let slices = entries.iter().map(|entry| of_entry(&served.resource, entry)).collect::<Result<Vec<_>, _>>()?;
    let is_its = |slice: &Value| slice["metadata"]["labels"]["kubernetes.io/service-name"] == service;
    Ok(slices.into_iter().filter(is_its).collect())
}

/// All addresses that are ready to serve a port of a Service. There is at least one.
fn endpoints(service: &Value, slices: &[Value], name: Name<'_>) -> Result<Vec<SocketAddr>, ApiError> {
    let unavailable = |message| ApiError::new(StatusCode::SERVICE_UNAVAILABLE, Reason::ServiceUnavailable, message);
    let ports: Vec<&Value> = service["spec"]["ports"].as_array().into_iter().flatten().collect();
    let number = name.port.parse::<u16>().ok().map(Value::from);
    let wanted = match ports.as_slice() {
        [only] if name.port.is_empty() => Some(*only),
        all => all.iter().copied().find(|port| port["name"] == name.port || Some(&port["port"]) == number.as_ref()),
    };
    let (asked, service) = (name.port, meta(service, "name"));
    let wanted =
        wanted.ok_or_else(|| unavailable(format!("no service port {asked:?} found for service {service:?}")))?;
    let port_name = wanted["name"].as_str().unwrap_or_default();
    let mut found = Vec::new();
    for slice in slices {
        let mut ports = slice["ports"].as_array().into_iter().flatten();
        let number = ports.find(|port| port["name"].as_str().unwrap_or_default() == port_name);
        let Some(number) = number.and_then(|found| port(&found["port"])) else { continue };
        let endpoints = slice["endpoints"].as_array().into_iter().flatten();
        let ready = endpoints.filter(|endpoint| endpoint["conditions"]["ready"] != false);
        let ips = ready.filter_map(|endpoint| endpoint["addresses"][0].as_str()?.parse::<IpAddr>().ok());
        found.extend(ips.map(|ip| SocketAddr::new(ip, number)));
    }
    if found.is_empty() {
        Err(unavailable(format!("no endpoints available for service {service:?}")))
    } else {
        Ok(found)
    }
}

fn random(addresses: &[SocketAddr]) -> SocketAddr {
    addresses[rand::random_range(0..addresses.len())]
}

fn port(value: &Value) -> Option<u16> {
    value.as_u64().and_then(|port| u16::try_from(port).ok())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn name(text: &str) -> Name<'_> {
        Name::parse(text).unwrap()
    }

    #[test]
    fn names_have_a_scheme_and_a_port_if_one_says_so() {
        assert_eq!(name("web"), Name { is_https: false, object: "web", port: "" });
        assert_eq!(name("web:api"), Name { is_https: false, object: "web", port: "api" });
        assert_eq!(name("https:web:443"), Name { is_https: true, object: "web", port: "443" });
        assert!(["", "ftp:web:21", "a:b:c:d", ":80"].iter().all(|text| Name::parse(text).is_none()));
    }

    #[test]
    fn a_pod_is_reached_at_its_first_port() {
        let pod = |ip: &str| json!({"spec": {"containers": [{}, {"ports": [{"containerPort": 8080}]}]}, "status": {"podIP": ip}});
        let at = |ip: &str, text| of_pod(&pod(ip), name(text)).map(|place| place.address.to_string());
        assert_eq!(at("10.1.0.9", "web").unwrap(), "10.1.0.9:8080");
        assert_eq!(at("10.1.0.9", "web:90").unwrap(), "10.1.0.9:90");
        assert_eq!(at("", "web").unwrap_err().message, "address not allowed");
        assert!(at("10.1.0.9", "web:http").is_err());
    }

    #[test]
    fn nothing_is_passed_on_to_this_machine_or_to_its_link() {
        let is_allowed = |ip: &str| is_allowed(ip.parse().unwrap(), false);
        for ip in ["10.1.0.9", "192.168.0.1", "2001:db8::1", "::ffff:10.1.0.9"] {
            assert!(is_allowed(ip), "{ip}");
        }
        let special = [
            "127.0.0.1",
            "127.9.9.9",
            "::1",
            "::ffff:127.0.0.1",
            "169.254.169.254",
            "::ffff:169.254.169.254",
            "fe80::1",
            "0.0.0.0",
            "::",
            "::ffff:0.0.0.0",
            "224.0.0.1",
            "ff02::1",
            "255.255.255.255",
        ];
        for ip in special {
            assert!(!is_allowed(ip), "{ip}");
        }
    }

    #[test]
    fn a_service_is_reached_at_its_ready_endpoints() {
        let service = json!({"metadata": {"name": "web"}, "spec": {"ports": [{"name": "a", "port": 80}, {"name": "b", "port": 90}]}});
        let slice = json!({
            "ports": [{"name": "a", "port": 8080}],
            "endpoints": [{"addresses": ["10.1.0.9"], "conditions": {"ready": true}}, {"addresses": ["10.1.0.8"], "conditions": {"ready": false}}],
        });
        let found = |text| endpoints(&service, std::slice::from_ref(&slice), name(text));
        let ready: Vec<SocketAddr> = vec!["10.1.0.9:8080".parse().unwrap()];
        assert_eq!((found("web:80").unwrap(), found("http:web:a").unwrap()), (ready.clone(), ready));
        assert_eq!(found("web:b").unwrap_err().message, "no endpoints available for service \"web\"");
        assert_eq!(found("web:c").unwrap_err().message, "no service port \"c\" found for service \"web\"");
    }
}
