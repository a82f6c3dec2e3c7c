//! Requests to servers that run in the cluster, by the names that they have there.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, Uri, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use k8s_openapi::api::core::v1::Service;
use kube::{Api, Client};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// How long a server may take to answer.
const PATIENCE: Duration = Duration::from_secs(15);

/// The most that an answer may hold: it is a few small objects.
const LARGEST: usize = 8 << 20;

/// As much of a server's reason as is told.
const LONGEST_REASON: usize = 300;

/// Why a request came to nothing. Never holds what was sent.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HttpError {
    /// The address of a server makes no sense.
    #[error("{0:?} is not the URL of a server")]
    Url(String),
    /// What is sent could be read on the way.
    #[error(
        "{0} is not on this machine and is talked to without TLS, so that credentials would be sent in the clear; use https"
    )]
    Clear(String),
    /// No one answers.
    #[error("{server} does not answer: {why}")]
    Unreachable {
        /// Who.
        server: String,
        /// Why.
        why: String,
    },
    /// The server refuses.
    #[error("{server} answered {status} to {request}: {said}")]
    Refused {
        /// Who.
        server: String,
        /// The status.
        status: StatusCode,
        /// Method and path.
        request: String,
        /// What the server says about it.
        said: String,
    },
}

/// A server, and what each request to it carries.
#[derive(Clone)]
pub(crate) struct Server {
    client: Client,
    secure: bool,
    host: String,
    port: u16,
    tls: Option<Arc<ClientConfig>>,
    headers: Vec<(header::HeaderName, header::HeaderValue)>,
}

impl Server {
    /// The server of a URL, of which the path is left out. Without a scheme it is `http`.
    pub(crate) fn new(client: &Client, url: &str, tls: Option<ClientConfig>) -> Result<Self, HttpError> {
        let wrong = || HttpError::Url(url.to_owned());
        let with_scheme = if url.contains("://") { url.to_owned() } else { format!("http://{url}") };
        let uri: Uri = with_scheme.parse().map_err(|_| wrong())?;
        let secure = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err(wrong()),
        };
        let host = uri.host().ok_or_else(wrong)?.trim_matches(['[', ']']).to_owned();
        let port = uri.port_u16().unwrap_or(if secure { 443 } else { 80 });
        Ok(Self { client: client.clone(), secure, host, port, tls: tls.map(Arc::new), headers: Vec::new() })
    }

    /// Adds a header whose value is never shown.
    pub(crate) fn header(mut self, name: header::HeaderName, value: &str) -> Result<Self, HttpError> {
        let mut value = header::HeaderValue::from_str(value).map_err(|_| HttpError::Url(self.host.clone()))?;
        value.set_sensitive(true);
        self.headers.push((name, value));
        Ok(self)
    }

    /// Refuses a server that is talked to in the clear beyond this machine: whoever is on the way reads what is sent. The
    /// Services of the cluster are on this machine.
    pub(crate) fn keeps_secrets(self) -> Result<Self, HttpError> {
        let is_loopback = self.host.parse::<IpAddr>().map_or(self.host == "localhost", |address| address.is_loopback());
        if self.secure || is_loopback || service_name(&self.host).is_some() {
            return Ok(self);
        }
        Err(HttpError::Clear(self.name()))
    }

    /// Logs in with name and password at each request.
    pub(crate) fn basic(self, user: &str, password: &str) -> Result<Self, HttpError> {
        let credentials = format!("Basic {}", STANDARD.encode(format!("{user}:{password}")));
        self.header(header::AUTHORIZATION, &credentials)
    }

    /// Sends a request and reads the answer, which is null when it is empty.
    pub(crate) async fn send(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Value, HttpError> {
        let (status, answer) = self.ask(method.clone(), path, body).await?;
        if status.is_success() {
            return Ok(answer);
        }
        Err(HttpError::Refused {
            server: self.name(),
            status,
            request: format!("{method} {path}"),
            said: said(&answer),
        })
    }

    /// Sends a request and reads whatever the answer is.
    pub(crate) async fn ask(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<(StatusCode, Value), HttpError> {
        let content = body.map(|body| Bytes::from(body.to_string())).unwrap_or_default();
        let mut request = Request::builder().method(method).uri(path).header(header::HOST, self.name());
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        if body.is_some() {
            request = request.header(header::CONTENT_TYPE, "application/json");
        }
        let request = request.body(Full::new(content)).map_err(|_| HttpError::Url(path.to_owned()))?;
        match tokio::time::timeout(PATIENCE, self.exchange(request)).await {
            Ok(answer) => answer,
            Err(_) => Err(self.unreachable(format!("nothing came within {PATIENCE:?}"))),
        }
    }

    async fn exchange(&self, request: Request<Full<Bytes>>) -> Result<(StatusCode, Value), HttpError> {
        let address = self.address().await?;
        let stream =
            TcpStream::connect((address.as_str(), self.port)).await.map_err(|error| self.unreachable(error))?;
        if !self.secure {
            return self.over(stream, request).await;
        }
        let config = self.tls.clone().ok_or_else(|| self.unreachable("no authority is trusted to vouch for it"))?;
        let name = ServerName::try_from(self.host.clone()).map_err(|_| HttpError::Url(self.host.clone()))?;
        let stream = TlsConnector::from(config).connect(name, stream).await.map_err(|error| self.unreachable(error))?;
        self.over(stream, request).await
    }

    async fn over(
        &self,
        stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
        request: Request<Full<Bytes>>,
    ) -> Result<(StatusCode, Value), HttpError> {
        let read = async |response: Response<Incoming>| {
            let status = response.status();
            Ok((status, Limited::new(response.into_body(), LARGEST).collect().await))
        };
        let answer: Result<_, hyper::Error> = c5c3_relay::exchange(stream, request, read).await;
        let (status, body) = answer.map_err(|error| self.unreachable(error))?;
        let body = body.map_err(|error| self.unreachable(error))?.to_bytes();
        let text = String::from_utf8_lossy(&body).into_owned();
        Ok((status, serde_json::from_slice(&body).unwrap_or(if text.is_empty() { Value::Null } else { text.into() })))
    }

    /// Where to connect: the names of Services are not known outside of pods, so that the API is asked for the address.
    async fn address(&self) -> Result<String, HttpError> {
        let Some((name, namespace)) = service_name(&self.host) else { return Ok(self.host.clone()) };
        let service = Api::<Service>::namespaced(self.client.clone(), namespace).get(name).await;
        let service = service.map_err(|error| self.unreachable(format!("its Service cannot be read: {error}")))?;
        let address = service.spec.and_then(|spec| spec.cluster_ip).filter(|address| address != "None");
        address.ok_or_else(|| self.unreachable("its Service has no address of its own"))
    }

    fn name(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }

    fn unreachable(&self, why: impl std::fmt::Display) -> HttpError {
        HttpError::Unreachable { server: self.name(), why: why.to_string() }
    }
}

/// What a server says about a refusal. Errors end up in statuses, which others read than those who may reach the server,
/// and a URL may lead anywhere: of an answer only the reasons are told that the servers which are meant give, and of these
/// the start.
fn said(answer: &Value) -> String {
    let words = |field: &str| match &answer[field] {
        Value::String(text) => vec![text.clone()],
        Value::Array(list) => list.iter().filter_map(|text| text.as_str().map(str::to_owned)).collect(),
        _ => Vec::new(),
    };
    let mut text = ["errors", "error", "reason"].map(words).concat().join(": ");
    if text.is_empty() {
        return "no reason is given".to_owned();
    }
    if text.len() > LONGEST_REASON {
        text.truncate(text.floor_char_boundary(LONGEST_REASON));
        text.push_str("...");
    }
    text
}

/// What a client trusts that has these authorities, PEM; none if they cannot be read.
pub(crate) fn trusting(authorities: &[u8]) -> Option<ClientConfig> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(authorities) {
        roots.add(certificate.ok()?).ok()?;
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().ok()?;
    Some(builder.with_root_certificates(roots).with_no_client_auth())
}

/// Name and namespace of the Service, if a host is one.
fn service_name(host: &str) -> Option<(&str, &str)> {
    let host = host.trim_end_matches('.');
    let host = host.strip_suffix(".cluster.local").unwrap_or(host).strip_suffix(".svc")?;
    host.split_once('.').filter(|(_, namespace)| !namespace.contains('.'))
}

/// A word of a path, with whatever means something in one written in percent.
pub(crate) fn encoded(word: &str) -> String {
    const MEANINGFUL: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
    utf8_percent_encode(word, MEANINGFUL).to_string()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_service_is_told_from_other_hosts_by_its_name() {
        assert_eq!(service_name("burrow.warren.svc"), Some(("burrow", "warren")));
        assert_eq!(service_name("burrow.warren.svc.cluster.local."), Some(("burrow", "warren")));
        for other in ["burrow", "burrow.warren", "0.burrow.warren.svc", "127.0.0.1", "svc"] {
            assert_eq!(service_name(other), None, "{other}");
        }
    }

    #[test]
    fn of_an_answer_that_refuses_only_reasons_are_told_and_only_their_start() {
        assert_eq!(said(&json!({"errors": ["permission denied", "x"]})), "permission denied: x");
        assert_eq!(said(&json!({"error": "not_authorised", "reason": "Login failed"})), "not_authorised: Login failed");
        for foreign in [json!("<html>secret</html>"), json!({"AccessKeyId": "secret"}), json!(["secret"]), Value::Null]
        {
            assert_eq!(said(&foreign), "no reason is given");
        }
        let long = said(&json!({"errors": ["ü".repeat(1 << 20)]}));
        assert!(long.len() <= LONGEST_REASON + 3, "{}", long.len());
    }

    #[tokio::test]
    async fn credentials_leave_the_machine_over_tls_alone() {
        let client = Client::try_from(kube::Config::new("http://127.0.0.1:1".parse().unwrap())).unwrap();
        let may = |url: &str| Server::new(&client, url, None).and_then(Server::keeps_secrets).is_ok();
        for url in [
            "https://vault.example",
            "http://127.0.0.1:8200",
            "http://[::1]:8200",
            "http://localhost",
            "http://a.b.svc:8200",
        ] {
            assert!(may(url), "{url}");
        }
        for url in ["http://vault.example", "http://10.0.0.1:8200", "http://169.254.169.254", "vault.example:8200"] {
            assert!(!may(url), "{url}");
        }
    }

    #[test]
    fn words_of_a_path_stay_one_word() {
        assert_eq!(encoded("/"), "%2F");
        assert_eq!(encoded("nova-cell1.0"), "nova-cell1.0");
        assert_eq!(encoded("a b?ü"), "a%20b%3F%C3%BC");
    }
}
