//! Probes, on a real containerd.

#![allow(clippy::needless_pass_by_value, reason = "`json!(..)` reads better than `&json!(..)`")]

mod support;

use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use support::{TestNode, container_status, has_condition, idle, sh};

fn with(mut container: Value, probe: &str, value: Value) -> Value {
    container[probe] = value;
    container[probe]["periodSeconds"] = 1.into();
    container
}

#[tokio::test]
async fn readiness_follows_its_probe_both_ways() {
    let node = TestNode::start().await;
    let exec = json!({"exec": {"command": ["cat", "/tmp/open"]}, "failureThreshold": 1});
    node.create("shop", json!({"containers": [with(idle("app"), "readinessProbe", exec)]})).await;
    node.event("shop", "Unhealthy: Readiness probe failed: cat: can't open '/tmp/open'").await;
    node.until("shop", |pod| has_condition(pod, "Ready", "False").then_some(())).await;
    node.exec("shop", "app", "touch /tmp/open").await;
    node.ready("shop").await;
    node.exec("shop", "app", "rm /tmp/open").await;
    let pod = node.until("shop", |pod| has_condition(pod, "Ready", "False").then(|| pod.clone())).await;
    assert_eq!(container_status(&pod, "app").unwrap().restart_count, 0);
}

#[tokio::test]
async fn a_container_that_fails_its_liveness_or_startup_probe_is_restarted() {
    let node = TestNode::start().await;
    let alive = json!({"exec": {"command": ["test", "!", "-e", "/tmp/dead"]}, "failureThreshold": 1});
    node.create("lives", json!({"containers": [with(idle("app"), "livenessProbe", alive)]})).await;
    let up = json!({"tcpSocket": {"port": 81}, "failureThreshold": 1});
    let liveness = json!({"exec": {"command": ["false"]}, "failureThreshold": 1});
    let starts = with(with(idle("app"), "startupProbe", up), "livenessProbe", liveness);
    node.create("starts", json!({"containers": [starts]})).await;

    node.ready("lives").await;
    node.exec("lives", "app", "touch /tmp/dead").await;
    node.until("lives", |pod| container_status(pod, "app").filter(|app| app.restart_count == 1 && app.ready)).await;
    node.event("lives", "Killing: Container app failed liveness probe, will be restarted").await;
    node.until("starts", |pod| container_status(pod, "app").filter(|app| app.restart_count >= 1)).await;
    let events = node.events("starts").await;
    assert!(events.contains("Startup probe failed: dial tcp "), "{events}");
    assert!(events.contains("Container app failed startup probe, will be restarted"), "{events}");
    assert!(!events.contains("Liveness probe"), "it begins after the startup probe: {events}");
}

#[tokio::test]
async fn a_server_is_probed_over_http_by_the_name_of_its_port() {
    let node = TestNode::start().await;
    let script = "mkdir /tmp/www; echo hi > /tmp/www/good; trap 'exit 0' TERM; httpd -p 8080 -h /tmp/www; \
                  while :; do sleep 0.1; done";
    let server = |path: &str| {
        let mut server = sh("app", script);
        server["ports"] = json!([{"name": "web", "containerPort": 8080}]);
        let get = json!({"httpGet": {"path": path, "port": "web"}, "failureThreshold": 3, "timeoutSeconds": 10});
        let connect = json!({"tcpSocket": {"port": "web"}, "failureThreshold": 10, "timeoutSeconds": 10});
        with(with(server, "readinessProbe", get), "startupProbe", connect)
    };
    node.create("good", json!({"containers": [server("/good")]})).await;
    node.create("bad", json!({"containers": [server("/none")]})).await;
    node.ready("good").await;
    node.event("bad", "Unhealthy: Readiness probe failed: HTTP probe failed with statuscode: 404").await;
}

#[tokio::test]
async fn who_begins_to_listen_is_ready_before_the_next_turn_of_its_probe() {
    let node = TestNode::start().await;
    let script = "trap 'exit 0' TERM; until [ -e /tmp/open ]; do sleep 0.1; done; httpd -p 8080 -h /tmp; \
                  while :; do sleep 0.1; done";
    let mut server =
        with(sh("app", script), "readinessProbe", json!({"tcpSocket": {"port": 8080}, "timeoutSeconds": 10}));
    server["readinessProbe"]["periodSeconds"] = 3600.into();
    node.create("slow", json!({"containers": [server]})).await;
    node.event("slow", "Unhealthy: Readiness probe failed: dial tcp ").await;
    node.exec("slow", "app", "touch /tmp/open").await;
    node.ready("slow").await;
}

#[tokio::test]
async fn a_pod_waits_for_its_readiness_gates() {
    let node = TestNode::start().await;
    let gates = json!([{"conditionType": "shop.test/open"}]);
    node.create("gated", json!({"containers": [idle("app")], "readinessGates": gates})).await;
    let pod = node.until("gated", |pod| has_condition(pod, "ContainersReady", "True").then(|| pod.clone())).await;
    assert!(has_condition(&pod, "Ready", "False"));
    let open = json!({"status": {"conditions": [{"type": "shop.test/open", "status": "True"}]}});
    node.pods().patch_status("gated", &PatchParams::default(), &Patch::Strategic(open)).await.unwrap();
    let pod = node.ready("gated").await;
    assert!(has_condition(&pod, "shop.test/open", "True"));
}
