//! Services by real connections through real namespaces, driven by objects of a real API.

mod testbed;

use std::collections::BTreeSet;

use c5c3_network::balancers::Pool;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::Api;
use serde_json::json;
use testbed::{LAN, MACHINE, NEIGHBOUR, NODE_1, NODE_2, Testbed};

const WEB: &str = "10.125.0.80";

/// A bed with the rules of Services kept on the machine and on both nodes.
async fn bed() -> Testbed {
    let bed = Testbed::new().await;
    bed.keep_services();
    bed
}

/// Who answers, and whom they take the client for, over many connections.
fn answers(bed: &Testbed, from: &str, to: (&str, &str, u16)) -> BTreeSet<String> {
    bed.ask_often(from, to, 40, 30).into_iter().collect()
}

fn set(answers: &[&str]) -> BTreeSet<String> {
    answers.iter().map(ToString::to_string).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_balances_for_pods_nodes_and_the_machine_and_lets_pods_reach_themselves() {
    let mut bed = bed().await;
    for pod in ["one", "two", "three"] {
        bed.serve(pod, "tcp", 8080);
    }
    bed.service("web", json!({"clusterIP": WEB, "ports": [{"port": 80}]})).await;
    bed.endpoints("web", &["one", "two", "three"], json!({"port": 8080})).await;
    for from in ["one", "three", "node1", "machine"] {
        bed.until(&format!("{from} reaches the Service"), || bed.reaches(from, WEB, 80)).await;
    }
    // A pod that reaches itself sees its node as the client; others see who it is.
    assert_eq!(answers(&bed, "one", ("tcp", WEB, 80)), set(&["one 10.8.1.1", "two 10.8.1.5", "three 10.8.1.5"]));
    assert_eq!(answers(&bed, "three", ("tcp", WEB, 80)), set(&["one 10.8.2.5", "two 10.8.2.5", "three 10.8.2.1"]));
    assert_eq!(answers(&bed, "node1", ("tcp", WEB, 80)), set(&["one 10.9.0.11", "two 10.9.0.11", "three 10.9.0.11"]));
    assert_eq!(answers(&bed, "machine", ("tcp", WEB, 80)), set(&["one 10.9.0.1", "two 10.9.0.1", "three 10.9.0.1"]));

    bed.delete::<EndpointSlice>("default", "web").await;
    bed.until("a Service without endpoints refuses", || bed.ask("one", WEB, 80) == "refused").await;
    bed.until("and so it does on the machine", || bed.ask("machine", WEB, 80) == "refused").await;
    assert_eq!(bed.ask("one", WEB, 81), "refused", "a port that the Service does not have");
    assert_eq!(bed.ask("one", "10.125.0.99", 80), "refused", "an address of no Service");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn node_ports_and_external_addresses_are_served_by_each_node() {
    let mut bed = bed().await;
    for pod in ["one", "three"] {
        bed.serve(pod, "tcp", 8080);
    }
    let ports = |number: u16| json!([{"port": 80, "nodePort": number}]);
    let spec = |address: &str, number: u16| json!({"type": "NodePort", "clusterIP": address, "ports": ports(number)});
    let mut cluster = spec(WEB, 30080);
    cluster["externalIPs"] = json!(["192.0.2.1"]);
    bed.service("web", cluster).await;
    let mut local = spec("10.125.0.81", 30081);
    local["externalTrafficPolicy"] = json!("Local");
    bed.service("near", local).await;
    let mut inside = json!({"clusterIP": "10.125.0.82", "ports": [{"port": 80}]});
    inside["internalTrafficPolicy"] = json!("Local");
    bed.service("inside", inside).await;
    for name in ["web", "inside"] {
        bed.endpoints(name, &["one", "three"], json!({"port": 8080})).await;
    }
    bed.endpoints("near", &["one"], json!({"port": 8080})).await;
    for (address, port) in [(NODE_1, 30080), (NODE_2, 30080), (NODE_1, 30081)] {
        bed.until(&format!("{address}:{port} answers"), || bed.reaches("machine", address, port)).await;
    }
    // Masqueraded by the node that was asked, so that the answer comes back through it.
    let asked = answers(&bed, "machine", ("tcp", NODE_1, 30080));
    assert_eq!(asked, set(&["one 10.8.1.1", "three 10.9.0.11"]));
    assert_eq!(answers(&bed, "node1", ("tcp", NODE_1, 30080)), asked, "and so is what a node asks of itself");
    bed.enter("machine", &["ip", "route", "add", "192.0.2.1", "via", NODE_2]);
    assert_eq!(answers(&bed, "machine", ("tcp", "192.0.2.1", 80)), set(&["one 10.9.0.12", "three 10.8.2.1"]));
    assert_eq!(answers(&bed, "two", ("tcp", NODE_2, 30080)), set(&["one 10.9.0.12", "three 10.8.2.1"]));

    // Local: the client is seen as it is, and a node without endpoints does not answer.
    assert_eq!(answers(&bed, "machine", ("tcp", NODE_1, 30081)), set(&[&format!("one {MACHINE}")]));
    assert!(!bed.reaches("machine", NODE_2, 30081));
    // Within the cluster there is no outside: pods of a node without endpoints reach those of others.
    bed.until("a pod reaches the port of its node", || bed.reaches("three", NODE_2, 30081)).await;
    assert_eq!(answers(&bed, "three", ("tcp", NODE_2, 30081)), set(&["one 10.8.2.5"]));
    assert_eq!(answers(&bed, "node2", ("tcp", NODE_2, 30081)), set(&["one 10.9.0.12"]));
    // Local for connections from inside.
    bed.until("the Service for nearby clients answers", || bed.reaches("two", "10.125.0.82", 80)).await;
    assert_eq!(answers(&bed, "two", ("tcp", "10.125.0.82", 80)), set(&["one 10.8.1.6"]));
    assert!(!bed.reaches("machine", "10.125.0.82", 80));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_stick_to_their_endpoint_while_other_services_change() {
    let mut bed = bed().await;
    for pod in ["one", "two", "three"] {
        bed.serve(pod, "tcp", 8080);
    }
    let affinity = json!({"clusterIP": WEB, "ports": [{"port": 80}], "sessionAffinity": "ClientIP"});
    bed.service("web", affinity).await;
    bed.endpoints("web", &["one", "two", "three"], json!({"port": 8080})).await;
    bed.until("the Service answers", || bed.reaches("two", WEB, 80)).await;
    let first = answers(&bed, "two", ("tcp", WEB, 80));
    assert_eq!(first.len(), 1, "{first:?}");
    bed.service("other", json!({"clusterIP": "10.125.0.81", "ports": [{"port": 80}]})).await;
    bed.endpoints("other", &["one"], json!({"port": 8080})).await;
    bed.until("the other Service answers", || bed.reaches("two", "10.125.0.81", 80)).await;
    assert_eq!(answers(&bed, "two", ("tcp", WEB, 80)), first);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn udp_is_balanced_and_leaves_an_endpoint_that_is_gone() {
    let mut bed = bed().await;
    for pod in ["one", "two"] {
        bed.serve(pod, "udp", 5353);
    }
    let port = json!({"name": "dns", "protocol": "UDP", "port": 5353});
    let ports = json!([{"name": "dns", "protocol": "UDP", "port": 53}]);
    bed.service("dns", json!({"clusterIP": "10.125.0.10", "ports": ports})).await;
    bed.endpoints("dns", &["one", "two"], port.clone()).await;
    let to = ("udp", "10.125.0.10", 53);
    let both = set(&["one 10.8.2.5", "two 10.8.2.5"]);
    bed.until("both answer", || bed.ask_often("three", to, 40, 2).into_iter().collect::<BTreeSet<_>>() == both).await;

    // The same client port, so that the kernel sees one flow.
    let mut chat = bed.chat("three", "udp", to.1, to.2);
    let first = chat.ask();
    assert!(both.contains(&first), "{first}");
    assert_eq!(chat.ask(), first);
    let other = if first.starts_with("one") { "two" } else { "one" };
    bed.delete::<EndpointSlice>("default", "dns").await;
    bed.endpoints("dns", &[other], port).await;
    bed.until("the flow moves to the endpoint that is left", || chat.ask() == format!("{other} 10.8.2.5")).await;
}

/// The address that a Service's load balancer has.
async fn balancer(bed: &Testbed, name: &str) -> Option<String> {
    let service = Api::<Service>::namespaced(bed.client(), "default").get(name).await.unwrap();
    service.status?.load_balancer?.ingress?.into_iter().next()?.ip
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_load_balancer_at_an_exposed_address_answers_neighbours_and_sees_who_they_are() {
    let mut bed = Testbed::new().await;
    bed.neighbour();
    bed.serve("one", "tcp", 8080);
    bed.keep_services_of(Pool::Exposed(LAN.parse().unwrap()));
    let spec = json!({"type": "LoadBalancer", "clusterIP": WEB, "ports": [{"port": 80, "nodePort": 30080}]});
    bed.service("web", spec).await;
    bed.endpoints("web", &["one"], json!({"port": 8080})).await;
    bed.until("the neighbour reaches the load balancer", || bed.reaches("neighbour", LAN, 80)).await;
    assert_eq!(balancer(&bed, "web").await.as_deref(), Some(LAN));
    let expected = format!("one {NEIGHBOUR}");
    assert_eq!(answers(&bed, "neighbour", ("tcp", LAN, 80)), set(&[&expected]));
    assert_eq!(answers(&bed, "neighbour", ("tcp", LAN, 30080)), set(&[&expected]), "its NodePort is exposed as well");
    assert_eq!(bed.ask("neighbour", LAN, 81), "refused", "a port that no Service has");
    assert!(bed.reaches("machine", LAN, 80) && bed.reaches("three", LAN, 80), "the machine and pods reach it too");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_load_balancer_answers_the_machine_alone_unless_an_address_is_exposed() {
    let mut bed = Testbed::new().await;
    bed.neighbour();
    bed.serve("one", "tcp", 8080);
    bed.keep_services();
    let spec = json!({"type": "LoadBalancer", "clusterIP": WEB, "ports": [{"port": 80, "nodePort": 30080}]});
    bed.service("web", spec).await;
    bed.endpoints("web", &["one"], json!({"port": 8080})).await;
    bed.until("the machine reaches the load balancer", || bed.reaches("machine", "10.9.0.129", 80)).await;
    assert_eq!(balancer(&bed, "web").await.as_deref(), Some("10.9.0.129"));
    assert!(bed.reaches("three", "10.9.0.129", 80) && bed.reaches("machine", MACHINE, 30080));
    for port in [80, 30080] {
        assert_eq!(bed.ask("neighbour", LAN, port), "refused", "{port}");
    }
}
