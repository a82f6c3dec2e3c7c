//! An operator whose process dies as soon as it has changed something.

use std::sync::Arc;

use http::{Method, Request, Response};
use kube::Client;
use kube::client::Body;
use serde_json::Value;
use tokio::sync::{Mutex, Notify};

/// A client of a process that dies with its first change: afterwards nothing of it reaches the API. A new process applies
/// everything again, and what changes nothing by that is no change.
pub struct Mortal {
    /// What the operator works with.
    pub client: Client,
    /// Is told when it has died.
    pub died: Arc<Notify>,
}

impl Mortal {
    /// A process that starts when the newest object has this resource version.
    pub fn new(inner: Client, newest: u64) -> Self {
        let (dead, died) = (Arc::new(Mutex::new(false)), Arc::new(Notify::new()));
        let last = died.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let (inner, dead, last) = (inner.clone(), dead.clone(), last.clone());
            async move {
                if request.method() == Method::GET || request.uri().path().contains("/events") {
                    return inner.send(request).await;
                }
                // One at a time, so that no other write is under way when it dies.
                let mut dead = dead.lock().await;
                if *dead {
                    std::future::pending::<()>().await;
                }
                let deletes = request.method() == Method::DELETE;
                let (parts, body) = inner.send(request).await?.into_parts();
                let body = body.collect_bytes().await?;
                if parts.status.is_success() && (deletes || version(&body) > newest) {
                    *dead = true;
                    last.notify_one();
                }
                Ok(Response::from_parts(parts, Body::from(body)))
            }
        });
        Self { client: Client::new(service, "cloud"), died }
    }
}

/// The resource version of an object; 0 of an answer without one, such as a review of rights.
fn version(object: &[u8]) -> u64 {
    let object: Value = serde_json::from_slice(object).unwrap_or_default();
    object["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse().ok()).unwrap_or_default()
}
