//! What a server does over weeks, in seconds: what grows is removed, what is changed is put right, and a disk that was
//! full is written to again.

mod full_disk;
mod memory;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use c5c3_apiserver::{Config, Server, Storage, listen};
use c5c3_auth::UserInfo;
use http::{Method, Request};
use http_body_util::BodyExt;
use serde_json::{Value, json};

/// A server's answer.
struct Answer {
    code: u16,
    text: String,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }
}

async fn send(server: &Arc<Server>, method: Method, path: &str, body: &Value) -> Answer {
    let content_type = if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
    let request = Request::builder().method(method).uri(path).header("content-type", content_type).body(()).unwrap();
    let user = UserInfo::new("gardener", ["system:masters", "system:authenticated"]);
    let body = if body.is_null() { Bytes::new() } else { Bytes::from(body.to_string()) };
    let answer = server.handle(request.into_parts().0, body, user).await;
    let code = answer.status().as_u16();
    let bytes = answer.into_body().collect().await.unwrap().to_bytes();
    Answer { code, text: String::from_utf8(bytes.to_vec()).unwrap() }
}

async fn get(server: &Arc<Server>, path: &str) -> Answer {
    send(server, Method::GET, path, &Value::Null).await
}

/// Reads a path until its answer is as it should be.
async fn until(server: &Arc<Server>, path: &str, is_right: impl Fn(&Answer) -> bool) -> Answer {
    let waiting = async {
        loop {
            let answer = get(server, path).await;
            if is_right(&answer) {
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_mins(1), waiting).await.unwrap_or_else(|_| panic!("{path} is never right"))
}

/// How many objects are stored of each kind.
async fn counts(server: &Arc<Server>) -> Vec<String> {
    let metrics = get(server, "/metrics").await.text;
    metrics.lines().filter(|line| line.starts_with("apiserver_storage_objects{")).map(ToOwned::to_owned).collect()
}

const EVENTS: &str = "/api/v1/namespaces/default/events";

#[tokio::test]
async fn events_expire_so_that_a_server_holds_no_more_after_many_than_before() {
    let config = Config { event_ttl: Duration::from_secs(1), ..Config::new(Storage::Memory) };
    let server = Server::start(config).await.unwrap();
    until(&server, "/api/v1/namespaces/default/serviceaccounts/default", |answer| answer.code == 200).await;
    until(&server, "/api/v1/namespaces/kube-node-lease/configmaps/kube-root-ca.crt", |answer| answer.code == 200).await;
    until(&server, "/api/v1/namespaces/kube-public/configmaps/kube-root-ca.crt", |answer| answer.code == 200).await;
    until(&server, "/api/v1/namespaces/kube-system/configmaps/kube-root-ca.crt", |answer| answer.code == 200).await;
    let before = counts(&server).await;
    for round in 0..3 {
        for number in 0..300 {
            let about = json!({"kind": "Pod", "name": format!("p{number}"), "namespace": "default"});
            let event = json!({
                "metadata": {"name": format!("e{round}-{number}")}, "involvedObject": about,
                "reason": "BackOff", "message": "Back-off restarting failed container", "type": "Warning",
            });
            assert_eq!(send(&server, Method::POST, EVENTS, &event).await.code, 201);
        }
        until(&server, EVENTS, |answer| answer.json()["items"] == json!([])).await;
        assert_eq!(counts(&server).await, before, "round {round}");
    }
    server.stop().await;
}

#[tokio::test]
async fn what_the_server_looks_after_is_put_right_when_another_has_changed_it() {
    let server = Server::start(Config::new(Storage::Memory)).await.unwrap();
    let authority = "/api/v1/namespaces/default/configmaps/kube-root-ca.crt";
    let right = until(&server, authority, |answer| answer.code == 200).await.json();
    let wrong = json!({"data": {"ca.crt": "another one"}});
    assert_eq!(send(&server, Method::PATCH, authority, &wrong).await.code, 200);
    until(&server, authority, |answer| answer.json()["data"] == right["data"]).await;

    let quotas = "/api/v1/namespaces/default/resourcequotas";
    let quota = json!({"metadata": {"name": "q"}, "spec": {"hard": {"configmaps": "9"}}});
    send(&server, Method::POST, quotas, &quota).await;
    let counted = |answer: &Answer| answer.json()["status"]["used"]["configmaps"] == "1";
    let quota = format!("{quotas}/q");
    until(&server, &quota, counted).await;
    let wrong = json!({"status": {"used": {"configmaps": "7"}}});
    assert_eq!(send(&server, Method::PATCH, &format!("{quota}/status"), &wrong).await.code, 200);
    until(&server, &quota, counted).await;
    server.stop().await;
}

#[tokio::test]
async fn a_start_gives_stored_roles_what_they_lack() {
    let folder = tempfile::tempdir().unwrap();
    let config = Config::new(Storage::Folder(folder.path().to_owned()));
    let server = Server::start(config.clone()).await.unwrap();
    let role = "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:node";
    let had = get(&server, role).await.json()["rules"].as_array().unwrap().len();
    let own = json!({"verbs": ["prune"], "apiGroups": ["wood.example"], "resources": ["trees"]});
    assert_eq!(send(&server, Method::PATCH, role, &json!({"rules": [own]})).await.code, 200);
    server.stop().await;
    drop(server);

    let server = Server::start(config).await.unwrap();
    let rules = get(&server, role).await.json()["rules"].as_array().unwrap().clone();
    assert_eq!((rules.len(), &rules[0]), (had + 1, &own), "what a person has added stays");
    server.stop().await;
}

#[tokio::test]
async fn what_is_advertised_is_served() {
    let config = Config { advertise: Some("192.0.2.7".parse().unwrap()), ..Config::new(Storage::Memory) };
    let server = Server::start(config).await.unwrap();
    let listening = listen(&server, "127.0.0.1:0".parse().unwrap()).await.unwrap();
    let resources = get(&server, "/api/v1").await.json();
    let names: Vec<_> = resources["resources"].as_array().unwrap().iter().map(|resource| &resource["name"]).collect();
    assert!(names.contains(&&json!("pods/log")) && names.contains(&&json!("pods/ephemeralcontainers")));
    assert!(!names.contains(&&json!("pods/resize")));
    let discovery = get(&server, "/.well-known/openid-configuration").await.json();
    let keys = format!("https://192.0.2.7:{}/openid/v1/jwks", listening.address.port());
    assert_eq!(discovery["jwks_uri"], keys, "for those who verify tokens, wherever they are");
    let openapi = get(&server, "/openapi/v2").await.json();
    let policy = &openapi["definitions"]["io.k8s.api.core.v1.PodSpec"]["properties"]["restartPolicy"];
    assert_eq!(policy["enum"], json!(["Always", "Never", "OnFailure"]));
    server.stop().await;
}
