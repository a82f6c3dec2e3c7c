//! Connections: TLS, client certificates, HTTP/1.1 and HTTP/2.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use c5c3_auth::{UserInfo, certificate_user};
use c5c3_relay::{Clients, Share};
use http::{Request, Response, Version};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use jiff::Timestamp;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use crate::controllers;
use crate::patience::Patient;
use crate::server::{LARGEST_BODY, Server};
use crate::status::{ApiError, Reason};

/// How long a client may take for its TLS handshake and for the headers of a request.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long a client may take for the body of a request.
const BODY_PATIENCE: Duration = Duration::from_mins(1);

/// How long a client may take for anything that it is sent, be it an answer, a watch or a log.
const READING_PATIENCE: Duration = Duration::from_mins(5);

/// How often a client that speaks HTTP/2 is asked whether it is there, and how long it may take to say so. There is no
/// other sign of life on a connection with no request, or with one that never ends.
const PING_INTERVAL: Duration = Duration::from_secs(30);
const PING_PATIENCE: Duration = Duration::from_secs(20);

/// How many connections one client has at once, unless it is on this machine: there are the cluster's own parts.
const OF_ONE_CLIENT: usize = 512;

/// What an HTTP/2 client says before anything else is this long.
const PREFACE: usize = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".len();

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
    let (server, clients) = (server.clone(), Clients::new(OF_ONE_CLIENT));
    let task = tokio::spawn(async move {
        let stop = server.stopped();
        loop {
            let accepted = tokio::select! {
                () = stop.cancelled() => return,
                accepted = listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, client)) => {
                    let (is_admitted, share) = admit(&clients, client.ip());
                    if !is_admitted {
                        tracing::warn!(%client, "a client has {OF_ONE_CLIENT} connections, and gets no more");
                        continue;
                    }
                    let connected = connection(server.clone(), acceptor.clone(), stream);
                    tokio::spawn(async move {
                        connected.await;
                        drop(share);
                    });
                }
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

/// Whether a client may have another connection, and its share of all, to be held while it has it.
fn admit(clients: &Clients, client: IpAddr) -> (bool, Option<Share>) {
    let share = clients.admit(client);
    (share.is_some() || client.is_loopback(), share)
}

async fn connection(server: Arc<Server>, acceptor: TlsAcceptor, stream: TcpStream) {
    let _ = stream.set_nodelay(true);
    let Ok(Ok(stream)) = tokio::time::timeout(PATIENCE, acceptor.accept(stream)).await else { return };
    let session = stream.get_ref().1;
    let certificate = session.peer_certificates().and_then(|chain| chain.first());
    let user = certificate.and_then(|der| certificate_user(der, Timestamp::now()).ok());
    let version = if session.alpn_protocol() == Some(b"h2") { Version::HTTP_2 } else { Version::HTTP_11 };
    let stop = server.stopped();
    tokio::select! {
        () = speak(server, stream, version, user) => {}
        () = stop.cancelled() => {}
    }
}

/// Answers the requests of one connection until it ends.
async fn speak<S>(server: Arc<Server>, stream: S, version: Version, user: Option<UserInfo>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = hyper::service::service_fn(move |request: Request<Incoming>| {
        let (server, user) = (server.clone(), user.clone());
        async move { Ok::<_, std::convert::Infallible>(serve(&server, request, user).await) }
    });
    let stream = Patient::new(stream, READING_PATIENCE);
    // Which of the two is known from the handshake. To guess it from the first bytes would be to wait for them for ever.
    let _ = if version == Version::HTTP_2 {
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder.timer(TokioTimer::new()).keep_alive_interval(PING_INTERVAL).keep_alive_timeout(PING_PATIENCE);
        builder.max_concurrent_streams(1000).max_header_list_size(64 * 1024);
        builder.serve_connection(TokioIo::new(stream.opening(PREFACE, PATIENCE)), service).await
    } else {
        let mut builder = http1::Builder::new();
        builder.timer(TokioTimer::new()).header_read_timeout(PATIENCE);
        builder.serve_connection(TokioIo::new(stream), service).with_upgrades().await
    };
}

async fn serve(server: &Arc<Server>, request: Request<Incoming>, certificate: Option<UserInfo>) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let user = match server.identify(&parts, certificate) {
        Ok(user) => user,
        Err(error) => return error.into(),
    };
    // Held until the answer is there.
    let _permit = match server.admit(&parts, &user) {
        Ok(permit) => permit,
        Err(error) => {
            let _ = tokio::time::timeout(BODY_PATIENCE, drain(body)).await;
            return error.into();
        }
    };
    let body = match tokio::time::timeout(BODY_PATIENCE, collect(body)).await {
        Ok(Ok(Some(body))) => body,
        Ok(Ok(None)) => {
            let message = format!("Request entity too large: limit is {LARGEST_BODY}");
            return ApiError::new(http::StatusCode::PAYLOAD_TOO_LARGE, Reason::RequestEntityTooLarge, message).into();
        }
        Ok(Err(error)) => return ApiError::bad_request(format!("the body cannot be read: {error}")).into(),
        Err(_) => {
            return ApiError::new(http::StatusCode::REQUEST_TIMEOUT, Reason::Timeout, "the body took too long").into();
        }
    };
    server.handle(parts, body, user).await
}

/// Reads the body of a request that is refused, and keeps nothing of it: a client that is still writing when the connection
/// closes never sees why. One that is larger than any that is accepted is not read to its end.
async fn drain(mut body: Incoming) {
    let mut size = 0;
    while size <= LARGEST_BODY
        && let Some(Ok(frame)) = body.frame().await
    {
        size += frame.data_ref().map_or(0, Bytes::len);
    }
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

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
    use tokio::task::JoinHandle;
    use tokio::time::Instant;

    use super::*;
    use crate::{Config, Storage};

    #[test]
    fn one_client_leaves_room_for_others_and_the_machine_itself_is_always_let_in() {
        let (clients, hostile) = (Clients::new(OF_ONE_CLIENT), "192.0.2.7".parse().unwrap());
        let held: Vec<_> = (0..OF_ONE_CLIENT).map(|_| admit(&clients, hostile)).collect();
        assert!(held.iter().all(|(is_admitted, _)| *is_admitted));
        assert!(!admit(&clients, hostile).0);
        assert!(admit(&clients, "192.0.2.8".parse().unwrap()).0);
        let own: Vec<_> = (0..=OF_ONE_CLIENT).map(|_| admit(&clients, "127.0.0.1".parse().unwrap())).collect();
        assert!(own.iter().all(|(is_admitted, _)| *is_admitted));
        drop(held);
        assert!(admit(&clients, hostile).0);
    }

    /// A frame of HTTP/2 without flags, stream or payload.
    const SETTINGS: [u8; 9] = [0, 0, 0, 4, 0, 0, 0, 0, 0];
    const PING: u8 = 6;

    /// A client's end of a connection that holds so many bytes on their way, and the server's at work. From now on the
    /// clock is a pretended one: it moves on when everybody waits for it.
    async fn connect(version: Version, room: usize) -> (DuplexStream, JoinHandle<()>) {
        let server = Server::start(Config::new(Storage::Memory)).await.unwrap();
        let (client, stream) = duplex(room);
        tokio::time::pause();
        let user = UserInfo::new("gardener", ["system:masters", "system:authenticated"]);
        (client, tokio::spawn(speak(server, stream, version, Some(user))))
    }

    /// Waits until the server has hung up; how long it took.
    async fn hung_up(served: JoinHandle<()>) -> Duration {
        let began = Instant::now();
        served.await.unwrap();
        began.elapsed()
    }

    #[tokio::test]
    async fn who_begins_no_request_is_hung_up_on() {
        for (version, said) in [(Version::HTTP_11, ""), (Version::HTTP_11, "GET / HT"), (Version::HTTP_2, "PRI * HT")] {
            let (mut client, served) = connect(version, 1024).await;
            client.write_all(said.as_bytes()).await.unwrap();
            let took = hung_up(served).await;
            assert!((PATIENCE..2 * PATIENCE).contains(&took), "{version:?} {said:?}: {took:?}");
            tokio::time::resume();
        }
    }

    #[tokio::test]
    async fn who_answers_no_ping_is_hung_up_on() {
        let (mut client, served) = connect(Version::HTTP_2, 1024).await;
        client.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.unwrap();
        client.write_all(&SETTINGS).await.unwrap();
        let took = hung_up(served).await;
        assert!(took < 2 * (PING_INTERVAL + PING_PATIENCE), "{took:?}");
    }

    #[tokio::test]
    async fn who_answers_pings_may_stay() {
        let (mut client, served) = connect(Version::HTTP_2, 1024).await;
        client.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.unwrap();
        client.write_all(&SETTINGS).await.unwrap();
        let (began, mut pings) = (Instant::now(), 0);
        while began.elapsed() < Duration::from_mins(30) {
            let mut frame = [0; 9];
            client.read_exact(&mut frame).await.unwrap();
            let mut payload = vec![0; usize::from(frame[2])];
            client.read_exact(&mut payload).await.unwrap();
            if frame[3] == PING && frame[4] == 0 {
                pings += 1;
                frame[4] = 1;
                client.write_all(&[&frame[..], &payload[..]].concat()).await.unwrap();
            }
        }
        assert!(pings > 30 && !served.is_finished(), "{pings}");
    }

    #[tokio::test]
    async fn a_body_that_trickles_in_is_given_up() {
        let (client, served) = connect(Version::HTTP_11, 64 * 1024).await;
        let (mut answers, mut client) = tokio::io::split(client);
        let head = "POST /api/v1/namespaces HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000\r\n\r\n";
        client.write_all(head.as_bytes()).await.unwrap();
        let trickling = tokio::spawn(async move {
            while client.write_all(b" ").await.is_ok() {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        });
        let mut answer = String::new();
        let took = hung_up(served).await;
        answers.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 408 ") && answer.contains("the body took too long"), "{answer}");
        assert!((BODY_PATIENCE..2 * BODY_PATIENCE).contains(&took), "{took:?}");
        trickling.abort();
    }

    #[tokio::test]
    async fn a_watch_that_nobody_reads_is_given_up() {
        let (mut client, served) = connect(Version::HTTP_11, 512).await;
        let head = "GET /api/v1/namespaces?watch=true HTTP/1.1\r\nhost: localhost\r\n\r\n";
        client.write_all(head.as_bytes()).await.unwrap();
        let mut first = [0; 15];
        client.read_exact(&mut first).await.unwrap();
        assert_eq!(&first, b"HTTP/1.1 200 OK");
        let took = hung_up(served).await;
        assert!((READING_PATIENCE..2 * READING_PATIENCE).contains(&took), "{took:?}");
    }
}
