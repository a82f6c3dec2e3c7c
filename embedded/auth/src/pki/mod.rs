//! The cluster's own authority: its certificate, the server's, the clients', and the key that signs tokens.
//!
//! A data directory (mode 0700) holds `ca.crt`, `ca.key`, `server.crt`, `server.key` and `sa.key` (mode 0600). What is
//! missing is made, what is nearly over is renewed, what contradicts itself is refused.

mod directory;
mod issuing;
mod key;
mod request;
mod tls;
mod x509;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use ring::digest::{SHA256, digest};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ServerConfig};
use secrecy::SecretString;

pub use issuing::{Asked, Issued, Signer, Usage};
pub(crate) use key::{P256, random};
pub use request::{KeyKind, Request};
use x509::{Issuer, Public, Purpose, Subject, Validity};

use crate::user::{AUTHENTICATED, CREDENTIAL_ID, UserInfo};
use crate::wording::hex;

/// Names under which clients inside and outside the cluster reach the API.
pub const SERVER_NAMES: [&str; 7] = [
    "localhost",
    "127.0.0.1",
    "::1",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
];

const AUTHORITY_LIFE: SignedDuration = SignedDuration::from_hours(24 * 3650);
/// How long the server's certificate lasts, if nothing else is asked for.
pub const SERVER_LIFE: Duration = Duration::from_hours(24 * 365);
/// Certificates hold a little before they are made, for clients whose clocks are behind.
const BACKDATE: SignedDuration = SignedDuration::from_mins(5);

/// Why certificates or keys could not be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PkiError {
    /// The system has no random numbers, without which there are no keys.
    #[error("the system's random number generator failed")]
    Random,
    /// A private key is not PKCS#8 or not for P-256.
    #[error("not a PKCS#8 P-256 private key in PEM form")]
    Key,
    /// A certificate is not one.
    #[error("not an X.509 certificate that can be read")]
    Certificate,
    /// A request for a certificate is not one, or is not signed by the key that it names.
    #[error("not a certificate request (PKCS#10, PEM) that is signed by its own key")]
    Request,
    /// A client's certificate has run out, or is from the future.
    #[error("the certificate is not in force at this time")]
    NotInForce,
    /// A certificate that should sign others may not, or its key is another one.
    #[error("{0}")]
    NoAuthority(&'static str),
    /// A name for the server's certificate is neither a DNS name nor an address.
    #[error("{0:?} is neither a DNS name nor an IP address")]
    Name(String),
    /// A certificate would last longer than calendars go.
    #[error("a certificate cannot last {0:?}")]
    Life(Duration),
    /// A file is there and cannot be used; making a new one would lock out everybody who trusts the old one.
    #[error("{path}: {reason}")]
    Refused {
        /// The file.
        path: PathBuf,
        /// What is wrong, and what to do.
        reason: String,
    },
    /// A file could not be read or written.
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The TLS library does not take what was made.
    #[error(transparent)]
    Tls(#[from] rustls::Error),
}

/// A certificate and the key that belongs to it.
#[derive(Debug)]
pub struct Identity {
    /// The certificate, PEM.
    pub certificate: String,
    /// The private key, PEM.
    pub key: SecretString,
}

impl Identity {
    /// How a server speaks TLS that has this certificate and serves no one without one of the authority in `ca_pem`.
    pub fn serving(&self, ca_pem: &str) -> Result<ServerConfig, PkiError> {
        tls::strict_server_config(ca_pem, self)
    }

    /// How a client speaks TLS that has this certificate and trusts servers of the authority in `ca_pem`.
    pub fn calling(&self, ca_pem: &str) -> Result<ClientConfig, PkiError> {
        tls::client_config(ca_pem, self)
    }
}

/// Everything that the API server proves itself and its clients with.
#[derive(Debug)]
pub struct Pki {
    authority: Authority,
    server: Mutex<Leaf>,
    /// What handshakes take the server's certificate from.
    current: Arc<tls::Current>,
    /// What the server's certificate is for.
    names: Vec<ServerName<'static>>,
    /// How long it lasts.
    life: SignedDuration,
    /// Where certificates are kept, if they are.
    directory: Option<PathBuf>,
    token_key: Arc<P256>,
}

#[derive(Debug)]
struct Authority {
    subject: Subject,
    key: P256,
    certificate: CertificateDer<'static>,
    pem: String,
}

#[derive(Debug)]
struct Leaf {
    key: P256,
    certificate: CertificateDer<'static>,
}

impl Pki {
    /// Makes everything new, on no disk: for tests, and for servers that forget.
    pub fn in_memory(extra_names: &[String], now: Timestamp) -> Result<Self, PkiError> {
        let authority = Authority::new(P256::generate()?, now)?;
        let names = server_names(extra_names)?;
        let server = authority.server(&names, life(SERVER_LIFE)?, now)?;
        Self::with(authority, server, names, None, P256::generate()?)
    }

    /// Takes what `directory` holds, makes what is missing and renews what is due.
    ///
    /// The server's certificate is made again when it lacks one of the names asked for, has less than a third of its
    /// life left or is not the authority's. The authority's is prolonged with its old key, so that clients keep trusting it.
    pub fn open(directory: &Path, extra_names: &[String], now: Timestamp) -> Result<Self, PkiError> {
        directory::prepare(directory)?;
        let authority = directory::authority(directory, now)?;
        let names = server_names(extra_names)?;
        let server = directory::server(directory, &authority, &names, life(SERVER_LIFE)?, now)?;
        let token_key = directory::token_key(directory)?;
        Self::with(authority, server, names, Some(directory.to_owned()), token_key)
    }

    fn with(
        authority: Authority,
        server: Leaf,
        names: Vec<ServerName<'static>>,
        directory: Option<PathBuf>,
        token_key: P256,
    ) -> Result<Self, PkiError> {
        let current = Arc::new(tls::Current::new(&server.certificate, server.key.der())?);
        let (server, token_key) = (Mutex::new(server), Arc::new(token_key));
        Ok(Self { authority, server, current, names, life: life(SERVER_LIFE)?, directory, token_key })
    }

    /// Lets the server's certificates last that long from now on, and the present one, too: for tests that see it renewed.
    pub fn with_server_life(mut self, server_life: Duration, now: Timestamp) -> Result<Self, PkiError> {
        let server_life = life(server_life)?;
        if server_life != self.life {
            self.life = server_life;
            let server = self.authority.server(&self.names, self.life, now)?;
            self.replace(&mut self.server.lock().unwrap_or_else(PoisonError::into_inner), server)?;
        }
        Ok(self)
    }

    /// Renews the server's certificate if less than a third of its life is left. Handshakes from then on show the new
    /// one, those of servers that run included. Returns whether it did.
    pub fn renew(&self, now: Timestamp) -> Result<bool, PkiError> {
        let mut server = self.server.lock().unwrap_or_else(PoisonError::into_inner);
        if directory::serves(&server.certificate, &server.key, &self.authority, &self.names, self.life, now) {
            return Ok(false);
        }
        let renewed = self.authority.server(&self.names, self.life, now)?;
        self.replace(&mut server, renewed)?;
        Ok(true)
    }

    /// Keeps a new certificate of the server, and shows it from now on.
    fn replace(&self, server: &mut Leaf, renewed: Leaf) -> Result<(), PkiError> {
        if let Some(directory) = &self.directory {
            directory::write_server(directory, &renewed)?;
        }
        self.current.replace(&renewed.certificate, renewed.key.der())?;
        *server = renewed;
        Ok(())
    }

    /// The authority's certificate, which clients trust and pods find as `ca.crt`.
    pub fn ca_pem(&self) -> &str {
        &self.authority.pem
    }

    /// A client certificate: the common name is the user, each organization a group.
    pub fn issue_client(
        &self,
        user: &str,
        groups: &[&str],
        ttl: Duration,
        now: Timestamp,
    ) -> Result<Identity, PkiError> {
        let subject = Subject {
            common_name: user.to_owned(),
            organizations: groups.iter().map(|&group| group.to_owned()).collect(),
            ..Subject::default()
        };
        self.authority.identity(&subject, &Purpose::Client, ttl, now)
    }

    /// A certificate for a server beside this one, such as a node's, under all the names and addresses that it has.
    pub fn issue_server(&self, names: &[&str], ttl: Duration, now: Timestamp) -> Result<Identity, PkiError> {
        let common_name = names.first().copied().unwrap_or_default().to_owned();
        let subject = Subject { common_name, ..Subject::default() };
        self.authority.identity(&subject, &Purpose::Server(&parse_names(names)?), ttl, now)
    }

    /// How the server speaks TLS: its certificate, HTTP/2 before HTTP/1.1, client certificates welcome but not needed.
    ///
    /// A client certificate that this authority has not signed ends the handshake.
    pub fn tls(&self) -> Result<ServerConfig, PkiError> {
        tls::server_config(&self.authority.certificate, Arc::clone(&self.current))
    }

    pub(crate) fn token_key(&self) -> Arc<P256> {
        Arc::clone(&self.token_key)
    }
}

impl Authority {
    fn new(key: P256, now: Timestamp) -> Result<Self, PkiError> {
        let subject = Self::subject();
        let validity = Validity { from: now - BACKDATE, until: now + AUTHORITY_LIFE };
        let issuer = Issuer::new(&subject, &key);
        let certificate = x509::issue(&issuer, &Public::of(&key), &subject, &Purpose::Authority, validity)?;
        Ok(Self { pem: certificate_pem(&certificate), certificate, subject, key })
    }

    /// The same at every start: a prolonged authority must be the same one to those who trust the old certificate.
    fn subject() -> Subject {
        Subject { common_name: "kubernetes".to_owned(), ..Subject::default() }
    }

    fn issuer(&self) -> Issuer<'_> {
        Issuer::new(&self.subject, &self.key)
    }

    fn identity(
        &self,
        subject: &Subject,
        purpose: &Purpose<'_>,
        ttl: Duration,
        now: Timestamp,
    ) -> Result<Identity, PkiError> {
        let key = P256::generate()?;
        let until = now.checked_add(ttl).map_err(|_| PkiError::Life(ttl))?;
        let certificate =
            x509::issue(&self.issuer(), &Public::of(&key), subject, purpose, Validity { from: now - BACKDATE, until })?;
        Ok(Identity { certificate: certificate_pem(&certificate), key: key.pem() })
    }

    fn server(&self, names: &[ServerName<'static>], life: SignedDuration, now: Timestamp) -> Result<Leaf, PkiError> {
        let key = P256::generate()?;
        let subject = Subject { common_name: "kube-apiserver".to_owned(), ..Subject::default() };
        let until = now.checked_add(life).map_err(|_| PkiError::Life(life.unsigned_abs()))?;
        let validity = Validity { from: now - BACKDATE, until };
        let certificate = x509::issue(&self.issuer(), &Public::of(&key), &subject, &Purpose::Server(names), validity)?;
        Ok(Leaf { key, certificate })
    }
}

/// Who presents this certificate, whose chain the TLS layer has verified.
///
/// Fails on a certificate that has run out since the connection was made, and on one without a common name.
pub fn certificate_user(der: &[u8], now: Timestamp) -> Result<UserInfo, PkiError> {
    let (subject, validity) = x509::read(der)?;
    if now < validity.from || validity.until < now {
        return Err(PkiError::NotInForce);
    }
    if subject.common_name.is_empty() {
        return Err(PkiError::Certificate);
    }
    let mut user = UserInfo::new(subject.common_name, subject.organizations);
    if !user.is_in(AUTHENTICATED) {
        user.groups.push(AUTHENTICATED.to_owned());
    }
    let credential = format!("X509SHA256={}", hex(digest(&SHA256, der).as_ref()));
    user.extra.insert(CREDENTIAL_ID.to_owned(), vec![credential]);
    Ok(user)
}

fn life(life: Duration) -> Result<SignedDuration, PkiError> {
    SignedDuration::try_from(life).map_err(|_| PkiError::Life(life))
}

fn server_names(extra: &[String]) -> Result<Vec<ServerName<'static>>, PkiError> {
    let names: Vec<&str> = SERVER_NAMES.into_iter().chain(extra.iter().map(String::as_str)).collect();
    parse_names(&names)
}

fn parse_names(texts: &[&str]) -> Result<Vec<ServerName<'static>>, PkiError> {
    let mut names = Vec::new();
    for text in texts {
        let name = ServerName::try_from((*text).to_owned()).map_err(|_| PkiError::Name((*text).to_owned()))?;
        if !names.contains(&name) {
            names.push(name);
        }
    }
    Ok(names)
}

fn certificate_pem(der: &CertificateDer<'_>) -> String {
    key::pem("CERTIFICATE", der).as_str().to_owned()
}

#[cfg(test)]
mod tests;
