//! Both sides of TLS: the API server's, and that of a server and a client that know each other by the authority.

use std::sync::{Arc, PoisonError, RwLock};

use rustls::crypto::CryptoProvider;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{
    ClientCertVerifierBuilder, ClientHello, ResolvesServerCert, WantsServerCert, WebPkiClientVerifier,
};
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, ConfigBuilder, RootCertStore, ServerConfig};
use secrecy::ExposeSecret;

use super::{Identity, PkiError};

pub(super) fn server_config(
    authority: &CertificateDer<'static>,
    current: Arc<Current>,
) -> Result<ServerConfig, PkiError> {
    let clients = clients_of(authority.clone())?.allow_unauthenticated();
    let mut config = with_clients(clients)?.with_cert_resolver(current);
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

/// Without a certificate of the authority there is no handshake, and without HTTP/1.1 there are no upgrades.
pub(super) fn strict_server_config(authority: &str, own: &Identity) -> Result<ServerConfig, PkiError> {
    let clients = clients_of(certificate(authority)?)?;
    let mut config = with_clients(clients)?.with_single_cert(vec![certificate(&own.certificate)?], key(own)?)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

pub(super) fn client_config(authority: &str, own: &Identity) -> Result<ClientConfig, PkiError> {
    let mut config = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()?
        .with_root_certificates(trusting(certificate(authority)?)?)
        .with_client_auth_cert(vec![certificate(&own.certificate)?], key(own)?)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

fn with_clients(clients: ClientCertVerifierBuilder) -> Result<ConfigBuilder<ServerConfig, WantsServerCert>, PkiError> {
    let clients = clients.build().map_err(|e| rustls::Error::General(e.to_string()))?;
    let builder = ServerConfig::builder_with_provider(provider()).with_safe_default_protocol_versions()?;
    Ok(builder.with_client_cert_verifier(clients))
}

/// The certificate that a server shows: each handshake takes the one of that moment.
#[derive(Debug)]
pub(super) struct Current(RwLock<Arc<CertifiedKey>>);

impl Current {
    pub(super) fn new(certificate: &CertificateDer<'static>, key: PrivateKeyDer<'static>) -> Result<Self, PkiError> {
        Ok(Self(RwLock::new(certified(certificate, key)?)))
    }

    pub(super) fn replace(
        &self,
        certificate: &CertificateDer<'static>,
        key: PrivateKeyDer<'static>,
    ) -> Result<(), PkiError> {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = certified(certificate, key)?;
        Ok(())
    }
}

impl ResolvesServerCert for Current {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner)))
    }
}

fn certified(
    certificate: &CertificateDer<'static>,
    key: PrivateKeyDer<'static>,
) -> Result<Arc<CertifiedKey>, PkiError> {
    let key = provider().key_provider.load_private_key(key)?;
    Ok(Arc::new(CertifiedKey::new(vec![certificate.clone()], key)))
}

fn clients_of(authority: CertificateDer<'static>) -> Result<ClientCertVerifierBuilder, PkiError> {
    let roots = Arc::new(trusting(authority)?);
    Ok(WebPkiClientVerifier::builder_with_provider(roots, provider()))
}

fn trusting(authority: CertificateDer<'static>) -> Result<RootCertStore, PkiError> {
    let mut roots = RootCertStore::empty();
    roots.add(authority)?;
    Ok(roots)
}

/// Named, not taken from the process: a test process may have none or another.
fn provider() -> Arc<CryptoProvider> {
    Arc::new(default_provider())
}

fn certificate(pem: &str) -> Result<CertificateDer<'static>, PkiError> {
    CertificateDer::from_pem_slice(pem.as_bytes()).map_err(|_| PkiError::Certificate)
}

fn key(own: &Identity) -> Result<PrivateKeyDer<'static>, PkiError> {
    PrivateKeyDer::from_pem_slice(own.key.expose_secret().as_bytes()).map_err(|_| PkiError::Key)
}
