//! What the server fetches from nodes, proved on a pretend one: logs, connections that are upgraded, and proxied pages.

mod client;
mod pretend;

use client::Cluster;
use http::{Method, StatusCode};
use serde_json::json;

const LOG: &str = "/api/v1/namespaces/default/pods/web/log";
const EXEC: &str = "/api/v1/namespaces/default/pods/web/exec";

#[tokio::test]
async fn a_log_comes_from_the_pods_node_which_is_asked_by_the_api_server_itself() {
    let cluster = Cluster::with_pod().await;
    let log = cluster.get(&format!("{LOG}?container=app&tailLines=5&follow=true")).await;
    assert_eq!((log.status, log.media.as_str()), (StatusCode::OK, "text/plain"));
    let wanted = "kube-apiserver-kubelet-client asks GET /containerLogs/default/web/app?follow=true&tailLines=5\n";
    assert_eq!(log.text, wanted);
}

#[tokio::test]
async fn a_log_can_be_read_over_a_websocket() {
    let cluster = Cluster::with_pod().await;
    let asked = |protocol| {
        [
            ("upgrade", "websocket"),
            ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
            ("sec-websocket-version", "13"),
            ("sec-websocket-protocol", protocol),
        ]
    };
    let path = format!("{LOG}?container=app");
    let connection = cluster.upgrade(Method::GET, &path, &asked("binary.k8s.io")).await.unwrap();
    let log = "kube-apiserver-kubelet-client asks GET /containerLogs/default/web/app?\n".as_bytes();
    let message = [&[0x82, u8::try_from(log.len()).unwrap()][..], log, &[0x88, 2, 0x03, 0xe8]].concat();
    connection.says_no_more_than(&message).await;
    let refused = cluster.upgrade(Method::GET, &path, &asked("channel.k8s.io")).await.unwrap_err();
    assert_eq!(refused.status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn what_a_node_refuses_is_told_in_its_words() {
    let cluster = Cluster::with_pod().await;
    let refused = cluster.get(&format!("{LOG}?container=side")).await;
    let (status, said) = (refused.status, refused.json());
    assert_eq!((status, &said["reason"]), (StatusCode::BAD_REQUEST, &json!("BadRequest")));
    assert_eq!(said["message"], "container \"side\" in pod \"web\" is waiting to start: ContainerCreating");
    let choice = cluster.get(LOG).await.json();
    assert_eq!(choice["message"], "a container name must be specified for pod web, choose one of: [app side]");
    let wrong = cluster.get(&format!("{LOG}?container=app&tailLines=-1")).await;
    assert_eq!(wrong.status, StatusCode::UNPROCESSABLE_ENTITY);
    let gone = cluster.get("/api/v1/namespaces/default/pods/none/log").await.json();
    assert_eq!(gone["message"], "pods \"none\" not found");
}

#[tokio::test]
async fn a_pod_without_a_node_has_an_empty_log_and_no_connections() {
    let cluster = Cluster::with_pod().await;
    cluster.create_pod("waiting", None).await;
    let log = cluster.get("/api/v1/namespaces/default/pods/waiting/log?container=app").await;
    assert_eq!((log.status, log.text.as_str()), (StatusCode::OK, ""));
    let path = "/api/v1/namespaces/default/pods/waiting/exec?container=app&command=ls";
    let refused = cluster.upgrade(Method::POST, path, &[("upgrade", "SPDY/3.1")]).await.unwrap_err();
    assert_eq!(refused.json()["message"], "pod waiting does not have a host assigned");
}

#[tokio::test]
async fn a_node_that_is_gone_is_named_with_the_reason() {
    let cluster = Cluster::with_pod().await;
    cluster.create_node("elm", 1).await;
    cluster.create_pod("lost", Some("elm")).await;
    let said = cluster.get("/api/v1/namespaces/default/pods/lost/log?container=app").await.json();
    let message = said["message"].as_str().unwrap();
    assert!(message.contains("/containerLogs/default/lost/app?\": dial tcp 127.0.0.1:1: connect:"), "{message}");
    cluster.create_pod("nowhere", Some("birch")).await;
    let said = cluster.get("/api/v1/namespaces/default/pods/nowhere/log?container=app").await.json();
    assert_eq!(said["message"], "nodes \"birch\" not found");
}

#[tokio::test]
async fn an_upgraded_connection_is_copied_both_ways() {
    let cluster = Cluster::with_pod().await;
    for (method, path, headers, asked) in [
        (
            Method::POST,
            format!("{EXEC}?container=app&command=sh&command=-c&stdin=true&stdout=true"),
            vec![("upgrade", "SPDY/3.1"), ("x-stream-protocol-version", "v4.channel.k8s.io")],
            "POST /exec/default/web/app?input=1&output=1&command=sh&command=-c SPDY/3.1",
        ),
        (
            Method::GET,
            "/api/v1/namespaces/default/pods/web/attach?container=app&stdout=1".to_owned(),
            vec![("upgrade", "websocket"), ("sec-websocket-protocol", "v5.channel.k8s.io, v4.channel.k8s.io")],
            "GET /attach/default/web/app?output=1 websocket",
        ),
        (
            Method::POST,
            "/api/v1/namespaces/default/pods/web/portforward".to_owned(),
            vec![("upgrade", "SPDY/3.1")],
            "POST /portForward/default/web SPDY/3.1",
        ),
    ] {
        let mut connection = cluster.upgrade(method, &path, &headers).await.unwrap();
        connection.says(&format!("{asked}\n")).await;
        // More than any buffer on the way holds, and nothing of it is text.
        let bytes: Vec<u8> = (0..1_000_000_u32).map(|number| number.to_le_bytes()[number as usize % 3]).collect();
        connection.echoes(&bytes).await;
        connection.echoes(b"bye").await;
        connection.ends_when_the_node_hangs_up().await;
    }
}

#[tokio::test]
async fn newer_handshakes_are_refused_where_clients_have_to_go_on_with_older_ones() {
    let cluster = Cluster::with_pod().await;
    let headers = |protocol| [("upgrade", "websocket"), ("sec-websocket-protocol", protocol)];
    for (protocol, streams) in [("v5.channel.k8s.io", "stdin=true"), ("SPDY/3.1+portforward.k8s.io", "stdout=true")] {
        let path = format!("{EXEC}?container=app&command=ls&{streams}");
        let refused = cluster.upgrade(Method::GET, &path, &headers(protocol)).await.unwrap_err();
        assert_eq!(refused.status, StatusCode::BAD_REQUEST, "{protocol}");
    }
    // Without input, whose end could not be told to the runtime, the fifth version is the fourth.
    let path = format!("{EXEC}?container=app&command=ls&stdout=true");
    let _connection = cluster.upgrade(Method::GET, &path, &headers("v5.channel.k8s.io")).await.unwrap();
    let plain = cluster.get(&format!("{EXEC}?container=app&command=ls")).await;
    assert_eq!(plain.json()["message"], "Upgrade request required");
}

#[tokio::test]
async fn connections_need_the_permission_for_the_subresource() {
    let cluster = Cluster::with_pod().await;
    let eve = cluster.client_of("eve", &[]);
    let refused = eve.get(LOG).await;
    assert_eq!(refused.status, StatusCode::FORBIDDEN);
    let said = refused.json()["message"].as_str().unwrap().to_owned();
    assert!(said.contains("cannot get resource \"pods/log\""), "{said}");
    let refused = eve.upgrade(Method::POST, EXEC, &[("upgrade", "SPDY/3.1")]).await.unwrap_err();
    let said = refused.json()["message"].as_str().unwrap().to_owned();
    assert!(said.contains("cannot create resource \"pods/exec\""), "{said}");
}

#[tokio::test]
async fn what_a_service_serves_is_reached_through_the_api_with_its_links() {
    let cluster = Cluster::with_pod().await;
    cluster.create_service().await;
    let proxy = "/api/v1/namespaces/default/services/web:http/proxy";
    let page = cluster.get(&format!("{proxy}/page?a=b")).await;
    assert_eq!(page.text, format!("GET /page?a=b <a href=\"{proxy}/rewriteme\">test</a>"));
    let root = cluster.get(proxy).await;
    assert_eq!((root.status, root.location), (StatusCode::MOVED_PERMANENTLY, format!("{proxy}/")));
    let moved = cluster.get(&format!("{proxy}/moved")).await;
    assert_eq!((moved.status, moved.location), (StatusCode::FOUND, format!("{proxy}/elsewhere")));
    let sent = cluster.send(Method::PUT, &format!("{proxy}/kept"), "a body").await;
    assert_eq!(sent.text, "PUT /kept a body");
    let none = cluster.get("/api/v1/namespaces/default/services/web:other/proxy/").await;
    assert_eq!(none.status, StatusCode::SERVICE_UNAVAILABLE);
    let health = cluster.get(&format!("/api/v1/nodes/{}/proxy/healthz", client::NODE)).await;
    assert_eq!(health.text, "kube-apiserver-kubelet-client asks GET /healthz\n");
}
