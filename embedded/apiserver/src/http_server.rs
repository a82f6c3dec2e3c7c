//! Connections: TLS, client certificates, HTTP/1.1 and HTTP/2.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use c5c3_auth::{UserInfo, certificate_user};
use http::{Request, Response};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use jiff::Timestamp;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use crate::controllers;
use crate::server::{LARGEST_BODY, Server};
use crate::status::ApiError;

/// How long a client may take for its TLS handshake and for the headers of a request.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long a client may take for the body of a request.
const BODY_PATIENCE: Duration = Duration::from_mins(1);

/// How much of a body that is too large is read before the connection is given up.
const MOST_DRAINED: usize = 64 * 1024 * 1024;

/// Why a server does not listen.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The address cannot be had.
    #[error("cannot listen on {0}: {1}; choose another address")]
    Bind(SocketAddr, std::io::Error),
    /// The certificate cannot be used.
    #[error("cannot use the server's certificate: {0}")]
    Tls(#[from] c5c3_auth::PkiError),
    /// Where the server is reached cannot be written.
    #[error("cannot write where the server is reached: {0}")]
    Publish(String),
}

/// A server that listens.
pub struct Listening {
    /// Where.
    pub address: SocketAddr,
    task: tokio::task::JoinHandle<()>,
}

impl Listening {
    /// Waits until the server is stopped.
    pub async fn finished(self) {
        let _ = self.task.await;
    }
}

/// Listens on an address, over TLS, until the server is stopped.
pub async fn listen(server: &Arc<Server>, address: SocketAddr) -> Result<Listening, ServeError> {
    let listener = TcpListener::bind(address).await.map_err(|error| ServeError::Bind(address, error))?;
    let address = listener.local_addr().map_err(|error| ServeError::Bind(address, error))?;
    let acceptor = TlsAcceptor::from(Arc::new(server.pki().tls()?));
    controllers::publish(server, address).await.map_err(|error| ServeError::Publish(error.message))?;
    let server = server.clone();
    let task = tokio::spawn(async move {
        let stop = server.stopped();
        loop {
            let accepted = tokio::select! {
                () = stop.cancelled() => return,
                accepted = listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, _)) => drop(tokio::spawn(connection(server.clone(), acceptor.clone(), stream))),
                Err(error) => {
                    // Out of file descriptors: waiting is all that helps.
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
        }
    });
    Ok(Listening { address, task })
}

async fn connection(server: Arc<Server>, acceptor: TlsAcceptor, stream: TcpStream) {
    let _ = stream.set_nodelay(true);
    let Ok(Ok(stream)) = tokio::time::timeout(PATIENCE, acceptor.accept(stream)).await else { return };
    let certificate = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first());
    let user = certificate.and_then(|der| certificate_user(der, Timestamp::now()).ok());
    let stop = server.stopped();
    let service = hyper::service::service_fn(move |request: Request<Incoming>| {
        let (server, user) = (server.clone(), user.clone());
        async move { Ok::<_, std::convert::Infallible>(serve(&server, request, user).await) }
    });
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(PATIENCE);
    builder.http2().timer(TokioTimer::new()).max_concurrent_streams(1000).max_header_list_size(64 * 1024);
    let connection = builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
    tokio::select! {
        _ = connection => {}
        () = stop.cancelled() => {}
    }
}

async fn serve(server: &Arc<Server>, request: Request<Incoming>, certificate: Option<UserInfo>) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let user = match server.identify(&parts, certificate) {
        Ok(user) => user,
        Err(error) => return error.into(),
    };
    let body = match tokio::time::timeout(BODY_PATIENCE, collect(body)).await {
        Ok(Ok(Some(body))) => body,
        Ok(Ok(None)) => {
            let message = format!("Request entity too large: limit is {LARGEST_BODY}");
            return ApiError::new(http::StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge", message).into();
        }
        Ok(Err(error)) => return ApiError::bad_request(format!("the body cannot be read: {error}")).into(),
        Err(_) => return ApiError::new(http::StatusCode::REQUEST_TIMEOUT, "Timeout", "the body took too long").into(),
    };
    server.handle(parts, body, user).await
}

/// The body of a request; none if it is too large. What is too large is read on for a while and thrown away: a client that
/// is still writing when the connection closes never sees why.
async fn collect(mut body: Incoming) -> Result<Option<Bytes>, hyper::Error> {
    let (mut kept, mut size) = (BytesMut::new(), 0);
    while size <= MOST_DRAINED
        && let Some(frame) = body.frame().await
    {
        let Ok(data) = frame?.into_data() else { continue };
        size += data.len();
        if size <= LARGEST_BODY {
            kept.extend_from_slice(&data);
        }
    }
    Ok((size <= LARGEST_BODY).then(|| kept.freeze()))
}
