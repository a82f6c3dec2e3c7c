//! The server's side of TLS.

use std::sync::Arc;

use rustls::crypto::ring::default_provider;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};

use super::PkiError;

pub(super) fn server_config(
    authority: &CertificateDer<'static>,
    certificate: &CertificateDer<'static>,
    key: PrivateKeyDer<'static>,
) -> Result<ServerConfig, PkiError> {
    // Named, not taken from the process: a test process may have none or another.
    let provider = Arc::new(default_provider());
    let mut roots = RootCertStore::empty();
    roots.add(authority.clone())?;
    let clients = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
        .allow_unauthenticated()
        .build()
        .map_err(|e| rustls::Error::General(e.to_string()))?;
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_client_cert_verifier(clients)
        .with_single_cert(vec![certificate.clone()], key)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}
