//! A Kubernetes API in the test process: `TestCluster::start().await` gives a `kube::Client`, in milliseconds, as many as
//! a test likes, with faults to inject.
//!
//! The client talks to the server by function call, without a socket; everything behind that is the real server.

#![cfg_attr(not(test), warn(clippy::unwrap_used))]

pub mod pretended;

use std::convert::Infallible;
use std::sync::Arc;

use axum::body::Body;
use c5c3_apiserver::{Config, Fault, Server, StartError, Storage};
use c5c3_auth::UserInfo;
use http::{Request, Response};
use http_body_util::BodyExt;
use kube::Client;

/// A cluster's API, in memory.
#[derive(Clone)]
pub struct TestCluster {
    server: Arc<Server>,
}

impl TestCluster {
    /// Starts an empty one.
    pub async fn start() -> Result<Self, StartError> {
        let server = Server::start(Config::new(Storage::Memory)).await?;
        Ok(Self { server })
    }

    /// A client that may do everything.
    pub fn client(&self) -> Client {
        self.client_as(UserInfo::new("test-admin", ["system:masters", "system:authenticated"]))
    }

    /// A client that is that user.
    pub fn client_as(&self, user: UserInfo) -> Client {
        let server = self.server.clone();
        let service = tower::service_fn(move |request: Request<kube::client::Body>| {
            let (server, user) = (server.clone(), user.clone());
            async move { Ok::<Response<Body>, Infallible>(call(&server, request, user).await) }
        });
        Client::new(service, "default")
    }

    /// Lets requests fail or wait.
    pub fn inject(&self, fault: Fault) {
        self.server.faults().add(fault);
    }

    /// Takes all faults back.
    pub fn heal(&self) {
        self.server.faults().clear();
    }

    /// Ends every watch that is open.
    pub fn drop_watches(&self) {
        self.server.break_watches();
    }
}

async fn call(server: &Arc<Server>, request: Request<kube::client::Body>, user: UserInfo) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    server.handle(parts, body, user).await
}
