//! A registry that lists referrers by itself, which Debian's does not: a server before it that adds this.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::response::{IntoResponse as _, Response};
use c5c3_oci::digest_of;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};

/// The server; ends with the test's runtime.
pub(crate) struct Listing {
    /// Where it is.
    pub(crate) address: String,
}

#[derive(Clone)]
struct Before {
    registry: String,
    /// Referrers, by the digests of their subjects.
    listed: Arc<Mutex<HashMap<String, Vec<Value>>>>,
}

impl Listing {
    pub(crate) async fn start(registry: &str) -> Self {
        let before = Before { registry: registry.to_owned(), listed: Arc::default() };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let router = Router::new().fallback(answer).with_state(before);
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { address }
    }
}

async fn answer(State(before): State<Before>, request: Request) -> Response {
    if let Some((_, subject)) = request.uri().path().split_once("/referrers/") {
        let manifests = before.listed.lock().unwrap().get(subject).cloned().unwrap_or_default();
        let media_type = "application/vnd.oci.image.index.v1+json";
        let index = json!({ "schemaVersion": 2, "mediaType": media_type, "manifests": manifests });
        return ([("content-type", media_type)], index.to_string()).into_response();
    }
    let (head, body) = request.into_parts();
    let body = to_bytes(body, usize::MAX).await.unwrap();
    if head.method == "PUT" && head.uri.path().contains("/manifests/") {
        before.note(&body);
    }
    let stream = TcpStream::connect(&before.registry).await.unwrap();
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    sender.send_request(Request::from_parts(head, Body::from(body))).await.unwrap().map(Body::new)
}

impl Before {
    fn note(&self, body: &Bytes) {
        let manifest: Value = serde_json::from_slice(body).unwrap();
        let Some(subject) = manifest["subject"]["digest"].as_str() else { return };
        let entry = json!({
            "mediaType": manifest["mediaType"],
            "digest": digest_of(body).to_string(),
            "size": body.len(),
            "artifactType": manifest["artifactType"],
            "annotations": manifest["annotations"],
        });
        let mut listed = self.listed.lock().unwrap();
        let listed = listed.entry(subject.to_owned()).or_default();
        if listed.iter().all(|known| known["digest"] != entry["digest"]) {
            listed.push(entry);
        }
    }
}
