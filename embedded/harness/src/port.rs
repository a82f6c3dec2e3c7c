//! A port by which other processes reach a test cluster: `kubectl`, an operator's binary, another test. Faults strike
//! them as they strike the test's own clients.
//!
//! It speaks TLS and lets in who shows the token of its kubeconfig. What takes over the connection (exec, port-forward)
//! is refused.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum_server::tls_rustls::{RustlsConfig, from_tcp_rustls};
use c5c3_apiserver::ApiError;
use c5c3_auth::{Credential, Pki, generate_token, kubeconfig, write_kubeconfig};
use http::{Request, Response, StatusCode, Uri, header};
use http_body_util::BodyExt;
use jiff::Timestamp;
use secrecy::{ExposeSecret, SecretString};
use tempfile::TempDir;

use crate::error::Error;
use crate::upstream::Upstream;
use crate::wire::Wire;

/// A port of a test cluster. Dropping it closes it.
pub struct Port {
    address: SocketAddr,
    folder: TempDir,
    handle: axum_server::Handle<SocketAddr>,
}

impl Port {
    pub(crate) fn open(wire: Arc<Wire>, upstream: Upstream) -> Result<Self, Error> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let pki = Pki::in_memory(&[], Timestamp::now())?;
        let token = generate_token()?;
        let tls = RustlsConfig::from_config(Arc::new(pki.tls()?));
        let folder = TempDir::new()?;
        let credential = Credential::Token(token.clone());
        let content = kubeconfig(&format!("https://{address}"), pki.ca_pem(), &credential);
        write_kubeconfig(&folder.path().join("kubeconfig"), &content)?;
        let handle = axum_server::Handle::new();
        let routes = Router::new().fallback(forward).with_state(Arc::new(Door { wire, upstream, token }));
        let server = from_tcp_rustls(listener, tls)?.handle(handle.clone()).serve(routes.into_make_service());
        tokio::spawn(server);
        Ok(Self { address, folder, handle })
    }

    /// Where it listens.
    pub fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    /// An administrator's kubeconfig, for as long as the port is open.
    pub fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("kubeconfig")
    }

    /// A folder of the port's, for what its users write.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        self.handle.shutdown();
    }
}

/// What is behind a port.
struct Door {
    wire: Arc<Wire>,
    upstream: Upstream,
    token: SecretString,
}

async fn forward(State(door): State<Arc<Door>>, request: Request<Body>) -> Response<Body> {
    let shown = request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    if shown.and_then(|shown| shown.strip_prefix("Bearer ")) != Some(door.token.expose_secret()) {
        return ApiError::unauthorized().into();
    }
    if request.headers().contains_key(header::UPGRADE) {
        let message = "the port of a test cluster carries requests and answers, not connections";
        return ApiError::new(StatusCode::NOT_IMPLEMENTED, "NotImplemented", message).into();
    }
    match door.carry(request).await {
        Ok(answer) => answer,
        Err(error) => ApiError::new(StatusCode::BAD_GATEWAY, "InternalError", error.to_string()).into(),
    }
}

impl Door {
    async fn carry(&self, request: Request<Body>) -> Result<Response<Body>, crate::upstream::Failure> {
        let (mut parts, body) = request.into_parts();
        let path = parts.uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
        parts.uri = path.parse::<Uri>()?;
        parts.version = http::Version::default();
        for name in [header::AUTHORIZATION, header::HOST, header::CONNECTION, header::CONTENT_LENGTH] {
            parts.headers.remove(name);
        }
        let body = body.collect().await?.to_bytes();
        let request = Request::from_parts(parts, kube::client::Body::from(body));
        let mut answer = self.wire.carry(&self.upstream, request).await?;
        for name in [header::CONNECTION, header::TRANSFER_ENCODING] {
            answer.headers_mut().remove(name);
        }
        *answer.version_mut() = http::Version::default();
        Ok(answer)
    }
}
