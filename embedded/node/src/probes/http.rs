//! The smallest HTTP client: one request, its status, any certificate.

use std::sync::Arc;

use http::{HeaderName, HeaderValue, Request, Response, Uri};
use http_body_util::Full;
use hyper::body::Incoming;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

const USER_AGENT: &str = "kube-probe/1.33";
const MOST_REDIRECTIONS: usize = 10;

/// A request.
#[derive(Clone)]
pub(super) struct Get {
    pub(super) is_tls: bool,
    pub(super) host: String,
    pub(super) port: u16,
    /// With its query.
    pub(super) path: String,
    pub(super) headers: Vec<(String, String)>,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum HttpError {
    #[error("dial tcp {0}: connect: {1}")]
    Connect(String, #[source] std::io::Error),
    #[error("tls: {0}")]
    Tls(#[source] std::io::Error),
    #[error("{0}")]
    Http(#[from] hyper::Error),
    #[error("{0}")]
    Request(#[from] http::Error),
}

/// The status of the answer. A redirection to another host counts as an answer.
pub(super) async fn status(mut get: Get) -> Result<u16, HttpError> {
    for _ in 0..MOST_REDIRECTIONS {
        let (status, location) = once(&get).await?;
        let next = location.filter(|_| (300..400).contains(&status)).and_then(|location| follow(&get, &location));
        match next {
            Some(next) => get = next,
            None => return Ok(status),
        }
    }
    Ok(310)
}

async fn once(get: &Get) -> Result<(u16, Option<String>), HttpError> {
    let address = format!("{}:{}", get.host, get.port);
    let connect = |error: std::io::Error| {
        let text = if error.kind() == std::io::ErrorKind::ConnectionRefused {
            std::io::Error::other("connection refused")
        } else {
            error
        };
        HttpError::Connect(address.clone(), text)
    };
    let stream = TcpStream::connect((get.host.as_str(), get.port)).await.map_err(connect)?;
    if !get.is_tls {
        return send(get, stream).await;
    }
    let name = ServerName::try_from(get.host.clone()).map_err(|error| HttpError::Tls(std::io::Error::other(error)))?;
    // As upstream: a probe asks whether someone answers, not who.
    let tls = c5c3_auth::trusting_anybody().map_err(|error| HttpError::Tls(std::io::Error::other(error)))?;
    let stream = TlsConnector::from(Arc::new(tls)).connect(name, stream).await;
    send(get, stream.map_err(HttpError::Tls)?).await
}

async fn send<S>(get: &Get, stream: S) -> Result<(u16, Option<String>), HttpError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut request = Request::get(&get.path).body(Full::default())?;
    let headers = request.headers_mut();
    for (name, value) in &get.headers {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
            headers.append(name, value);
        }
    }
    let default = [("host", format!("{}:{}", get.host, get.port)), ("user-agent", USER_AGENT.to_owned())];
    for (name, value) in default.into_iter().chain([("accept", "*/*".to_owned()), ("connection", "close".to_owned())]) {
        if let (false, Ok(value)) = (headers.contains_key(name), HeaderValue::try_from(value)) {
            headers.insert(name, value);
        }
    }
    // The connection ends with this future: the body is not of interest.
    c5c3_relay::exchange(stream, request, async |answer: Response<Incoming>| {
        let location = answer.headers().get("location").and_then(|value| value.to_str().ok()).map(str::to_owned);
        Ok((answer.status().as_u16(), location))
    })
    .await
}

/// The next request, unless the location is on another host.
fn follow(get: &Get, location: &str) -> Option<Get> {
    let uri: Uri = location.parse().ok()?;
    let path = uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str).to_owned();
    let Some(host) = uri.host() else { return Some(Get { path, ..get.clone() }) };
    let is_tls = uri.scheme_str() == Some("https");
    let port = uri.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
    (host == get.host).then(|| Get { is_tls, port, path, ..get.clone() })
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    fn get(port: u16, path: &str) -> Get {
        let headers = vec![("X-Till".to_owned(), "7".to_owned())];
        Get { is_tls: false, host: "127.0.0.1".to_owned(), port, path: path.to_owned(), headers }
    }

    /// Answers each request by its path, with what was asked for in a header.
    async fn serve(listener: TcpListener) {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut bytes = vec![0; 4096];
            let read = stream.read(&mut bytes).await.unwrap();
            let asked = String::from_utf8_lossy(&bytes[..read]).to_lowercase();
            let is_ours = asked.contains("x-till: 7") && asked.contains("user-agent: kube-probe/");
            let answer = match asked.split_whitespace().nth(1) {
                Some("/good?x=1") if is_ours => "200 OK\r\n",
                Some("/moved") => "302 Found\r\nLocation: /good?x=1\r\n",
                Some("/away") => "302 Found\r\nLocation: http://elsewhere.test/\r\n",
                Some("/around") => "302 Found\r\nLocation: /around\r\n",
                _ => "500 Error\r\n",
            };
            stream.write_all(format!("HTTP/1.1 {answer}Content-Length: 0\r\n\r\n").as_bytes()).await.unwrap();
        }
    }

    #[tokio::test]
    async fn the_status_is_told_and_redirections_within_the_host_are_followed() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = tokio::spawn(serve(listener));
        for (path, wanted) in [("/good?x=1", 200), ("/bad", 500), ("/moved", 200), ("/away", 302), ("/around", 310)] {
            assert_eq!(status(get(port, path)).await.unwrap(), wanted, "{path}");
        }
        server.abort();
        let _ = server.await;
        let refused = status(get(port, "/")).await.unwrap_err().to_string();
        assert_eq!(refused, format!("dial tcp 127.0.0.1:{port}: connect: connection refused"));
    }
}
