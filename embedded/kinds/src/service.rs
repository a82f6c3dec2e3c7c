//! What a Service has been given and keeps: addresses, families, ports of nodes. Who hands them out is elsewhere.

use std::collections::HashSet;

use serde_json::Value;

use crate::read::{bool_at, int_at, is_empty_at, list_at, str_at};
use crate::write::{each, put};

/// Whether the ports of a Service are ports of the nodes, too.
pub fn has_node_ports(spec: &Value) -> bool {
    match str_at(spec, "type") {
        "NodePort" => true,
        "LoadBalancer" => {
            spec.get("allocateLoadBalancerNodePorts").is_none() || bool_at(spec, "allocateLoadBalancerNodePorts")
        }
        _ => false,
    }
}

/// Whether nodes are asked over a port of their own if they have an endpoint of the Service.
pub fn has_health_port(spec: &Value) -> bool {
    str_at(spec, "type") == "LoadBalancer" && str_at(spec, "externalTrafficPolicy") == "Local"
}

fn has_address(spec: &Value) -> bool {
    str_at(spec, "type") != "ExternalName"
}

fn is_external(spec: &Value) -> bool {
    matches!(str_at(spec, "type"), "NodePort" | "LoadBalancer")
}

/// Whether something has a meaning for a Service.
type Applies = fn(&Value) -> bool;

/// Puts back what a change leaves out and has no reason to lose, and drops what means nothing for the type that it
/// changes to, unless the change is about just that.
pub(crate) fn keep_what_was_given(spec: &mut Value, old: &Value) {
    keep_addresses(spec, old);
    if has_node_ports(old) && has_node_ports(spec) {
        keep_node_ports(spec, old);
    }
    if has_health_port(old) && has_health_port(spec) {
        keep(spec, old, "healthCheckNodePort");
    }
    let given: [(Applies, &[&str]); 4] = [
        (has_address, &["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy"]),
        (has_health_port, &["healthCheckNodePort"]),
        (is_external, &["externalTrafficPolicy"]),
        (|spec| str_at(spec, "type") == "LoadBalancer", &["allocateLoadBalancerNodePorts", "loadBalancerClass"]),
    ];
    for (applies, fields) in given {
        if applies(old) && !applies(spec) {
            for field in fields {
                drop_same(spec, old, field);
            }
        }
    }
    if has_node_ports(old) && !has_node_ports(spec) && node_ports(spec) == node_ports(old) {
        each(spec, "ports", |port| drop_field(port, "nodePort"));
    }
}

fn keep(spec: &mut Value, old: &Value, field: &str) {
    if is_empty_at(spec, field)
        && let Some(value) = old.get(field)
    {
        put(spec, field, value.clone());
    }
}

fn drop_field(value: &mut Value, field: &str) {
    if let Some(fields) = value.as_object_mut() {
        fields.remove(field);
    }
}

fn drop_same(spec: &mut Value, old: &Value, field: &str) {
    if spec.get(field) == old.get(field) {
        drop_field(spec, field);
    }
}

fn keep_addresses(spec: &mut Value, old: &Value) {
    if !has_address(old) || !has_address(spec) {
        return;
    }
    keep(spec, old, "clusterIP");
    keep(spec, old, "ipFamilyPolicy");
    if str_at(spec, "clusterIP") == str_at(old, "clusterIP") {
        keep(spec, old, "clusterIPs");
        keep(spec, old, "ipFamilies");
    }
}

fn node_ports(spec: &Value) -> Vec<i64> {
    list_at(spec, "ports").iter().map(|port| int_at(port, "nodePort")).collect()
}

/// A port keeps the node's port that the one of the same name had, unless another has taken it.
fn keep_node_ports(spec: &mut Value, old: &Value) {
    let mut used: HashSet<i64> = node_ports(spec).into_iter().collect();
    let before = list_at(old, "ports");
    each(spec, "ports", |port| {
        if int_at(port, "nodePort") != 0 {
            return;
        }
        let same = before.iter().find(|before| str_at(before, "name") == str_at(port, "name"));
        let had = same.map_or(0, |before| int_at(before, "nodePort"));
        if had != 0 && used.insert(had) {
            put(port, "nodePort", had);
        }
    });
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn changed(mut spec: Value, old: &Value) -> Value {
        keep_what_was_given(&mut spec, old);
        spec
    }

    #[test]
    fn what_a_change_leaves_out_stays() {
        let old = json!({
            "type": "NodePort", "clusterIP": "10.0.0.5", "clusterIPs": ["10.0.0.5"], "ipFamilies": ["IPv4"],
            "ipFamilyPolicy": "SingleStack", "ports": [{"name": "a", "port": 1, "nodePort": 30001}, {"name": "b", "port": 2, "nodePort": 30002}],
        });
        let kept =
            changed(json!({"type": "NodePort", "ports": [{"name": "b", "port": 3}, {"name": "c", "port": 4}]}), &old);
        assert_eq!((&kept["clusterIP"], &kept["clusterIPs"]), (&json!("10.0.0.5"), &json!(["10.0.0.5"])));
        assert_eq!(kept["ports"], json!([{"name": "b", "port": 3, "nodePort": 30002}, {"name": "c", "port": 4}]));
        let moved = json!({"type": "NodePort", "ports": [{"name": "a", "port": 3}, {"name": "z", "port": 4, "nodePort": 30001}]});
        assert!(changed(moved, &old)["ports"][0].get("nodePort").is_none(), "another port has it now");
    }

    #[test]
    fn what_means_nothing_for_the_new_type_goes() {
        let old = json!({
            "type": "LoadBalancer", "clusterIP": "10.0.0.5", "clusterIPs": ["10.0.0.5"], "allocateLoadBalancerNodePorts": true,
            "externalTrafficPolicy": "Local", "healthCheckNodePort": 30009, "ports": [{"port": 1, "nodePort": 30001}],
        });
        let mut new = old.clone();
        new["type"] = json!("ClusterIP");
        let cut =
            json!({"type": "ClusterIP", "clusterIP": "10.0.0.5", "clusterIPs": ["10.0.0.5"], "ports": [{"port": 1}]});
        assert_eq!(changed(new.clone(), &old), cut);
        new["ports"][0]["nodePort"] = json!(30007);
        assert_eq!(changed(new, &old)["ports"][0]["nodePort"], 30007, "who asks for it is to hear that it is wrong");
        let name = json!({"type": "ExternalName", "externalName": "a.example", "ports": [{"port": 1}]});
        assert_eq!(changed(name.clone(), &old), name);
    }
}
