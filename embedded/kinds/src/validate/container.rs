//! Validation of containers.

use std::collections::HashSet;

use serde_json::Value;

use super::names;
use super::report::Report;
use super::security;
use super::volume;
use crate::quantity::Quantity;
use crate::read::{entries_at, is_empty_at, list_at, str_at};

/// What a container is surrounded by.
pub(super) struct Scene<'v> {
    /// The names of the pod's volumes.
    pub(super) volumes: &'v HashSet<&'v str>,
    /// Whether it runs before the others.
    pub(super) init: bool,
}

pub(super) fn container(path: &str, container: &Value, scene: &Scene<'_>, report: &mut Report) {
    let name = str_at(container, "name");
    if !name.is_empty() {
        report.name(format!("{path}.name"), name, names::label);
    }
    let image = str_at(container, "image");
    if image.is_empty() {
        report.required(format!("{path}.image"), "");
    } else if image.trim() != image {
        report.invalid(format!("{path}.image"), image, "must not have leading or trailing whitespace");
    }
    ports(path, container, report);
    for (at, variable) in list_at(container, "env").iter().enumerate() {
        report.name(format!("{path}.env[{at}].name"), str_at(variable, "name"), names::variable);
        if !is_empty_at(variable, "value") && !is_empty_at(variable, "valueFrom") {
            report.invalid(format!("{path}.env[{at}].valueFrom"), "", "may not be specified when `value` is not empty");
        }
    }
    mounts(path, container, scene, report);
    devices(path, container, scene, report);
    security::container(path, container, report);
    resources(path, container, report);
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(settings) = container.get(probe).filter(|settings| settings.is_object()) {
            if scene.init && str_at(container, "restartPolicy") != "Always" {
                let why = "may not be set for init containers without restartPolicy=Always";
                report.forbidden(format!("{path}.{probe}"), why);
            }
            self::probe(&format!("{path}.{probe}"), settings, report);
        }
    }
    if !scene.init && !is_empty_at(container, "restartPolicy") {
        report.forbidden(format!("{path}.restartPolicy"), "may not be set for non-init containers");
    }
}

fn ports(path: &str, container: &Value, report: &mut Report) {
    let mut seen = HashSet::new();
    for (at, port) in list_at(container, "ports").iter().enumerate() {
        let path = format!("{path}.ports[{at}]");
        let name = str_at(port, "name");
        if !name.is_empty() {
            report.name(format!("{path}.name"), name, names::port_name);
            if !seen.insert(name) {
                report.duplicate(format!("{path}.name"), name);
            }
        }
        match port["containerPort"].as_i64() {
            None | Some(0) => report.required(format!("{path}.containerPort"), ""),
            Some(_) => report.between(format!("{path}.containerPort"), &port["containerPort"], 1, 65535),
        }
        if port["hostPort"] != 0 {
            report.between(format!("{path}.hostPort"), &port["hostPort"], 1, 65535);
        }
        if !is_empty_at(port, "hostIP") {
            security::address(format!("{path}.hostIP"), str_at(port, "hostIP"), report);
        }
    }
}

/// A port of the host can be taken once.
pub(super) fn host_ports(
    path: &str,
    container: &Value,
    taken: &mut HashSet<(String, i64, String)>,
    report: &mut Report,
) {
    for (at, port) in list_at(container, "ports").iter().enumerate() {
        let Some(number) = port["hostPort"].as_i64().filter(|number| *number != 0) else { continue };
        let (address, protocol) = (str_at(port, "hostIP").to_owned(), str_at(port, "protocol").to_owned());
        let text = format!("{protocol}/{address}/{number}");
        if !taken.insert((address, number, protocol)) {
            report.duplicate(format!("{path}.ports[{at}].hostPort"), text);
        }
    }
}

fn mounts(path: &str, container: &Value, scene: &Scene<'_>, report: &mut Report) {
    let mut paths = HashSet::new();
    for (at, mount) in list_at(container, "volumeMounts").iter().enumerate() {
        let path = format!("{path}.volumeMounts[{at}]");
        let (name, target) = (str_at(mount, "name"), str_at(mount, "mountPath"));
        if !name.is_empty() && !scene.volumes.contains(name) {
            report.not_found(format!("{path}.name"), name);
        }
        if !target.is_empty() && !paths.insert(target) {
            report.invalid(format!("{path}.mountPath"), target, "must be unique");
        }
        let inner = str_at(mount, "subPath");
        volume::descending_path(format!("{path}.subPath"), inner, report);
        let expression = str_at(mount, "subPathExpr");
        volume::descending_path(format!("{path}.subPathExpr"), expression, report);
        if !inner.is_empty() && !expression.is_empty() {
            let why = "subPathExpr and subPath are mutually exclusive";
            report.invalid(format!("{path}.subPathExpr"), expression, why);
        }
        let is_privileged = container["securityContext"]["privileged"] == true;
        if str_at(mount, "mountPropagation") == "Bidirectional" && !is_privileged {
            let why = "Bidirectional mount propagation is available only to privileged containers";
            report.forbidden(format!("{path}.mountPropagation"), why);
        }
    }
}

fn devices(path: &str, container: &Value, scene: &Scene<'_>, report: &mut Report) {
    for (at, device) in list_at(container, "volumeDevices").iter().enumerate() {
        let path = format!("{path}.volumeDevices[{at}]");
        let (name, place) = (str_at(device, "name"), str_at(device, "devicePath"));
        if !name.is_empty() && !scene.volumes.contains(name) {
            report.not_found(format!("{path}.name"), name);
        }
        if place.split('/').any(|step| step == "..") {
            report.invalid(format!("{path}.devicePath"), place, "can not contain backsteps ('..')");
        }
    }
}

fn resources(path: &str, container: &Value, report: &mut Report) {
    let resources = &container["resources"];
    for kind in ["limits", "requests"] {
        for (name, amount) in entries_at(resources, kind) {
            if Quantity::from_json(amount).is_some_and(Quantity::is_negative) {
                let path = format!("{path}.resources.{kind}[{name}]");
                report.invalid(path, amount.clone(), "must be greater than or equal to 0");
            }
        }
    }
    for (name, request) in entries_at(resources, "requests") {
        let limit = resources["limits"].get(name);
        let (Some(wanted), Some(most)) = (Quantity::from_json(request), limit.and_then(Quantity::from_json)) else {
            continue;
        };
        if wanted > most {
            let why = format!("must be less than or equal to {name} limit of {most}");
            report.invalid(format!("{path}.resources.requests"), request.clone(), why);
        }
    }
}

fn probe(path: &str, probe: &Value, report: &mut Report) {
    let handlers = ["exec", "httpGet", "tcpSocket", "grpc"].iter().filter(|kind| probe.get(**kind).is_some()).count();
    match handlers {
        0 => report.required(path, "must specify a handler type"),
        1 => {}
        _ => report.forbidden(path, "may not specify more than 1 handler type"),
    }
    for field in ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"] {
        report.not_negative(format!("{path}.{field}"), &probe[field]);
    }
    let only_once = !path.ends_with("readinessProbe");
    if only_once && probe["successThreshold"].as_i64().is_some_and(|times| times > 1) {
        report.invalid(format!("{path}.successThreshold"), probe["successThreshold"].clone(), "must be 1");
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::tests::{assert_has, problems};
    use super::*;

    fn check(container: &Value) -> Vec<String> {
        let mut container = container.clone();
        container["name"] = json!("c");
        problems("", "pods", &json!({"spec": {"containers": [container]}}), None)
    }

    #[test]
    fn a_container_needs_an_image() {
        assert_eq!(check(&json!({})), ["spec.containers[0].image: Required value"]);
    }

    #[test]
    fn ports_are_in_range_and_their_names_unique() {
        let problems = check(&json!({"image": "i", "ports": [
            {"containerPort": 70000, "name": "web"}, {"containerPort": 80, "name": "web"}, {},
            {"containerPort": 81, "hostPort": 90}, {"containerPort": 82, "hostPort": 90},
        ]}));
        assert_has(
            &problems,
            "spec.containers[0].ports[0].containerPort: Invalid value: 70000: must be between 1 and 65535, inclusive",
        );
        assert_has(&problems, r#"spec.containers[0].ports[1].name: Duplicate value: "web""#);
        assert_has(&problems, "spec.containers[0].ports[2].containerPort: Required value");
        assert_has(&problems, r#"spec.containers[0].ports[4].hostPort: Duplicate value: "TCP//90""#);
    }

    #[test]
    fn mounts_refer_to_volumes_and_do_not_hide_each_other() {
        let problems = check(&json!({"image": "i", "volumeMounts": [
            {"name": "gone", "mountPath": "/a"}, {"name": "gone", "mountPath": "/a", "subPath": "../x"},
        ]}));
        assert_has(&problems, r#"spec.containers[0].volumeMounts[0].name: Not found: "gone""#);
        assert_has(&problems, r#"spec.containers[0].volumeMounts[1].mountPath: Invalid value: "/a": must be unique"#);
        assert_has(
            &problems,
            r#"spec.containers[0].volumeMounts[1].subPath: Invalid value: "../x": must not contain '..'"#,
        );
    }

    #[test]
    fn requests_do_not_exceed_limits() {
        let problems =
            check(&json!({"image": "i", "resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "1500m"}}}));
        assert_eq!(
            problems,
            [
                r#"spec.containers[0].resources.requests: Invalid value: "1500m": must be less than or equal to cpu limit of 1"#
            ]
        );
    }

    #[test]
    fn a_probe_has_one_handler() {
        assert_has(
            &check(&json!({"image": "i", "livenessProbe": {}})),
            "spec.containers[0].livenessProbe: Required value: must specify a handler type",
        );
    }
}
