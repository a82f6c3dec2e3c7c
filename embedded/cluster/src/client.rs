//! A client of the API server in the same process: function calls instead of a connection, and a connection in memory for
//! what turns one into a stream, such as a command in a pod.

use std::convert::Infallible;
use std::sync::Arc;

use c5c3_apiserver::Server;
use c5c3_auth::UserInfo;
use http::{Request, Response};
use http_body_util::{BodyExt, Either};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use kube::Client;
use kube::client::Body;
use tower::BoxError;

/// How much is on its way in a connection in memory.
const BUFFER: usize = 64 << 10;

/// A client that is one of the cluster's own parts, which may do everything.
pub(crate) fn client(server: &Arc<Server>, part: &str) -> Client {
    client_as(server, UserInfo::new(format!("system:c5c3:{part}"), ["system:masters", "system:authenticated"]))
}

/// A client of a user, who may do what roles allow.
pub(crate) fn client_as(server: &Arc<Server>, user: UserInfo) -> Client {
    let server = server.clone();
    let service = tower::service_fn(move |request: Request<Body>| {
        let (server, user) = (server.clone(), user.clone());
        async move {
            if c5c3_relay::is_upgrade(request.headers()) {
                let response = upgraded(server, user, request).await?;
                return Ok::<_, BoxError>(response.map(Either::Left));
            }
            let (parts, body) = request.into_parts();
            let body = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
            Ok(server.handle(parts, body, user).await.map(Either::Right))
        }
    });
    Client::new(service, "default")
}

/// Sends a request that asks for an upgrade over a connection in memory, which becomes the stream.
async fn upgraded(server: Arc<Server>, user: UserInfo, request: Request<Body>) -> Result<Response<Incoming>, BoxError> {
    let (near, far) = tokio::io::duplex(BUFFER);
    let answer = hyper::service::service_fn(move |request: Request<Incoming>| {
        let (server, user) = (server.clone(), user.clone());
        async move {
            let (parts, body) = request.into_parts();
            let body = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
            Ok::<_, Infallible>(server.handle(parts, body, user).await)
        }
    });
    let serving =
        hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(far), answer).with_upgrades();
    tokio::spawn(async move { drop(serving.await) });
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(near)).await?;
    tokio::spawn(async move { drop(connection.with_upgrades().await) });
    Ok(sender.send_request(request).await?)
}
