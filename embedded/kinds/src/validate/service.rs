//! Validation of services.

use std::collections::HashSet;
use std::net::IpAddr;

use serde_json::Value;

use super::names;
use super::report::Report;
use crate::read::{int_at, is_empty_at, list_at, str_at};

pub(super) fn service(object: &Value, old: Option<&Value>, report: &mut Report) {
    let spec = &object["spec"];
    let kind = str_at(spec, "type");
    let cluster_ip = str_at(spec, "clusterIP");
    if kind == "ExternalName" {
        if is_empty_at(spec, "externalName") {
            report.required("spec.externalName", "");
        }
        if !cluster_ip.is_empty() && cluster_ip != "None" {
            report.forbidden("spec.clusterIPs[0]", "may not be set when `type` is 'ExternalName'");
        }
    } else if is_empty_at(spec, "ports") && cluster_ip != "None" {
        report.required("spec.ports", "");
    }
    if !cluster_ip.is_empty() && cluster_ip != "None" && cluster_ip.parse::<IpAddr>().is_err() {
        report.invalid(
            "spec.clusterIPs[0]",
            cluster_ip,
            "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
        );
    }
    if kind == "LoadBalancer" && cluster_ip == "None" {
        report.invalid("spec.clusterIPs[0]", "None", "may not be set to 'None' for LoadBalancer services");
    }
    ports(spec, report);
    if matches!(kind, "ClusterIP" | "") {
        for (at, _) in list_at(spec, "ports").iter().enumerate().filter(|(_, port)| int_at(port, "nodePort") != 0) {
            let path = format!("spec.ports[{at}].nodePort");
            report.forbidden(path, "may not be used when `type` is 'ClusterIP'");
        }
    }
    if let Some(old) = old {
        let before = &old["spec"];
        let had = str_at(before, "clusterIP");
        let named = kind == "ExternalName" || str_at(before, "type") == "ExternalName";
        if !named && !had.is_empty() && had != cluster_ip {
            report.invalid("spec.clusterIPs[0]", cluster_ip, "may not change once set");
        }
    }
}

fn ports(spec: &Value, report: &mut Report) {
    let ports = list_at(spec, "ports");
    let (mut by_name, mut by_number) = (HashSet::new(), HashSet::new());
    for (at, port) in ports.iter().enumerate() {
        let path = format!("spec.ports[{at}]");
        let name = str_at(port, "name");
        if name.is_empty() && ports.len() > 1 {
            report.required(format!("{path}.name"), "");
        }
        if !name.is_empty() {
            report.name(format!("{path}.name"), name, names::label);
            if !by_name.insert(name) {
                report.duplicate(format!("{path}.name"), name);
            }
        }
        match port["port"].as_i64() {
            None => report.required(format!("{path}.port"), ""),
            Some(_) => report.between(format!("{path}.port"), &port["port"], 1, 65535),
        }
        match &port["targetPort"] {
            Value::String(text) => report.name(format!("{path}.targetPort"), text, names::port_name),
            number => report.between(format!("{path}.targetPort"), number, 1, 65535),
        }
        let key = (port["port"].as_i64(), str_at(port, "protocol"));
        if !by_number.insert(key) {
            let mut value = port.clone();
            value
                .as_object_mut()
                .into_iter()
                .for_each(|fields| fields.retain(|key, _| key == "port" || key == "protocol"));
            report.duplicate(path, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::tests::{assert_has, problems};
    use super::*;

    fn check(spec: &Value, old: Option<&Value>) -> Vec<String> {
        let old = old.map(|old| json!({"spec": old}));
        problems("", "services", &json!({"spec": spec}), old.as_ref())
    }

    #[test]
    fn a_service_has_ports_unless_it_is_headless_or_only_a_name() {
        assert_has(&check(&json!({}), None), "spec.ports: Required value");
        assert!(check(&json!({"clusterIP": "None"}), None).is_empty());
        assert!(check(&json!({"type": "ExternalName", "externalName": "a.example"}), None).is_empty());
        assert_has(&check(&json!({"type": "ExternalName"}), None), "spec.externalName: Required value");
    }

    #[test]
    fn several_ports_have_names_and_none_is_there_twice() {
        let problems =
            check(&json!({"ports": [{"port": 80}, {"port": 80, "name": "web"}, {"port": 0, "name": "web"}]}), None);
        assert_has(&problems, "spec.ports[0].name: Required value");
        assert_has(&problems, r#"spec.ports[1]: Duplicate value: {"port":80,"protocol":"TCP"}"#);
        assert_has(&problems, r#"spec.ports[2].name: Duplicate value: "web""#);
        assert_has(&problems, "spec.ports[2].port: Invalid value: 0: must be between 1 and 65535, inclusive");
    }

    #[test]
    fn the_address_of_a_service_does_not_change() {
        let ports = json!([{"port": 80}]);
        let old = json!({"clusterIP": "10.0.0.1", "ports": ports});
        let problems = check(&json!({"clusterIP": "10.0.0.2", "ports": ports}), Some(&old));
        assert_eq!(problems, [r#"spec.clusterIPs[0]: Invalid value: "10.0.0.2": may not change once set"#]);
        assert_eq!(check(&json!({"clusterIP": "ten", "ports": ports}), None).len(), 1);
    }
}
