//! Passes a request on to another server: the answer as it comes, and after an upgrade every byte in both directions.
//!
//! What is spoken after an upgrade (SPDY, WebSocket) is between the two ends; here nothing is known of it.

#![cfg_attr(not(test), warn(clippy::unwrap_used))]

mod clients;
mod exchange;
mod headers;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Empty, Full};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio_util::sync::CancellationToken;

pub use clients::{Clients, Share};
pub use exchange::exchange;
pub use headers::{forwarded, is_upgrade, upgrades_to};

/// The body of an answer that is passed on.
pub type Body = BoxBody<Bytes, hyper::Error>;

/// How much of an upgraded connection is under way at most, in each direction.
const BUFFER: usize = 64 * 1024;

/// Sends a request over a connection of its own, and gives the answer while it comes. If the server upgrades the
/// connection, it is joined with the client's, which [`client_side`] has taken from the client's request, until one of
/// the two hangs up, or until `stop`.
pub async fn forward(
    connection: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    request: Request<Full<Bytes>>,
    client: Option<OnUpgrade>,
    stop: CancellationToken,
) -> Result<Response<Body>, hyper::Error> {
    let (mut sender, driver) = hyper::client::conn::http1::handshake(TokioIo::new(connection)).await?;
    // It ends with the answer's body, or when the body is dropped because the client is gone.
    tokio::spawn(driver.with_upgrades());
    let mut response = sender.send_request(request).await?;
    if response.status() != StatusCode::SWITCHING_PROTOCOLS {
        headers::strip(response.headers_mut());
        return Ok(response.map(BodyExt::boxed));
    }
    let server = hyper::upgrade::on(&mut response);
    if let Some(client) = client {
        tokio::spawn(async move {
            tokio::select! {
                () = join(client, server) => {}
                () = stop.cancelled() => {}
            }
        });
    }
    Ok(response.map(|_| Empty::new().map_err(|never| match never {}).boxed()))
}

/// Takes the client's side of a connection that may be upgraded from the parts of its request.
pub fn client_side(parts: &mut http::request::Parts) -> Option<OnUpgrade> {
    parts.extensions.remove()
}

async fn join(client: OnUpgrade, server: OnUpgrade) {
    match tokio::try_join!(client, server) {
        Ok((client, server)) => copy(client, server).await,
        Err(error) => tracing::debug!(%error, "a connection was not upgraded after all"),
    }
}

/// Copies both ways. The first end of either is the end of both: neither SPDY nor WebSocket closes half a connection,
/// and whoever sees one half closed would wait for the other for ever.
async fn copy(client: Upgraded, server: Upgraded) {
    let (from_client, mut to_client) = tokio::io::split(TokioIo::new(client));
    let (from_server, mut to_server) = tokio::io::split(TokioIo::new(server));
    let mut from_client = BufReader::with_capacity(BUFFER, from_client);
    let mut from_server = BufReader::with_capacity(BUFFER, from_server);
    let ended = tokio::select! {
        ended = tokio::io::copy_buf(&mut from_client, &mut to_server) => ended,
        ended = tokio::io::copy_buf(&mut from_server, &mut to_client) => ended,
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "an upgraded connection broke");
    }
    let _ = tokio::join!(to_client.shutdown(), to_server.shutdown());
}
