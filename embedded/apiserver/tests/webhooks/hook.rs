//! A webhook, and a cluster to register it in.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::Body;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use c5c3_apiserver::{Config, Server, Storage};
use c5c3_auth::{Pki, UserInfo};
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// What a webhook does with a request.
#[derive(Clone)]
pub enum Does {
    /// Answers with this response, and the request's uid.
    Answer(Value),
    /// Answers with a response made of the request.
    Decide(fn(&Value) -> Value),
    /// Answers with this text.
    Say(&'static str),
    /// Takes its time, and allows.
    Dawdle(Duration),
}

/// A webhook that listens, over TLS, and remembers what it was asked.
pub struct Hook {
    pub port: u16,
    pub ca: String,
    asked: Arc<Mutex<Vec<Value>>>,
}

impl Hook {
    pub async fn start(does: Does) -> Self {
        let pki = Pki::in_memory(&["127.0.0.1".into(), "hook.orchard.svc".into()], Timestamp::now()).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let acceptor = TlsAcceptor::from(Arc::new(pki.tls().unwrap()));
        let asked = Arc::new(Mutex::new(Vec::new()));
        let remembered = asked.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, does, asked) = (acceptor.clone(), does.clone(), remembered.clone());
                tokio::spawn(async move {
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    let service = hyper::service::service_fn(|request| answer(&does, &asked, request));
                    let _ = hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), service)
                        .await;
                });
            }
        });
        Self { port, ca: STANDARD.encode(pki.ca_pem()), asked }
    }

    /// The requests so far.
    pub fn asked(&self) -> Vec<Value> {
        self.asked.lock().unwrap().clone()
    }

    /// The names of the objects of the requests so far.
    pub fn names(&self) -> Vec<String> {
        self.asked().iter().map(|request| request["name"].as_str().unwrap_or_default().to_owned()).collect()
    }

    /// An entry for a configuration: everything about config maps, but for what `with` says.
    pub fn entry(&self, name: &str, with: Value) -> Value {
        let mut entry = json!({
            "name": name, "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "clientConfig": {"url": format!("https://127.0.0.1:{}/review", self.port), "caBundle": self.ca},
            "rules": [{"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}],
        });
        if let Value::Object(with) = with {
            with.into_iter().for_each(|(field, value)| entry[field] = value);
        }
        entry
    }
}

async fn answer(
    does: &Does,
    asked: &Mutex<Vec<Value>>,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let body = request.into_body().collect().await.unwrap().to_bytes();
    let review: Value = serde_json::from_slice(&body).unwrap();
    let request = review["request"].clone();
    asked.lock().unwrap().push(request.clone());
    let mut response = match does {
        Does::Say(text) => return Ok(Response::new(Full::from(*text))),
        Does::Answer(response) => response.clone(),
        Does::Decide(decide) => decide(&request),
        Does::Dawdle(time) => {
            tokio::time::sleep(*time).await;
            json!({"allowed": true})
        }
    };
    if response["uid"].is_null() {
        response["uid"] = request["uid"].clone();
    }
    let review = json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": response});
    Ok(Response::new(Full::from(review.to_string())))
}

/// A response that changes the object.
pub fn patched(patch: &Value) -> Value {
    json!({"allowed": true, "patchType": "JSONPatch", "patch": STANDARD.encode(patch.to_string())})
}

/// An answer of the API.
pub struct Answer {
    pub code: u16,
    pub body: Value,
    pub warnings: Vec<String>,
}

impl Answer {
    pub fn message(&self) -> &str {
        self.body["message"].as_str().unwrap_or_default()
    }

    pub fn created(self) -> Value {
        assert_eq!(self.code, 201, "{}", self.body);
        self.body
    }
}

/// A cluster with the namespace `orchard`.
pub struct Cluster(Arc<Server>);

impl Cluster {
    pub async fn start() -> Self {
        let config = Config::new(Storage::Memory);
        let cluster = Self(Server::start(config).await.unwrap());
        let namespace = json!({"metadata": {"name": "orchard", "labels": {"fruit": "apple"}}});
        cluster.send(Method::POST, "/api/v1/namespaces", namespace).await.created();
        cluster
    }

    pub async fn send(&self, method: Method, path: &str, body: Value) -> Answer {
        let content_type = if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
        self.send_as(method, path, content_type, body).await
    }

    async fn send_as(&self, method: Method, path: &str, content_type: &str, body: Value) -> Answer {
        let request = Request::builder().method(method).uri(path).header("content-type", content_type);
        let (parts, ()) = request.body(()).unwrap().into_parts();
        let body = if body.is_null() { Bytes::new() } else { Bytes::from(body.to_string()) };
        let user = UserInfo::new("gardener", ["system:masters", "system:authenticated"]);
        let response = self.0.handle(parts, body, user).await;
        let warnings = response.headers().get_all("warning").iter();
        let warnings = warnings.map(|warning| warning.to_str().unwrap().to_owned()).collect();
        let code = response.status().as_u16();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        Answer { code, body: serde_json::from_slice(&body).unwrap(), warnings }
    }

    /// Applies a config map of the orchard.
    pub async fn apply(&self, manager: &str, name: &str, data: Value) -> Answer {
        let path = format!("/api/v1/namespaces/orchard/configmaps/{name}?fieldManager={manager}");
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data});
        self.send_as(Method::PATCH, &path, "application/apply-patch+yaml", map).await
    }

    /// Begins a watch of what there is under a path. Nothing is read of it yet.
    pub async fn watch(&self, path: &str) -> Body {
        let request = Request::builder().uri(format!("{path}?watch=true&timeoutSeconds=1")).body(()).unwrap();
        let user = UserInfo::new("gardener", ["system:masters", "system:authenticated"]);
        self.0.handle(request.into_parts().0, Bytes::new(), user).await.into_body()
    }

    /// Registers webhooks: `mutating` or `validating` ones.
    pub async fn register(&self, kind: &str, name: &str, entries: &[Value]) {
        let path = format!("/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations");
        self.send(Method::POST, &path, json!({"metadata": {"name": name}, "webhooks": entries})).await.created();
    }

    /// Tries to create a config map in the orchard.
    pub async fn plant(&self, name: &str) -> Answer {
        self.plant_in("orchard", json!({"name": name})).await
    }

    pub async fn plant_in(&self, namespace: &str, metadata: Value) -> Answer {
        let path = format!("/api/v1/namespaces/{namespace}/configmaps");
        self.send(Method::POST, &path, json!({"metadata": metadata})).await
    }
}
