//! `/healthz`, `/readyz` and `/metrics`.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::metrics::Metrics;

/// What still has to start before the process is ready, and what broke since.
#[derive(Clone, Debug, Default)]
pub struct Readiness {
    missing: Arc<AtomicUsize>,
    broken: Arc<AtomicUsize>,
}

impl Readiness {
    /// Adds something that has to start; it has when the value is dropped, and so it has if it was given up.
    pub fn add_pending(&self) -> PendingStart {
        self.missing.fetch_add(1, Ordering::SeqCst);
        PendingStart { missing: self.missing.clone() }
    }

    /// Whether all has started.
    pub fn is_ready(&self) -> bool {
        self.missing.load(Ordering::SeqCst) == 0
    }

    /// Notes that a part of the process broke; it works again when the value is dropped.
    pub fn mark_unhealthy(&self) -> Unhealthy {
        self.broken.fetch_add(1, Ordering::SeqCst);
        Unhealthy { broken: self.broken.clone() }
    }

    /// Whether nothing is broken.
    pub fn is_healthy(&self) -> bool {
        self.broken.load(Ordering::SeqCst) == 0
    }
}

/// A part of the process that broke.
#[derive(Debug)]
pub struct Unhealthy {
    broken: Arc<AtomicUsize>,
}

impl Drop for Unhealthy {
    fn drop(&mut self) {
        self.broken.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Something that has to start.
#[derive(Debug)]
pub struct PendingStart {
    missing: Arc<AtomicUsize>,
}

impl Drop for PendingStart {
    fn drop(&mut self) {
        self.missing.fetch_sub(1, Ordering::SeqCst);
    }
}

/// The server's routes.
pub fn routes(metrics: Metrics, readiness: Readiness) -> Router {
    Router::new()
        .route("/healthz", get(healthy).with_state(readiness.clone()))
        .route("/readyz", get(ready).with_state(readiness))
        .route("/metrics", get(text).with_state(metrics))
}

async fn healthy(State(readiness): State<Readiness>) -> impl IntoResponse {
    if readiness.is_healthy() {
        (StatusCode::OK, "ok")
    } else {
        (StatusCode::INTERNAL_SERVER_ERROR, "a controller panicked and has not recovered")
    }
}

async fn ready(State(readiness): State<Readiness>) -> impl IntoResponse {
    if readiness.is_ready() {
        (StatusCode::OK, "ok")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "watches are still catching up")
    }
}

async fn text(State(metrics): State<Metrics>) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "application/openmetrics-text; version=1.0.0; charset=utf-8")], metrics.text())
}

/// Serves until `stop`.
pub async fn serve(address: SocketAddr, routes: Router, stop: CancellationToken) -> std::io::Result<()> {
    let listener = TcpListener::bind(address).await?;
    tracing::info!(address = %listener.local_addr()?, "serving /healthz, /readyz and /metrics");
    axum::serve(listener, routes).with_graceful_shutdown(stop.cancelled_owned()).await
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use tower::ServiceExt;

    use super::*;

    async fn status(readiness: &Readiness, path: &str) -> StatusCode {
        let request = axum::http::Request::get(path).body(Body::empty()).unwrap();
        routes(Metrics::default(), readiness.clone()).oneshot(request).await.unwrap().status()
    }

    #[tokio::test]
    async fn a_controller_that_broke_is_unhealthy_and_one_that_starts_is_not_ready() {
        let readiness = Readiness::default();
        let expected = readiness.add_pending();
        assert_eq!(status(&readiness, "/readyz").await, StatusCode::SERVICE_UNAVAILABLE);
        drop(expected);
        let broken = readiness.mark_unhealthy();
        assert_eq!(status(&readiness, "/healthz").await, StatusCode::INTERNAL_SERVER_ERROR);
        drop(broken);
        for path in ["/healthz", "/readyz"] {
            assert_eq!(status(&readiness, path).await, StatusCode::OK);
        }
    }
}
