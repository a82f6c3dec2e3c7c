//! What upstream's conformance specs ask for, in a server of this process: definitions as protobuf, ephemeral containers,
//! runtime classes, the addresses of Services as objects, generations of pods and classes of volumes.

mod addresses;
mod definitions;
mod pods;
mod storage;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use c5c3_apiserver::{Config, Server, Storage};
use c5c3_auth::UserInfo;
use http::{Method, Request};
use http_body_util::BodyExt;
use serde_json::Value;

/// A server, as its administrator sees it.
struct Api(Arc<Server>);

impl Api {
    async fn start() -> Self {
        Self(Server::start(Config::new(Storage::Memory)).await.unwrap())
    }

    async fn raw(&self, method: Method, path: &str, content_type: &str, body: Vec<u8>) -> (u16, Value) {
        let request =
            Request::builder().method(method).uri(path).header("content-type", content_type).body(()).unwrap();
        let user = UserInfo::new("gardener", ["system:masters", "system:authenticated"]);
        let answer = self.0.handle(request.into_parts().0, Bytes::from(body), user).await;
        let code = answer.status().as_u16();
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        (code, serde_json::from_slice(&body).unwrap())
    }

    async fn get(&self, path: &str) -> (u16, Value) {
        self.raw(Method::GET, path, "application/json", Vec::new()).await
    }

    async fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        self.raw(Method::POST, path, "application/json", body.to_string().into_bytes()).await
    }

    async fn put(&self, path: &str, body: &Value) -> (u16, Value) {
        self.raw(Method::PUT, path, "application/json", body.to_string().into_bytes()).await
    }

    /// A strategic merge patch, as kubectl sends it.
    async fn patch(&self, path: &str, body: &Value) -> (u16, Value) {
        let content_type = "application/strategic-merge-patch+json";
        self.raw(Method::PATCH, path, content_type, body.to_string().into_bytes()).await
    }

    async fn delete(&self, path: &str) -> u16 {
        self.raw(Method::DELETE, path, "application/json", Vec::new()).await.0
    }

    /// Reads a path until the answer is as it should be.
    async fn until(&self, path: &str, is_right: impl Fn(&(u16, Value)) -> bool) -> Value {
        let waiting = async {
            loop {
                let answer = self.get(path).await;
                if is_right(&answer) {
                    return answer.1;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), waiting).await.unwrap_or_else(|_| panic!("{path} is never right"))
    }
}
