//! The variables by which a pod finds the Services of its namespace.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Service;

use crate::pod::Pod;

/// `TILL_SERVICE_HOST` and its like, for each Service with an address; the API's own in every pod.
pub(super) fn variables(pod: &Pod, services: &[Service]) -> BTreeMap<String, String> {
    let has_links = pod.spec().enable_service_links != Some(false);
    let mut found = BTreeMap::new();
    for service in services {
        let namespace = service.metadata.namespace.as_deref().unwrap_or_default();
        let name = service.metadata.name.as_deref().unwrap_or_default();
        let is_api = (namespace, name) == ("default", "kubernetes");
        if is_api || (has_links && namespace == pod.namespace()) {
            // A Service of that name in the pod's own namespace must not hide the API.
            let hides_api = !is_api && name == "kubernetes" && found.contains_key("KUBERNETES_SERVICE_HOST");
            if !hides_api {
                found.extend(of(name, service));
            }
        }
    }
    found
}

fn of(name: &str, service: &Service) -> Vec<(String, String)> {
    let upper = |text: &str| text.to_uppercase().replace('-', "_");
    let spec = service.spec.clone().unwrap_or_default();
    let Some(ip) = spec.cluster_ip.filter(|ip| !ip.is_empty() && ip != "None") else { return Vec::new() };
    let ports = spec.ports.unwrap_or_default();
    let Some(first) = ports.first() else { return Vec::new() };
    let prefix = upper(name);
    let url = |protocol: &str, port: i32| format!("{}://{ip}:{port}", protocol.to_lowercase());
    let first_protocol = first.protocol.as_deref().unwrap_or("TCP");
    let mut all = vec![
        (format!("{prefix}_SERVICE_HOST"), ip.clone()),
        (format!("{prefix}_SERVICE_PORT"), first.port.to_string()),
        (format!("{prefix}_PORT"), url(first_protocol, first.port)),
    ];
    for port in &ports {
        let protocol = port.protocol.as_deref().unwrap_or("TCP");
        if let Some(name) = port.name.as_deref().filter(|name| !name.is_empty()) {
            all.push((format!("{prefix}_SERVICE_PORT_{}", upper(name)), port.port.to_string()));
        }
        let prefix = format!("{prefix}_PORT_{}_{}", port.port, protocol.to_uppercase());
        all.push((prefix.clone(), url(protocol, port.port)));
        all.push((format!("{prefix}_PROTO"), protocol.to_lowercase()));
        all.push((format!("{prefix}_PORT"), port.port.to_string()));
        all.push((format!("{prefix}_ADDR"), ip.clone()));
    }
    all
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::pod::testing::pod;

    fn service(namespace: &str, name: &str, ip: &str) -> Service {
        let ports = json!([{"name": "web-ui", "port": 80}, {"port": 53, "protocol": "UDP"}]);
        let spec = json!({"clusterIP": ip, "ports": ports});
        serde_json::from_value(json!({"metadata": {"name": name, "namespace": namespace}, "spec": spec})).unwrap()
    }

    fn names(spec: Value) -> BTreeMap<String, String> {
        let services = [
            service("default", "kubernetes", "10.125.0.1"),
            service("shop", "my-till", "10.125.0.7"),
            service("shop", "headless", "None"),
            service("other", "far", "10.125.0.8"),
        ];
        variables(&pod(spec), &services)
    }

    #[test]
    fn a_service_of_the_namespace_has_its_variables() {
        let made = names(json!({}));
        let expected = [
            ("MY_TILL_SERVICE_HOST", "10.125.0.7"),
            ("MY_TILL_SERVICE_PORT", "80"),
            ("MY_TILL_SERVICE_PORT_WEB_UI", "80"),
            ("MY_TILL_PORT", "tcp://10.125.0.7:80"),
            ("MY_TILL_PORT_53_UDP", "udp://10.125.0.7:53"),
            ("MY_TILL_PORT_53_UDP_PROTO", "udp"),
            ("KUBERNETES_SERVICE_HOST", "10.125.0.1"),
        ];
        for (name, value) in expected {
            assert_eq!(made.get(name).map(String::as_str), Some(value), "{name}");
        }
        assert!(!made.keys().any(|name| name.starts_with("FAR") || name.starts_with("HEADLESS")));
    }

    #[test]
    fn without_links_only_the_api_is_there() {
        let made = names(json!({"enableServiceLinks": false}));
        assert!(made.keys().all(|name| name.starts_with("KUBERNETES_")) && !made.is_empty());
    }
}
