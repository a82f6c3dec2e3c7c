//! The client that an operator talks to the API with.

use std::time::Duration;

use http::{Request, Response};
use kube::client::retry::RetryPolicy;
use kube::client::{Body, ClientBuilder};
use kube::{Client, Config};
use tower::BoxError;
use tower::buffer::BufferLayer;
use tower::retry::{Policy, RetryLayer};

/// How many requests wait for their connection at most: as many as in kube's own client.
const QUEUE: usize = 1024;

/// How long a connection may say nothing. On a watch an API server sends a bookmark every minute, so that one that says nothing
/// for several is dead. kube's watcher would notice only when the watch should have ended.
const READ_TIMEOUT: Duration = Duration::from_secs(310);

const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);
const WRITE_TIMEOUT: Duration = Duration::from_mins(1);

/// A client that asks a busy API again, as kube's own does, but passes on at once what an API says of the services behind it.
///
/// # Errors
///
/// If the configuration has certificates or credentials that cannot be used.
pub fn client(mut config: Config) -> kube::Result<Client> {
    config.default_retry = false;
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    config.write_timeout = Some(WRITE_TIMEOUT);
    config.read_timeout = Some(READ_TIMEOUT);
    // A connection may have been idle before a request is sent on it.
    config.reset_reader_on_write = true;
    // What is tried again has to be copied, which kube's service cannot be, but a queue in front of it.
    let queued = ClientBuilder::try_from(config)?.with_layer(&BufferLayer::new(QUEUE));
    Ok(queued.with_layer(&RetryLayer::new(Patience::default())).build())
}

/// Which requests are tried again. An API answers 503 also for a Service that has no endpoints, and to ask until it has some
/// would take as long as a [`crate::Probe`] waits, and what was said would be lost.
#[derive(Clone)]
struct Patience(RetryPolicy);

impl Default for Patience {
    fn default() -> Self {
        Self(RetryPolicy::server_retry())
    }
}

impl<B> Policy<Request<Body>, Response<B>, BoxError> for Patience {
    type Future = tokio::time::Sleep;

    fn retry(
        &mut self,
        request: &mut Request<Body>,
        result: &mut Result<Response<B>, BoxError>,
    ) -> Option<Self::Future> {
        self.0.retry(request, result)
    }

    /// What is not copied is not sent again.
    fn clone_request(&mut self, request: &Request<Body>) -> Option<Request<Body>> {
        if request.uri().path().contains("/proxy/") {
            return None;
        }
        Policy::<_, Response<B>, BoxError>::clone_request(&mut self.0, request)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::Api;
    use serde_json::json;
    use tower::service_fn;

    use super::*;
    use crate::Probe;

    /// A client of an API that is busy for ever, and how often it was asked.
    fn busy() -> (Client, Arc<AtomicUsize>) {
        let asked = Arc::new(AtomicUsize::new(0));
        let counted = asked.clone();
        let api = service_fn(move |_: Request<Body>| {
            counted.fetch_add(1, Ordering::SeqCst);
            let said = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 503,
                "reason": "ServiceUnavailable", "message": "no endpoints available for service \"press\""});
            let answer = Response::builder().status(503).body(Body::from(said.to_string().into_bytes()));
            std::future::ready(answer.map_err(BoxError::from))
        });
        (ClientBuilder::new(api, "orchard").with_layer(&RetryLayer::new(Patience::default())).build(), asked)
    }

    #[tokio::test(start_paused = true)]
    async fn what_an_api_says_of_a_service_is_heard_at_once() {
        let (client, asked) = busy();
        let probe = Probe {
            namespace: "orchard".into(),
            service: "press".into(),
            port: 80,
            tls: false,
            path: "/v3".into(),
            keeps_text: false,
            interval: Probe::INTERVAL,
        };
        assert_eq!(probe.ask(&client).await, Err("no endpoints available for service \"press\"".into()));
        assert_eq!(asked.load(Ordering::SeqCst), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn an_api_that_is_busy_itself_is_asked_again() {
        let (client, asked) = busy();
        let maps: Api<ConfigMap> = Api::default_namespaced(client);
        assert!(maps.get("apple").await.is_err());
        assert!(asked.load(Ordering::SeqCst) > 1);
    }
}
