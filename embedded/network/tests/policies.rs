//! NetworkPolicies by real connections through real namespaces, driven by objects of a real API.

mod testbed;

use c5c3_network::policies::{self, Place};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::networking::v1::NetworkPolicy;
use serde_json::{Value, json};
use testbed::{MACHINE, PODS, Testbed};

const ONE: &str = PODS[0].2;
const TWO: &str = PODS[1].2;
const THREE: &str = PODS[2].2;

/// A bed whose pods are known to the API and serve, with policies kept on both nodes.
async fn bed() -> Testbed {
    let mut bed = Testbed::new().await;
    for (name, node, address) in PODS {
        bed.serve(name, "tcp", 8080);
        let pod = json!({
            "metadata": {"name": name, "labels": {"app": name}},
            "spec": {"nodeName": format!("node{node}"), "containers": [
                {"name": "c", "image": "i", "ports": [{"name": "http", "containerPort": 8080}]},
            ]},
            "status": {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}]},
        });
        bed.create::<Pod>("default", pod).await;
    }
    for node in ["node1", "node2"] {
        let dns = Some(MACHINE.parse().unwrap());
        let place = Place { table: "c5c3-policies".to_owned(), node: node.to_owned(), dns };
        let (client, namespace) = (bed.client(), bed.namespace(node));
        bed.start(move |stop| policies::run(client, namespace, place, stop));
    }
    bed
}

async fn policy(bed: &Testbed, name: &str, spec: Value) {
    bed.create::<NetworkPolicy>("default", json!({"metadata": {"name": name}, "spec": spec})).await;
}

fn app(name: &str) -> Value {
    json!({"matchLabels": {"app": name}})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_default_deny_blocks_all_but_the_node_and_goes_away_again() {
    let bed = bed().await;
    for from in ["two", "three", "machine"] {
        bed.until(&format!("{from} reaches a pod without policies"), || bed.reaches(from, ONE, 8080)).await;
    }
    policy(&bed, "deny", json!({"podSelector": {}, "policyTypes": ["Ingress"]})).await;
    for (from, to) in [("two", ONE), ("three", ONE), ("machine", ONE), ("one", THREE)] {
        bed.until(&format!("{from} is kept from {to}"), || !bed.reaches(from, to, 8080)).await;
    }
    assert_eq!(bed.ask("node1", ONE, 8080), "one 10.8.1.1", "a node reaches its own pods: probes");
    assert!(!bed.reaches("node2", ONE, 8080), "and no others");
    bed.delete::<NetworkPolicy>("default", "deny").await;
    for (from, to) in [("two", ONE), ("three", ONE), ("one", THREE)] {
        bed.until(&format!("{from} reaches {to} again"), || bed.reaches(from, to, 8080)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_any_policy_allows_passes_and_both_ends_must_allow() {
    let bed = bed().await;
    policy(&bed, "deny", json!({"podSelector": {}, "policyTypes": ["Ingress", "Egress"]})).await;
    let from = json!([{"podSelector": app("two")}, {"ipBlock": {"cidr": "10.9.0.0/24", "except": ["10.9.0.12/32"]}}]);
    let ports = json!([{"port": "http"}]);
    policy(&bed, "into-one", json!({"podSelector": app("one"), "ingress": [{"from": from, "ports": ports}]})).await;
    bed.until("the machine may, by its address", || bed.reaches("machine", ONE, 8080)).await;
    bed.until("a pod may not leave by itself", || !bed.reaches("two", ONE, 8080)).await;
    assert!(!bed.reaches("node2", ONE, 8080), "an address that is excepted");

    let out = json!([{"to": [{"podSelector": app("one")}], "ports": [{"port": 8000, "endPort": 8100}]}]);
    policy(&bed, "out-of-two", json!({"podSelector": app("two"), "policyTypes": ["Egress"], "egress": out})).await;
    bed.until("two on one node may, when both ends allow", || bed.reaches("two", ONE, 8080)).await;
    let out = json!([{"to": [{"podSelector": app("one")}]}]);
    policy(&bed, "out-of-three", json!({"podSelector": app("three"), "policyTypes": ["Egress"], "egress": out})).await;
    policy(&bed, "into-two", json!({"podSelector": app("two"), "ingress": [{}]})).await;
    bed.until("everybody may come in where all may", || bed.reaches("machine", TWO, 8080)).await;
    assert!(!bed.reaches("three", ONE, 8080), "leaving is allowed, coming in is not");
    assert!(!bed.reaches("three", TWO, 8080), "coming in is allowed, leaving is not");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn policies_see_the_pods_behind_a_service_and_a_pod_reaches_itself_through_it() {
    let bed = bed().await;
    bed.keep_services();
    for (name, address) in [("one", "10.125.0.101"), ("three", "10.125.0.103")] {
        bed.service(name, json!({"clusterIP": address, "ports": [{"port": 80}]})).await;
        bed.endpoints(name, &[name], json!({"port": 8080})).await;
        bed.until(&format!("one reaches the Service {name}"), || bed.reaches("one", address, 80)).await;
    }
    policy(&bed, "deny", json!({"podSelector": app("one"), "policyTypes": ["Ingress", "Egress"]})).await;
    bed.until("one is kept from three", || !bed.reaches("one", "10.125.0.103", 80)).await;
    bed.until("two is kept from one", || !bed.reaches("two", "10.125.0.101", 80)).await;
    assert_eq!(bed.ask("one", "10.125.0.101", 80), "one 10.8.1.1");
    let out = json!([{"to": [{"podSelector": app("three")}], "ports": [{"port": 8080}]}]);
    policy(&bed, "out", json!({"podSelector": app("one"), "policyTypes": ["Egress"], "egress": out})).await;
    bed.until("one may go to the pod, by the port it has there", || bed.reaches("one", "10.125.0.103", 80)).await;
}
