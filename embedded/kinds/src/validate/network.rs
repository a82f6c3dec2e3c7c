//! Validation of ingresses, network policies and endpoint slices.

use std::net::IpAddr;

use serde_json::Value;

use super::names;
use super::report::Report;
use crate::read::{is_empty_at, list_at, str_at, strings_at};

/// A slice is as long as this at most, and an endpoint has as many addresses at most.
const ENDPOINTS: usize = 1000;
const ADDRESSES: usize = 100;

pub(super) fn ingress(object: &Value, report: &mut Report) {
    let spec = &object["spec"];
    if is_empty_at(spec, "rules") && is_empty_at(spec, "defaultBackend") {
        report.invalid("spec", spec.clone(), "either `defaultBackend` or `rules` must be specified");
    }
    if !is_empty_at(spec, "defaultBackend") {
        backend("spec.defaultBackend", &spec["defaultBackend"], report);
    }
    for (at, rule) in list_at(spec, "rules").iter().enumerate() {
        let path = format!("spec.rules[{at}]");
        let host = str_at(rule, "host");
        if !host.is_empty() {
            report.name(format!("{path}.host"), host.strip_prefix("*.").unwrap_or(host), names::subdomain);
        }
        if !is_empty_at(rule, "http") && is_empty_at(&rule["http"], "paths") {
            report.required(format!("{path}.http.paths"), "");
        }
        for (at, item) in list_at(&rule["http"], "paths").iter().enumerate() {
            let path = format!("{path}.http.paths[{at}]");
            let route = str_at(item, "path");
            let must_be_absolute = matches!(str_at(item, "pathType"), "Exact" | "Prefix");
            if must_be_absolute && !route.starts_with('/') {
                report.invalid(format!("{path}.path"), route, "must be an absolute path");
            }
            backend(&format!("{path}.backend"), &item["backend"], report);
        }
    }
}

fn backend(path: &str, backend: &Value, report: &mut Report) {
    match (is_empty_at(backend, "service"), is_empty_at(backend, "resource")) {
        (true, true) => report.required(path, "either a service or a resource is required"),
        (false, false) => report.invalid(path, backend.clone(), "cannot set both resource and service backends"),
        (false, true) => {
            let port = &backend["service"]["port"];
            if is_empty_at(port, "name") && port["number"].as_i64().is_none_or(|number| number == 0) {
                report.required(format!("{path}.service.port"), "port name or number is required");
            }
            report.between(format!("{path}.service.port.number"), &port["number"], 0, 65535);
        }
        (true, false) => {}
    }
}

pub(super) fn policy(object: &Value, report: &mut Report) {
    let spec = &object["spec"];
    for (at, kind) in strings_at(spec, "policyTypes").into_iter().enumerate() {
        if !matches!(kind.as_str(), "Ingress" | "Egress") {
            report.unsupported(format!("spec.policyTypes[{at}]"), kind, &["Egress", "Ingress"]);
        }
    }
    for (direction, peers) in [("ingress", "from"), ("egress", "to")] {
        for (at, rule) in list_at(spec, direction).iter().enumerate() {
            for (peer_at, peer) in list_at(rule, peers).iter().enumerate() {
                let path = format!("spec.{direction}[{at}].{peers}[{peer_at}]");
                let selects = peer.get("podSelector").is_some() || peer.get("namespaceSelector").is_some();
                match (selects, peer.get("ipBlock").is_some()) {
                    (false, false) => report.required(path, "must specify a peer"),
                    (true, true) => report.forbidden(path, "may not specify both ipBlock and another peer"),
                    _ => {}
                }
            }
        }
    }
}

pub(super) fn endpoint_slice(object: &Value, old: Option<&Value>, report: &mut Report) {
    let endpoints = list_at(object, "endpoints");
    if endpoints.len() > ENDPOINTS {
        report.invalid("endpoints", endpoints.len(), format!("must have at most {ENDPOINTS} items"));
    }
    for (at, endpoint) in endpoints.iter().enumerate() {
        let (path, addresses) = (format!("endpoints[{at}].addresses"), list_at(endpoint, "addresses"));
        if addresses.is_empty() {
            report.required(&*path, "must contain at least 1 address");
        } else if addresses.len() > ADDRESSES {
            report.invalid(&*path, addresses.len(), format!("must have at most {ADDRESSES} items"));
        }
        for (at, address) in addresses.iter().filter_map(Value::as_str).enumerate() {
            endpoint_address(format!("{path}[{at}]"), str_at(object, "addressType"), address, report);
        }
    }
    if let Some(old) = old {
        report.immutable("addressType", &object["addressType"], &old["addressType"]);
    }
}

/// An address of an endpoint: of the slice's type, and one that packets can be sent to. Upstream refuses loopback
/// addresses as well; here they are accepted, since servers of tests listen there, and the proxy does not use them.
fn endpoint_address(path: String, kind: &str, address: &str, report: &mut Report) {
    let ip = match (kind, address.parse::<IpAddr>()) {
        ("FQDN", _) => return report.name(path, address, names::subdomain),
        ("IPv4", Ok(ip @ IpAddr::V4(_))) | ("IPv6", Ok(ip @ IpAddr::V6(_))) => ip.to_canonical(),
        ("IPv4", _) => return report.invalid(path, address, "must be an IPv4 address"),
        ("IPv6", _) => return report.invalid(path, address, "must be an IPv6 address"),
        _ => return,
    };
    let is_link_local = match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    };
    if ip.is_unspecified() {
        report.invalid(path, address, "may not be unspecified (0.0.0.0 or ::)");
    } else if is_link_local {
        report.invalid(path, address, "may not be in the link-local range (169.254.0.0/16, fe80::/10)");
    } else if ip.is_multicast() {
        report.invalid(path, address, "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)");
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::tests::{assert_has, problems};

    #[test]
    fn an_ingress_leads_somewhere() {
        let check = |spec| problems("networking.k8s.io", "ingresses", &json!({"spec": spec}), None);
        assert!(check(json!({}))[0].ends_with("either `defaultBackend` or `rules` must be specified"));
        let rule = |path_type: &str| {
            json!({"rules": [{"host": "*.example.com", "http": {"paths": [{
                "path": "/", "pathType": path_type, "backend": {"service": {"name": "s", "port": {"number": 80}}},
            }]}}]})
        };
        assert!(check(rule("Prefix")).is_empty());
        assert_has(&check(rule("")), "spec.rules[0].http.paths[0].pathType: Required value");
    }

    #[test]
    fn a_peer_of_a_network_policy_is_selected_or_addressed() {
        let found = problems(
            "networking.k8s.io",
            "networkpolicies",
            &json!({"spec": {"ingress": [{"from": [{}, {"podSelector": {}}, {"podSelector": {}, "ipBlock": {"cidr": "::/0"}}]}]}}),
            None,
        );
        assert_has(&found, "spec.ingress[0].from[0]: Required value: must specify a peer");
        assert_eq!(found.len(), 2);
    }

    #[test]
    fn an_endpoint_has_an_address_that_packets_can_be_sent_to() {
        let check = |kind: &str, address: &str| {
            let slice = json!({"addressType": kind, "endpoints": [{"addresses": [address]}]});
            problems("discovery.k8s.io", "endpointslices", &slice, None)
        };
        for (kind, address) in [("IPv4", "192.0.2.1"), ("IPv6", "2001:db8::1"), ("FQDN", "db.example.com")] {
            assert_eq!(check(kind, address), [""; 0], "{address}");
        }
        for (kind, address, why) in [
            ("IPv4", "169.254.169.254", "link-local range"),
            ("IPv4", "0.0.0.0", "unspecified"),
            ("IPv4", "224.0.0.1", "multicast"),
            ("IPv4", "2001:db8::1", "must be an IPv4 address"),
            ("IPv4", "db.example.com", "must be an IPv4 address"),
            ("IPv6", "::ffff:169.254.169.254", "link-local range"),
            ("IPv6", "fe80::1", "link-local range"),
            ("FQDN", "a b", "RFC 1123"),
        ] {
            let found = check(kind, address);
            assert!(found.len() == 1 && found[0].contains(why), "{address}: {found:?}");
            assert!(found[0].starts_with("endpoints[0].addresses[0]: Invalid value: "), "{found:?}");
        }
    }

    #[test]
    fn a_slice_keeps_its_family() {
        let slice = |family: &str, ip: &str| json!({"addressType": family, "endpoints": [{"addresses": [ip]}]});
        let (new, old) = (slice("IPv6", "2001:db8::1"), slice("IPv4", "192.0.2.1"));
        let found = problems("discovery.k8s.io", "endpointslices", &new, Some(&old));
        assert_eq!(found, [r#"addressType: Invalid value: "IPv6": field is immutable"#]);
    }
}
