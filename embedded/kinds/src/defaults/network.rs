//! Defaults of services, endpoints and network policies.

use serde_json::{Value, json};

use crate::read::{is_empty_at, str_at};
use crate::write::{child, each, ensure, fill};

pub(super) fn service(service: &mut Value) {
    let Some(spec) = child(service, "spec") else { return };
    fill(spec, "sessionAffinity", "None");
    if str_at(spec, "sessionAffinity") == "ClientIP"
        && let Some(by_client) = ensure(spec, "sessionAffinityConfig").and_then(|config| ensure(config, "clientIP"))
    {
        fill(by_client, "timeoutSeconds", 10800);
    }
    fill(spec, "type", "ClusterIP");
    let kind = str_at(spec, "type").to_owned();
    if kind != "ExternalName" {
        fill(spec, "internalTrafficPolicy", "Cluster");
    }
    if matches!(kind.as_str(), "NodePort" | "LoadBalancer") {
        fill(spec, "externalTrafficPolicy", "Cluster");
    }
    if kind == "LoadBalancer" {
        fill(spec, "allocateLoadBalancerNodePorts", true);
    }
    each(spec, "ports", |port| {
        fill(port, "protocol", "TCP");
        let number = port.get("port").cloned().unwrap_or_default();
        if port.get("targetPort").is_some_and(|target| target == 0) {
            port["targetPort"] = number.clone();
        }
        fill(port, "targetPort", number);
    });
}

/// A subset of Endpoints, a rule of a network policy: something with ports.
pub(super) fn port_protocols(of: &mut Value) {
    each(of, "ports", |port| fill(port, "protocol", "TCP"));
}

/// A port without a name is one with an empty name, so that ports can be told apart by name.
pub(super) fn endpoint_slice(slice: &mut Value) {
    port_protocols(slice);
    each(slice, "ports", |port| fill(port, "name", ""));
}

pub(super) fn policy(policy: &mut Value) {
    let Some(spec) = child(policy, "spec") else { return };
    ensure(spec, "podSelector");
    for direction in ["ingress", "egress"] {
        each(spec, direction, port_protocols);
    }
    let types = if is_empty_at(spec, "egress") { json!(["Ingress"]) } else { json!(["Ingress", "Egress"]) };
    fill(spec, "policyTypes", types);
}

pub(super) fn ingress_class(class: &mut Value) {
    if let Some(parameters) = child(class, "spec").and_then(|spec| child(spec, "parameters")) {
        fill(parameters, "scope", "Cluster");
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::defaulted;
    use super::*;

    #[test]
    fn a_service_forwards_to_the_port_of_the_same_number() {
        let service =
            defaulted("", "services", json!({"spec": {"ports": [{"port": 80}, {"port": 1, "targetPort": "x"}]}}));
        assert_eq!(
            service["spec"],
            json!({
                "type": "ClusterIP", "sessionAffinity": "None", "internalTrafficPolicy": "Cluster",
                "ports": [
                    {"port": 80, "targetPort": 80, "protocol": "TCP"},
                    {"port": 1, "targetPort": "x", "protocol": "TCP"},
                ],
            })
        );
    }

    #[test]
    fn traffic_policies_depend_on_the_type_of_the_service() {
        let name = defaulted("", "services", json!({"spec": {"type": "ExternalName"}}));
        assert_eq!(name["spec"], json!({"type": "ExternalName", "sessionAffinity": "None"}));
        let balancer = defaulted("", "services", json!({"spec": {"type": "LoadBalancer"}}));
        assert_eq!(balancer["spec"]["externalTrafficPolicy"], "Cluster");
        assert_eq!(balancer["spec"]["allocateLoadBalancerNodePorts"], true);
    }

    #[test]
    fn a_network_policy_is_about_ingress_and_about_egress_if_it_has_rules_for_it() {
        let policy =
            |spec: Value| defaulted("networking.k8s.io", "networkpolicies", json!({"spec": spec}))["spec"].clone();
        assert_eq!(policy(json!({})), json!({"podSelector": {}, "policyTypes": ["Ingress"]}));
        assert_eq!(
            policy(json!({"egress": [{"ports": [{"port": 53}]}]})),
            json!({
                "podSelector": {}, "policyTypes": ["Ingress", "Egress"],
                "egress": [{"ports": [{"port": 53, "protocol": "TCP"}]}],
            })
        );
    }
}
