//! The node's HTTP server: what the API server asks a node for. It serves no one else.

mod connections;
mod logs;
mod query;
mod route;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use c5c3_auth::{Identity, MASTERS, certificate_user};
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::rt::{TokioIo, TokioTimer};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use crate::config::Serving;
use crate::node::Node;
use query::Query;
use route::Route;

/// The body of an answer: what is known, what a log says while it is read, or what the container runtime answers.
type Body = UnsyncBoxBody<Bytes, Broken>;
/// Why a body ends early.
type Broken = Box<dyn std::error::Error + Send + Sync>;

/// How long a client may take for its handshake and for the headers of a request.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long until an address that cannot be had is tried again.
const PAUSE: Duration = Duration::from_secs(2);

/// Serves until the end, unless the node is not told how.
pub(crate) async fn run(node: Arc<Node>, stop: CancellationToken) {
    let Some(serving) = &node.config.serving else { return };
    loop {
        let Err(error) = listen(&node, serving, &stop).await;
        let (address, port) = (node.config.address, node.config.port);
        tracing::error!(%error, %address, port, "cannot serve logs and connections");
        tokio::time::sleep(PAUSE).await;
    }
}

async fn listen(node: &Arc<Node>, serving: &Serving, stop: &CancellationToken) -> Result<Infallible, Broken> {
    let acceptor = acceptor(serving)?;
    let listener = TcpListener::bind((node.config.address, node.config.port)).await?;
    loop {
        match listener.accept().await {
            Ok((stream, _)) => drop(tokio::spawn(connection(Arc::clone(node), acceptor.clone(), stream, stop.clone()))),
            Err(error) => {
                // Out of file descriptors: waiting is all that helps.
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

fn acceptor(serving: &Serving) -> Result<TlsAcceptor, Broken> {
    let read = |path: &std::path::Path| {
        std::fs::read_to_string(path).map_err(|error| Broken::from(format!("{}: {error}", path.display())))
    };
    let own = Identity { certificate: read(&serving.certificate)?, key: read(&serving.key)?.into() };
    Ok(TlsAcceptor::from(Arc::new(own.serving(&read(&serving.authority)?)?)))
}

async fn connection(node: Arc<Node>, acceptor: TlsAcceptor, stream: TcpStream, stop: CancellationToken) {
    let _ = stream.set_nodelay(true);
    let Ok(Ok(stream)) = tokio::time::timeout(PATIENCE, acceptor.accept(stream)).await else { return };
    let certificate = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first());
    let user = certificate.and_then(|der| certificate_user(der, Timestamp::now()).ok());
    let is_allowed = user.is_some_and(|user| user.is_in(MASTERS));
    let service = hyper::service::service_fn(|request| {
        let (node, stop) = (Arc::clone(&node), stop.clone());
        async move {
            let answer = if is_allowed { answer(&node, request, stop).await } else { forbidden() };
            Ok::<_, Infallible>(answer)
        }
    });
    let mut builder = hyper::server::conn::http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(PATIENCE);
    tokio::select! {
        _ = builder.serve_connection(TokioIo::new(stream), service).with_upgrades() => {}
        () = stop.cancelled() => {}
    }
}

async fn answer(node: &Node, request: Request<Incoming>, stop: CancellationToken) -> Response<Body> {
    let uri = request.uri().clone();
    let route = Route::parse(uri.path());
    let query = Query::parse(uri.query().unwrap_or_default());
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
    match route {
        None => text(StatusCode::NOT_FOUND, "404 page not found\n"),
        Some(Route::Health) => text(StatusCode::OK, "ok"),
        Some(Route::Pods) => pods(&node.directory.pods()),
        Some(Route::Log { .. }) if !is_read => text(StatusCode::METHOD_NOT_ALLOWED, "Method Not Allowed"),
        Some(Route::Log(which)) => logs::serve(&node.directory, which, &query).await,
        Some(Route::Connection(kind)) => connections::serve(node, kind, &query, request, stop).await,
    }
}

fn forbidden() -> Response<Body> {
    text(StatusCode::FORBIDDEN, "only the API server may ask a node")
}

fn pods(items: &[Pod]) -> Response<Body> {
    let body = json!({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": items}).to_string();
    with_type(Response::new(full(body)), "application/json")
}

fn text(status: StatusCode, message: impl Into<Bytes>) -> Response<Body> {
    let mut response = Response::new(full(message));
    *response.status_mut() = status;
    with_type(response, "text/plain; charset=utf-8")
}

fn with_type(mut response: Response<Body>, media: &'static str) -> Response<Body> {
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static(media));
    response
}

fn full(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into()).map_err(|never| match never {}).boxed_unsync()
}
