//! Bytes for a client that reads them over a WebSocket: each piece is a message, and the last is followed by a close.
//!
//! What the client says is not listened to, but for its end.

use axum::body::Body;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use http_body_util::BodyExt;
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_util::sync::CancellationToken;

use crate::status::ApiError;

/// What every server adds to a client's key, by RFC 6455.
const KEY_SUFFIX: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// How bytes become messages, by the subprotocol that the client offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Coding {
    /// As they are: `binary.k8s.io`, and whoever offers nothing.
    Binary,
    /// As text: `base64.binary.k8s.io`.
    Base64,
}

impl Coding {
    const KNOWN: [(&'static str, Self); 2] = [("binary.k8s.io", Self::Binary), ("base64.binary.k8s.io", Self::Base64)];

    /// The first that is offered and known, with its name; none if others are offered.
    fn choose(headers: &HeaderMap) -> Option<(Option<&'static str>, Self)> {
        let listed = headers.get_all(header::SEC_WEBSOCKET_PROTOCOL).iter().filter_map(|value| value.to_str().ok());
        let offered: Vec<&str> = listed.flat_map(|value| value.split(',')).map(str::trim).collect();
        if offered.is_empty() {
            return Some((None, Self::Binary));
        }
        let known = |name: &&str| Self::KNOWN.into_iter().find(|(known, _)| known == name);
        offered.iter().find_map(known).map(|(name, coding)| (Some(name), coding))
    }

    fn message(self, bytes: &Bytes) -> Vec<u8> {
        match self {
            Self::Binary => frame(0x2, bytes),
            Self::Base64 => frame(0x1, STANDARD.encode(bytes).as_bytes()),
        }
    }
}

/// A whole message of that kind. A server's are not masked.
fn frame(kind: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![0x80 | kind];
    match (u8::try_from(payload.len()), u16::try_from(payload.len())) {
        (Ok(short), _) if short < 126 => frame.push(short),
        (_, Ok(length)) => {
            frame.push(126);
            frame.extend(length.to_be_bytes());
        }
        _ => {
            frame.push(127);
            frame.extend((payload.len() as u64).to_be_bytes());
        }
    }
    frame.extend(payload);
    frame
}

/// The end, for no special reason.
fn close() -> Vec<u8> {
    frame(0x8, &1000_u16.to_be_bytes())
}

/// Answers a client that wants a WebSocket, and tells it what comes, until that ends, the client goes, or `stop`.
pub(super) fn tell(
    headers: &HeaderMap,
    client: OnUpgrade,
    body: c5c3_relay::Body,
    stop: CancellationToken,
) -> Result<Response<Body>, ApiError> {
    let key = headers.get(header::SEC_WEBSOCKET_KEY).and_then(|key| key.to_str().ok());
    let key = key.ok_or_else(|| ApiError::bad_request("a WebSocket needs a Sec-WebSocket-Key"))?;
    let unknown =
        || ApiError::bad_request("the WebSocket subprotocol is neither binary.k8s.io nor base64.binary.k8s.io");
    let (protocol, coding) = Coding::choose(headers).ok_or_else(unknown)?;
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let accepted = HeaderValue::try_from(accepted(key)).map_err(|error| ApiError::internal(error.to_string()))?;
    let told = response.headers_mut();
    told.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    told.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    told.insert(header::SEC_WEBSOCKET_ACCEPT, accepted);
    if let Some(protocol) = protocol {
        told.insert(header::SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(protocol));
    }
    tokio::spawn(async move {
        let Ok(client) = client.await else { return };
        tokio::select! {
            _ = pass_on(client, body, coding) => {}
            () = stop.cancelled() => {}
        }
    });
    Ok(response)
}

/// What proves to a client that its key was read.
fn accepted(key: &str) -> String {
    STANDARD.encode(digest(&SHA1_FOR_LEGACY_USE_ONLY, format!("{key}{KEY_SUFFIX}").as_bytes()))
}

async fn pass_on(client: Upgraded, mut body: c5c3_relay::Body, coding: Coding) -> std::io::Result<()> {
    let (mut reader, mut writer) = tokio::io::split(TokioIo::new(client));
    let telling = async {
        while let Some(Ok(piece)) = body.frame().await {
            if let Ok(bytes) = piece.into_data() {
                writer.write_all(&coding.message(&bytes)).await?;
                writer.flush().await?;
            }
        }
        writer.write_all(&close()).await?;
        writer.shutdown().await
    };
    let mut heard = [0; 512];
    let gone = async { while reader.read(&mut heard).await.is_ok_and(|read| read > 0) {} };
    tokio::select! {
        told = telling => told,
        () = gone => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_answered_as_the_standard_has_it() {
        assert_eq!(accepted("dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }

    #[test]
    fn messages_say_how_long_they_are() {
        assert_eq!(frame(2, b"ab"), [0x82, 2, b'a', b'b']);
        assert_eq!(frame(1, &[0; 300])[..4], [0x81, 126, 1, 44]);
        assert_eq!(frame(2, &vec![0; 70_000])[..10], [0x82, 127, 0, 0, 0, 0, 0, 1, 0x11, 0x70]);
        assert_eq!(close(), [0x88, 2, 0x03, 0xe8]);
    }

    #[test]
    fn a_client_chooses_how_bytes_are_told() {
        let chosen = |offered: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(offered));
            Coding::choose(&headers)
        };
        assert_eq!(Coding::choose(&HeaderMap::new()), Some((None, Coding::Binary)));
        assert_eq!(chosen("v9, base64.binary.k8s.io"), Some((Some("base64.binary.k8s.io"), Coding::Base64)));
        assert_eq!(chosen("channel.k8s.io"), None);
    }
}
