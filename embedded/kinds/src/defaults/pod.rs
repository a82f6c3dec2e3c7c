//! Defaults of pods and of the templates from which controllers make them.

use serde_json::{Value, json};

use super::volume;
use crate::image;
use crate::read::{bool_at, str_at};
use crate::write::{child, each, ensure, fill};

const CONTAINER_LISTS: [&str; 3] = ["containers", "initContainers", "ephemeralContainers"];

/// A pod: what its template would get, and what only makes sense for the pod itself.
pub(super) fn pod(pod: &mut Value) {
    let Some(spec) = child(pod, "spec") else { return };
    fill(spec, "enableServiceLinks", true);
    for list in &CONTAINER_LISTS[..2] {
        each(spec, list, requests_from_limits);
    }
    self::spec(spec);
}

/// A pod template.
pub(super) fn template(template: &mut Value) {
    if let Some(spec) = child(template, "spec") {
        self::spec(spec);
    }
}

fn spec(spec: &mut Value) {
    fill(spec, "dnsPolicy", "ClusterFirst");
    fill(spec, "restartPolicy", "Always");
    fill(spec, "schedulerName", "default-scheduler");
    fill(spec, "terminationGracePeriodSeconds", 30);
    ensure(spec, "securityContext");
    same_service_account(spec);
    let host_network = bool_at(spec, "hostNetwork");
    for list in CONTAINER_LISTS {
        each(spec, list, |item| container(item, host_network && list != "ephemeralContainers"));
    }
    each(spec, "volumes", volume::volume);
}

/// The old and the new spelling of the service account's name always agree; the new one wins.
fn same_service_account(spec: &mut Value) {
    let (new, old) = (str_at(spec, "serviceAccountName").to_owned(), str_at(spec, "serviceAccount").to_owned());
    match (new.is_empty(), old.is_empty()) {
        (true, true) => {}
        (true, false) => spec["serviceAccountName"] = json!(old),
        (false, _) => spec["serviceAccount"] = json!(new),
    }
}

fn container(container: &mut Value, host_network: bool) {
    fill(container, "terminationMessagePath", "/dev/termination-log");
    fill(container, "terminationMessagePolicy", "File");
    let policy = if image::tag(str_at(container, "image")) == Some("latest") { "Always" } else { "IfNotPresent" };
    fill(container, "imagePullPolicy", policy);
    ensure(container, "resources");
    each(container, "ports", |port| {
        fill(port, "protocol", "TCP");
        if host_network && let Some(number) = port.get("containerPort").cloned() {
            fill(port, "hostPort", number);
        }
    });
    each(container, "env", |variable| {
        if let Some(source) = child(variable, "valueFrom") {
            volume::downward(source);
        }
    });
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(probe) = child(container, name) {
            self::probe(probe);
        }
    }
    if let Some(lifecycle) = child(container, "lifecycle") {
        for name in ["postStart", "preStop"] {
            if let Some(handler) = child(lifecycle, name) {
                http(handler);
            }
        }
    }
}

fn probe(probe: &mut Value) {
    fill(probe, "timeoutSeconds", 1);
    fill(probe, "periodSeconds", 10);
    fill(probe, "successThreshold", 1);
    fill(probe, "failureThreshold", 3);
    http(probe);
    if let Some(call) = child(probe, "grpc") {
        fill(call, "service", "");
    }
}

fn http(handler: &mut Value) {
    if let Some(get) = child(handler, "httpGet") {
        fill(get, "path", "/");
        fill(get, "scheme", "HTTP");
    }
}

/// A container that says what it may use at most and not what it needs, needs that.
fn requests_from_limits(container: &mut Value) {
    let Some(resources) = child(container, "resources") else { return };
    let Some(limits) = resources.get("limits").and_then(Value::as_object).cloned() else { return };
    let Some(requests) = ensure(resources, "requests") else { return };
    for (name, amount) in limits {
        fill(requests, &name, amount);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::tests::defaulted;

    #[test]
    fn a_minimal_pod_comes_back_complete() {
        let pod = defaulted("", "pods", json!({"spec": {"containers": [{"name": "c", "image": "example.com/a"}]}}));
        assert_eq!(
            pod["spec"],
            json!({
                "containers": [{
                    "name": "c", "image": "example.com/a", "imagePullPolicy": "Always", "resources": {},
                    "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
                }],
                "dnsPolicy": "ClusterFirst", "enableServiceLinks": true, "restartPolicy": "Always",
                "schedulerName": "default-scheduler", "securityContext": {}, "terminationGracePeriodSeconds": 30,
            })
        );
    }

    #[test]
    fn an_image_with_a_tag_is_pulled_when_it_is_not_there() {
        let pod = defaulted("", "pods", json!({"spec": {"containers": [{"name": "c", "image": "a:5000/b:1.2"}]}}));
        assert_eq!(pod["spec"]["containers"][0]["imagePullPolicy"], "IfNotPresent");
    }

    #[test]
    fn probes_hooks_and_ports_are_completed() {
        let pod = defaulted(
            "",
            "pods",
            json!({"spec": {"containers": [{
                "name": "c", "image": "a:1", "ports": [{"containerPort": 80}],
                "readinessProbe": {"httpGet": {"port": 80}},
                "livenessProbe": {"grpc": {"port": 80}},
                "lifecycle": {"preStop": {"httpGet": {"port": 80}}},
                "env": [{"name": "N", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
            }]}}),
        );
        let container = &pod["spec"]["containers"][0];
        assert_eq!(container["ports"][0]["protocol"], "TCP");
        assert_eq!(
            container["readinessProbe"],
            json!({
                "httpGet": {"port": 80, "path": "/", "scheme": "HTTP"},
                "timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3,
            })
        );
        assert_eq!(container["livenessProbe"]["grpc"]["service"], "");
        assert_eq!(container["lifecycle"]["preStop"]["httpGet"]["scheme"], "HTTP");
        assert_eq!(container["env"][0]["valueFrom"]["fieldRef"]["apiVersion"], "v1");
    }

    #[test]
    fn limits_become_requests_in_pods_and_not_in_templates() {
        let containers = json!([{"name": "c", "image": "a:1", "resources": {"limits": {"cpu": 0.5}}}]);
        let pod = defaulted("", "pods", json!({"spec": {"containers": containers}}));
        assert_eq!(
            pod["spec"]["containers"][0]["resources"],
            json!({"limits": {"cpu": "500m"}, "requests": {"cpu": "500m"}})
        );
        let deployment =
            defaulted("apps", "deployments", json!({"spec": {"template": {"spec": {"containers": containers}}}}));
        let template = &deployment["spec"]["template"]["spec"];
        assert_eq!(template["containers"][0]["resources"], json!({"limits": {"cpu": "500m"}}));
        assert!(template.get("enableServiceLinks").is_none());
    }

    #[test]
    fn the_two_names_of_the_service_account_agree() {
        for given in [json!({"serviceAccount": "sa"}), json!({"serviceAccountName": "sa"})] {
            let pod = defaulted("", "pods", json!({"spec": given}));
            assert_eq!(pod["spec"]["serviceAccountName"], "sa");
            assert_eq!(pod["spec"]["serviceAccount"], "sa");
        }
    }

    #[test]
    fn ports_on_the_host_network_are_ports_of_the_host() {
        let pod = defaulted(
            "",
            "pods",
            json!({"spec": {"hostNetwork": true, "containers": [{"name": "c", "ports": [{"containerPort": 80}]}]}}),
        );
        assert_eq!(pod["spec"]["containers"][0]["ports"][0]["hostPort"], 80);
    }
}
