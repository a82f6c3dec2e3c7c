//! The server among its Services: where it says that it is, and what it remembers over a restart.

use std::sync::Arc;

use bytes::Bytes;
use c5c3_apiserver::{Config, Server, Storage, listen};
use c5c3_auth::UserInfo;
use http::{Method, Request};
use http_body_util::BodyExt;
use serde_json::{Value, json};

async fn send(server: &Arc<Server>, method: Method, path: &str, body: &Value) -> Value {
    let request = Request::builder().method(method).uri(path).body(()).unwrap();
    let user = UserInfo::new("gardener", ["system:masters", "system:authenticated"]);
    let answer = server.handle(request.into_parts().0, Bytes::from(body.to_string()), user).await;
    serde_json::from_slice(&answer.into_body().collect().await.unwrap().to_bytes()).unwrap()
}

#[tokio::test]
async fn the_advertised_address_is_behind_the_servers_own_service_and_addresses_survive_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let config = Config {
        advertise: Some("192.0.2.7".parse().unwrap()),
        service_range: "10.9.0.0/24".parse().unwrap(),
        ..Config::new(Storage::Folder(folder.path().to_owned()))
    };
    let server = Server::start(config.clone()).await.unwrap();
    let listening = listen(&server, "127.0.0.1:0".parse().unwrap()).await.unwrap();
    let port = json!(listening.address.port());
    let read = |path: &'static str| send(&server, Method::GET, path, &Value::Null);

    let own = read("/api/v1/namespaces/default/services/kubernetes").await;
    assert_eq!((&own["spec"]["clusterIP"], &own["spec"]["ports"][0]["targetPort"]), (&json!("10.9.0.1"), &port));
    let endpoints = read("/api/v1/namespaces/default/endpoints/kubernetes").await;
    let subset = &endpoints["subsets"][0];
    assert_eq!((&subset["addresses"][0]["ip"], &subset["ports"][0]["port"]), (&json!("192.0.2.7"), &port));
    let slice = read("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes").await;
    assert_eq!(slice["endpoints"][0]["addresses"], json!(["192.0.2.7"]));
    assert_eq!(slice["metadata"]["labels"]["kubernetes.io/service-name"], "kubernetes");

    let service = |name: &str, address: &Value| json!({"metadata": {"name": name}, "spec": {"clusterIP": address, "ports": [{"port": 80}]}});
    let services = "/api/v1/namespaces/default/services";
    let address = send(&server, Method::POST, services, &service("a", &Value::Null)).await["spec"]["clusterIP"].take();
    server.stop().await;
    listening.finished().await;
    drop(server);

    let server = Server::start(config).await.unwrap();
    let refused = send(&server, Method::POST, services, &service("b", &address)).await;
    assert!(refused["message"].as_str().unwrap().ends_with("provided IP is already allocated"), "{refused}");
    server.stop().await;
}
