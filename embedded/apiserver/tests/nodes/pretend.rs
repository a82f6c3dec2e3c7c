//! A pretend node: it says what it was asked for, and repeats what it hears on connections. And a page to proxy.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;

use c5c3_auth::{Pki, certificate_user};
use http::{Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use jiff::Timestamp;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// Starts a node with a certificate of the cluster's authority.
pub async fn node(pki: &Pki) -> SocketAddr {
    let own = pki.issue_server(&["127.0.0.1"], std::time::Duration::from_mins(10), Timestamp::now()).unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(own.serving(pki.ca_pem()).unwrap()));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let Ok(stream) = acceptor.accept(stream).await else { return };
                let certificate = &stream.get_ref().1.peer_certificates().unwrap()[0];
                let user = certificate_user(certificate, Timestamp::now()).unwrap();
                assert!(user.is_in(c5c3_auth::MASTERS), "{user:?}");
                let service = service_fn(move |request| {
                    let answer = answer(&user.name, request);
                    async move { Ok::<_, Infallible>(answer) }
                });
                let connection =
                    hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service);
                let _ = connection.with_upgrades().await;
            });
        }
    });
    address
}

fn answer(user: &str, mut request: Request<Incoming>) -> Response<Full<Bytes>> {
    let asked = format!("{} {}", request.method(), request.uri());
    assert!(!request.headers().contains_key(header::AUTHORIZATION));
    let Some(protocol) = request.headers().get(header::UPGRADE).cloned() else {
        let is_waiting = request.uri().path().ends_with("/side");
        let waiting = "container \"side\" in pod \"web\" is waiting to start: ContainerCreating";
        let body = if is_waiting { waiting.to_owned() } else { format!("{user} asks {asked}\n") };
        let status = if is_waiting { StatusCode::BAD_REQUEST } else { StatusCode::OK };
        return Response::builder().status(status).body(body.into()).unwrap();
    };
    let upgrade = hyper::upgrade::on(&mut request);
    let greeting = format!("{asked} {}\n", protocol.to_str().unwrap());
    tokio::spawn(async move {
        let mut stream = TokioIo::new(upgrade.await.unwrap());
        stream.write_all(greeting.as_bytes()).await.unwrap();
        let mut heard = vec![0; 10_000];
        while let Ok(count) = stream.read(&mut heard).await {
            stream.write_all(&heard[..count]).await.unwrap();
            stream.flush().await.unwrap();
            if count == 0 || heard[..count].ends_with(b"bye") {
                break;
            }
        }
        let _ = stream.shutdown().await;
    });
    let switched = Response::builder().status(StatusCode::SWITCHING_PROTOCOLS);
    switched.header(header::CONNECTION, "Upgrade").header(header::UPGRADE, protocol).body(Full::default()).unwrap()
}

/// Starts what a pod might serve, without TLS.
pub async fn page() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let service = service_fn(|request: Request<Incoming>| async move {
                let asked = format!("{} {}", request.method(), request.uri());
                let is_moved = request.uri().path() == "/moved";
                let body = String::from_utf8(request.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap();
                let response = match (is_moved, body.as_str()) {
                    (true, _) => {
                        Response::builder().status(302).header(header::LOCATION, "/elsewhere").body(Full::default())
                    }
                    (false, "") => Response::builder()
                        .header(header::CONTENT_TYPE, "text/html")
                        .body(format!("{asked} <a href=\"/rewriteme\">test</a>").into()),
                    (false, body) => Response::builder().body(format!("{asked} {body}").into()),
                };
                Ok::<Response<Full<Bytes>>, Infallible>(response.unwrap())
            });
            tokio::spawn(hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service));
        }
    });
    address
}
