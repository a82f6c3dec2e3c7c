//! The HTTPS call to a webhook.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{Request, Response, Uri, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::object::of_entry;
use crate::server::{LARGEST_BODY, Server};

/// Where a webhook is.
#[derive(Debug, PartialEq, Eq)]
struct Endpoint {
    /// The host to connect to.
    host: String,
    /// The host that its certificate must be for.
    name: String,
    port: u16,
    path: String,
}

impl Endpoint {
    fn find(server: &Server, config: &Value) -> Result<Self, String> {
        match config["url"].as_str().filter(|url| !url.is_empty()) {
            Some(url) => Self::of_url(url),
            None => Self::of_service(server, &config["service"]),
        }
    }

    fn of_url(url: &str) -> Result<Self, String> {
        let uri: Uri = url.parse().map_err(|error| format!("the URL {url:?} cannot be read: {error}"))?;
        if uri.scheme_str() != Some("https") {
            return Err(format!("the URL {url:?} is not an https one"));
        }
        let host = uri.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
        let path = uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
        Ok(Self { name: host.clone(), host, port: uri.port_u16().unwrap_or(443), path })
    }

    /// A Service is reached at its address, or at what it stands for outside; its certificate is for its name.
    fn of_service(server: &Server, service: &Value) -> Result<Self, String> {
        let text = |field: &str| service[field].as_str().unwrap_or_default();
        let (namespace, name) = (text("namespace"), text("name"));
        let stored = server.registry().find("", "v1", "services").and_then(|services| {
            let entry = server.store().get(&services.key(Some(namespace), name))?;
            of_entry(&services.resource, &entry).ok()
        });
        let stored = stored.ok_or_else(|| format!("service {name:?} not found"))?;
        let dns = format!("{name}.{namespace}.svc");
        let host = match stored["spec"]["type"].as_str() {
            Some("ExternalName") => &stored["spec"]["externalName"],
            _ => &stored["spec"]["clusterIP"],
        };
        let host = host.as_str().filter(|host| !matches!(*host, "" | "None"));
        let host = host.ok_or_else(|| format!("service {name:?} has no address: it is headless"))?.to_owned();
        let port = service["port"].as_u64().and_then(|port| u16::try_from(port).ok()).unwrap_or(443);
        let path = format!("/{}", text("path").trim_start_matches('/'));
        Ok(Self { host, name: dns, port, path })
    }

    fn authority(&self) -> String {
        let name = if self.name.contains(':') { format!("[{}]", self.name) } else { self.name.clone() };
        format!("{name}:{}", self.port)
    }
}

/// Posts a review to a webhook of admission or conversion, and returns the answer. The error says why there is none.
pub(crate) async fn post(server: &Server, config: &Value, timeout: Duration, review: &Value) -> Result<Bytes, String> {
    let endpoint = Endpoint::find(server, config)?;
    let separator = if endpoint.path.contains('?') { '&' } else { '?' };
    let path = format!("{}{separator}timeout={}s", endpoint.path, timeout.as_secs());
    let called = format!("Post \"https://{}{path}\"", endpoint.authority());
    let answer = tokio::time::timeout(timeout, exchange(&endpoint, config, &path, review.to_string())).await;
    match answer {
        Ok(answer) => answer.map_err(|why| format!("{called}: {why}")),
        Err(_) => Err(format!("{called}: context deadline exceeded")),
    }
}

async fn exchange(endpoint: &Endpoint, config: &Value, path: &str, body: String) -> Result<Bytes, String> {
    let tls = tls(config)?;
    let name = ServerName::try_from(endpoint.name.clone()).map_err(|error| error.to_string())?;
    let dialled = |error: std::io::Error| format!("dial tcp {}:{}: {error}", endpoint.host, endpoint.port);
    let stream = TcpStream::connect((endpoint.host.as_str(), endpoint.port)).await.map_err(dialled)?;
    let _ = stream.set_nodelay(true);
    let stream =
        TlsConnector::from(Arc::new(tls)).connect(name, stream).await.map_err(|error| format!("tls: {error}"))?;
    let request = Request::post(path)
        .header(header::HOST, endpoint.authority())
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::ACCEPT, "application/json")
        .body(Full::new(Bytes::from(body)))
        .map_err(|error| error.to_string())?;
    let answered = async |response: Response<Incoming>| {
        let status = response.status();
        let body = Limited::new(response.into_body(), LARGEST_BODY).collect().await;
        let body = body.map_err(|error| Why(format!("the answer cannot be read: {error}")))?.to_bytes();
        if status.is_success() { Ok(body) } else { Err(Why(format!("the server answered {status}"))) }
    };
    c5c3_relay::exchange(stream, request, answered).await.map_err(|Why(why)| why)
}

/// Why there is no answer.
struct Why(String);

impl From<hyper::Error> for Why {
    fn from(error: hyper::Error) -> Self {
        Self(error.to_string())
    }
}

/// How to speak TLS with a webhook: its certificate is from the authority that its configuration names.
fn tls(config: &Value) -> Result<ClientConfig, String> {
    let bundle = config["caBundle"].as_str().filter(|bundle| !bundle.is_empty());
    let bundle = bundle.ok_or("the webhook has no caBundle, and this server trusts no authority of its own accord")?;
    let pem = STANDARD.decode(bundle).map_err(|error| format!("caBundle is not base64: {error}"))?;
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        let certificate = certificate.map_err(|error| format!("caBundle is not PEM: {error}"))?;
        roots.add(certificate).map_err(|error| format!("caBundle has a certificate that cannot be used: {error}"))?;
    }
    if roots.is_empty() {
        return Err("caBundle has no certificate".to_owned());
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| error.to_string())?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_says_where_a_webhook_is() {
        let found = Endpoint::of_url("https://hooks.example.com:8443/a/b?c=d").unwrap();
        let name = "hooks.example.com".to_owned();
        assert_eq!(found, Endpoint { host: name.clone(), name, port: 8443, path: "/a/b?c=d".into() });
        let found = Endpoint::of_url("https://[::1]").unwrap();
        assert_eq!((found.host.as_str(), found.authority().as_str(), found.path.as_str()), ("::1", "[::1]:443", "/"));
        assert!(Endpoint::of_url("http://hooks.example.com").is_err());
    }
}
