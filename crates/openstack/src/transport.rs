//! Sends one HTTP request: connections, TLS and time limits. Knows nothing of OpenStack.

use std::error::Error as _;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

use crate::clouds::CloudError;
use crate::retry::Outcome;

/// The largest answer that is read. A list of all servers of a large cloud is below it.
const LARGEST: usize = 64 * 1024 * 1024;

/// Apache closes idle connections after 5 s by default. A request on a connection that closes at the same time fails,
/// so ours are closed earlier.
const IDLE: Duration = Duration::from_secs(4);

/// How long a call may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// For a connection, with TLS.
    pub connect: Duration,
    /// For the whole call with its retries. The authentication before it has a limit of its own.
    pub whole: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { connect: Duration::from_secs(5), whole: Duration::from_secs(30) }
    }
}

/// An answer with its whole body.
pub(crate) struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
}

/// Why there is no answer.
pub(crate) struct NoAnswer {
    pub outcome: Outcome,
    pub message: String,
}

/// A pool of connections.
pub(crate) struct Transport {
    client: Client<TimeoutConnector<HttpsConnector<HttpConnector>>, Full<Bytes>>,
}

impl Transport {
    /// A pool that trusts these certificate authorities, or the system's.
    pub fn new(ca: Option<&str>, limits: Limits) -> Result<Self, CloudError> {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        let https = HttpsConnectorBuilder::new().with_tls_config(tls(ca)?).https_or_http().enable_http1();
        let mut connector = TimeoutConnector::new(https.wrap_connector(tcp));
        connector.set_connect_timeout(Some(limits.connect));
        let mut pool = Client::builder(TokioExecutor::new());
        pool.pool_timer(TokioTimer::new()).pool_idle_timeout(IDLE);
        Ok(Self { client: pool.build(connector) })
    }

    /// Sends a request and reads its answer within a time limit.
    pub async fn send(&self, request: Request<Full<Bytes>>, limit: Duration) -> Result<Answer, NoAnswer> {
        tokio::time::timeout(limit, self.exchange(request)).await.unwrap_or_else(|_| {
            let message = format!("no answer within {} s", limit.as_secs_f64().ceil());
            Err(NoAnswer { outcome: Outcome::TimedOut, message })
        })
    }

    async fn exchange(&self, request: Request<Full<Bytes>>) -> Result<Answer, NoAnswer> {
        let response = self.client.request(request).await.map_err(|error| {
            let outcome = if error.is_connect() { Outcome::NotConnected } else { Outcome::Broken };
            NoAnswer { outcome, message: chain(&error) }
        })?;
        let (head, body) = response.into_parts();
        let body = Limited::new(body, LARGEST).collect().await.map_err(|error| NoAnswer {
            outcome: Outcome::Broken,
            message: format!("the answer ended early: {error}"),
        })?;
        Ok(Answer { status: head.status, headers: head.headers, body: body.to_bytes() })
    }
}

/// The innermost causes say most: "client error (Connect)" alone is no diagnosis.
fn chain(error: &hyper_util::client::legacy::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.ends_with(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}

fn tls(ca: Option<&str>) -> Result<ClientConfig, CloudError> {
    let mut roots = RootCertStore::empty();
    match ca {
        Some(pem) => {
            let certificates: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(pem.as_bytes())
                .collect::<Result<_, _>>()
                .map_err(|_| CloudError::field("cacert", "is not PEM"))?;
            let (added, _) = roots.add_parsable_certificates(certificates);
            if added == 0 {
                return Err(CloudError::field("cacert", "has no certificate"));
            }
        }
        // A container without any is fine for a Keystone without TLS; others fail at the handshake and say so.
        None => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("ring has the cipher suites of both versions of TLS");
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ca_bundle_without_a_certificate_is_refused() {
        let problem = |ca: &str| tls(Some(ca)).unwrap_err().to_string();
        assert_eq!(problem("nothing"), "cacert has no certificate");
        let broken = "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n";
        assert_eq!(problem(broken), "cacert is not PEM");
    }
}
