//! The rows of services, endpoints and what lets traffic in.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::format::{NONE, UNSET, age, first_few, joined, labels, name, plain, selector, text_or};
use crate::read::{int_at, is_empty_at, list_at, str_at, strings_at};

pub(super) fn service(service: &Value, now: Timestamp) -> Vec<Value> {
    let spec = &service["spec"];
    let cluster_ip = list_at(spec, "clusterIPs").first().and_then(Value::as_str).unwrap_or(str_at(spec, "clusterIP"));
    let ports: Vec<String> = list_at(spec, "ports")
        .iter()
        .map(|port| {
            let (number, protocol) = (int_at(port, "port"), text_or(port, "protocol", "TCP"));
            match int_at(port, "nodePort") {
                0 => format!("{number}/{protocol}"),
                node => format!("{number}:{node}/{protocol}"),
            }
        })
        .collect();
    vec![
        name(service),
        json!(str_at(spec, "type")),
        json!(if cluster_ip.is_empty() { NONE } else { cluster_ip }),
        json!(external_ip(service)),
        json!(joined(&ports)),
        age(service, now),
        json!(labels(spec, "selector")),
    ]
}

fn external_ip(service: &Value) -> String {
    let spec = &service["spec"];
    let given = strings_at(spec, "externalIPs");
    match str_at(spec, "type") {
        "ExternalName" => str_at(spec, "externalName").to_owned(),
        "LoadBalancer" => {
            let mut addresses = addresses(service);
            addresses.extend(given);
            if addresses.is_empty() { "<pending>".to_owned() } else { addresses.join(",") }
        }
        _ => joined(&given),
    }
}

/// Where the load balancer of a service or an ingress answers.
fn addresses(object: &Value) -> Vec<String> {
    let points = list_at(&object["status"]["loadBalancer"], "ingress");
    points.iter().map(|point| text_or(point, "ip", str_at(point, "hostname")).to_owned()).collect()
}

pub(super) fn endpoints(endpoints: &Value, now: Timestamp) -> Vec<Value> {
    let mut shown = Vec::new();
    for subset in list_at(endpoints, "subsets") {
        let addresses = || list_at(subset, "addresses").iter().map(|address| bracketed(str_at(address, "ip")));
        let ports = list_at(subset, "ports");
        if ports.is_empty() {
            shown.extend(addresses());
        }
        for port in ports {
            shown.extend(addresses().map(|ip| format!("{ip}:{}", int_at(port, "port"))));
        }
    }
    vec![name(endpoints), json!(first_few(&shown, 3)), age(endpoints, now)]
}

fn bracketed(ip: &str) -> String {
    if ip.contains(':') { format!("[{ip}]") } else { ip.to_owned() }
}

pub(super) fn endpoint_slice(slice: &Value, now: Timestamp) -> Vec<Value> {
    let port = |port: &Value| port.get("port").filter(|port| !port.is_null()).map_or_else(|| "*".to_owned(), plain);
    let ports: Vec<String> = list_at(slice, "ports").iter().map(port).collect();
    let addresses: Vec<String> =
        list_at(slice, "endpoints").iter().flat_map(|endpoint| strings_at(endpoint, "addresses")).collect();
    let or_unset = |items: &[String]| if items.is_empty() { UNSET.to_owned() } else { first_few(items, 3) };
    vec![
        name(slice),
        json!(str_at(slice, "addressType")),
        json!(or_unset(&ports)),
        json!(or_unset(&addresses)),
        age(slice, now),
    ]
}

pub(super) fn ingress(ingress: &Value, now: Timestamp) -> Vec<Value> {
    let spec = &ingress["spec"];
    let hosts: Vec<String> = list_at(spec, "rules").iter().map(|rule| text_or(rule, "host", "*").to_owned()).collect();
    let hosts = if hosts.is_empty() { "*".to_owned() } else { first_few(&hosts, 3) };
    vec![
        name(ingress),
        json!(text_or(spec, "ingressClassName", NONE)),
        json!(hosts),
        json!(addresses(ingress).join(",")),
        json!(if is_empty_at(spec, "tls") { "80" } else { "80, 443" }),
        age(ingress, now),
    ]
}

pub(super) fn ingress_class(class: &Value, now: Timestamp) -> Vec<Value> {
    let parameters = &class["spec"]["parameters"];
    let parameters = if parameters.is_null() {
        NONE.to_owned()
    } else {
        let group = str_at(parameters, "apiGroup");
        let dot = if group.is_empty() { "" } else { "." };
        format!("{}{dot}{group}/{}", str_at(parameters, "kind"), str_at(parameters, "name"))
    };
    vec![name(class), json!(str_at(&class["spec"], "controller")), json!(parameters), age(class, now)]
}

pub(super) fn policy(policy: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(policy), json!(selector(&policy["spec"]["podSelector"])), age(policy, now)]
}

#[cfg(test)]
mod tests {
    use super::super::tests::row;
    use super::*;

    #[test]
    fn a_service_shows_its_addresses_and_ports() {
        let mut service = json!({
            "metadata": {"name": "oak", "creationTimestamp": "2024-05-01T11:59:00Z"},
            "spec": {
                "type": "ClusterIP", "clusterIP": "10.0.0.1", "selector": {"a": "b"},
                "ports": [{"port": 80, "protocol": "TCP"}, {"port": 53, "protocol": "UDP", "nodePort": 30053}],
            },
        });
        assert_eq!(
            row("", "services", &service),
            "oak | ClusterIP | 10.0.0.1 | <none> | 80/TCP,53:30053/UDP | 60s | a=b"
        );
        service["spec"]["type"] = json!("LoadBalancer");
        assert!(row("", "services", &service).contains("<pending>"));
        service["status"] = json!({"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}});
        assert!(row("", "services", &service).contains("| 192.0.2.1 |"));
    }

    #[test]
    fn many_endpoints_are_cut_short() {
        let object = json!({
            "metadata": {"name": "oak"},
            "subsets": [{"addresses": [{"ip": "1"}, {"ip": "2"}, {"ip": "3"}, {"ip": "4"}], "ports": [{"port": 9}]}],
        });
        assert_eq!(row("", "endpoints", &object), "oak | 1:9,2:9,3:9 + 1 more... | <unknown>");
    }

    #[test]
    fn an_ingress_shows_its_hosts() {
        let object = json!({"metadata": {"name": "oak"}, "spec": {"rules": [{"host": "a.example"}], "tls": [{}]}});
        assert_eq!(row("networking.k8s.io", "ingresses", &object), "oak | <none> | a.example |  | 80, 443 | <unknown>");
    }
}
