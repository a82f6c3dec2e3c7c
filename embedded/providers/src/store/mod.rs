//! A store for secrets that speaks OpenBao's HTTP API: KV engines of version 2, PKI engines, tokens, policies, and logins
//! with service accounts of the cluster. What External Secrets, cert-manager and clients such as `hvac` use is there; other
//! engines, leases, raft and Shamir shares are not, and are answered 404 or 405. It begins with the policies and roles of
//! `deploy/openbao`, which are those of a production store.
//!
//! ```text
//! request ─► serve ─► vault: who, may they, what ─► kv or pki ─► disk, before the answer goes out
//! ```
//!
//! It starts unsealed. Its state is one file, sealed with a key beside it; see `disk.rs`.

mod announce;
mod ask;
mod disk;
mod furnish;
mod kv;
#[cfg(test)]
mod least_rights;
mod logins;
mod pki;
mod policy;
mod serve;
mod system;
mod tokens;
mod vault;

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use kube::Client;
use secrecy::{ExposeSecret, SecretString};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

pub(crate) use announce::announce;
pub use announce::names;
use ask::{Answer, Ask, Verb};
use disk::Disk;
use vault::State;

/// The namespace and the service account of External Secrets.
pub(crate) const ACCOUNT: &str = "external-secrets";

/// Whom tokens are for that service accounts log in with. A token for the API itself is taken, too: as with OpenBao, whose roles
/// ask for no audience unless they are told to.
pub(crate) const AUDIENCE: &str = "vault";

/// The role that External Secrets of a cluster logs in by.
pub(crate) const ROLE: &str = "eso-control-plane";

/// Where it logs in.
pub(crate) const LOGIN: &str = "kubernetes/control-plane";

/// The file with the token that may do everything.
pub const ROOT_TOKEN: &str = "root-token";

/// The file with the URL that clients on this machine use.
pub const ADDRESS: &str = "address";

/// The file with the authority that clients trust, PEM.
pub const AUTHORITY: &str = "ca.crt";

/// A store.
pub struct Store {
    disk: Disk,
    state: Mutex<State>,
    root: SecretString,
}

impl Store {
    /// Opens the store in a folder, or makes one there.
    pub fn open(folder: &Path) -> io::Result<Self> {
        let disk = Disk::open(folder)?;
        let damaged = |error: serde_json::Error| io::Error::new(io::ErrorKind::InvalidData, error.to_string());
        let Some(content) = disk.read()? else {
            let (state, root) = State::new(Timestamp::now());
            // The token first: a store that no one can get into would be made again by hand.
            disk::replace(folder, ROOT_TOKEN, root.as_bytes())?;
            disk.write(&serde_json::to_vec(&state).map_err(damaged)?)?;
            return Ok(Self { disk, state: Mutex::new(state), root: root.into() });
        };
        let mut state: State = serde_json::from_slice(&content).map_err(damaged)?;
        // One of an older version may lack what is there from the start today.
        state.furnish(Timestamp::now());
        let furnished = serde_json::to_vec(&state).map_err(damaged)?;
        if furnished != *content {
            disk.write(&furnished)?;
        }
        let root = std::fs::read_to_string(folder.join(ROOT_TOKEN))?;
        Ok(Self { disk, state: Mutex::new(state), root: root.into() })
    }

    /// The token that may do everything.
    pub fn root_token(&self) -> &SecretString {
        &self.root
    }

    /// Answers a request. A change is on the disk before it is answered.
    fn answer(&self, ask: &Ask<'_>) -> Answer {
        self.change(matches!(ask.verb, Verb::Read | Verb::List), |state| state.answer(ask, Timestamp::now()))
    }

    /// Lets a service account in that has proved itself. Nothing is written: what is known of it stays in memory.
    fn log_in(&self, login: &str, role: &str, namespace: &str, name: &str) -> Answer {
        self.change(true, |state| state.log_in(login, role, namespace, name, Timestamp::now()))
    }

    /// Whether a path is a login with a service account: which one.
    fn login(&self, path: &str) -> Option<String> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).login(path).map(str::to_owned)
    }

    fn change(&self, keeps_nothing: bool, act: impl FnOnce(&mut State) -> Answer) -> Answer {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if keeps_nothing {
            return act(&mut state);
        }
        let mut next = state.clone();
        let answer = act(&mut next);
        if !answer.is_good() {
            return answer;
        }
        let written = serde_json::to_vec(&next).map_err(io::Error::other).and_then(|content| self.disk.write(&content));
        match written {
            Ok(()) => {
                *state = next;
                answer
            }
            Err(error) => {
                tracing::error!(%error, "the store cannot be written");
                Answer::refusal(500, &["the store cannot be written"])
            }
        }
    }
}

/// What a server proves itself with.
#[derive(Clone, Debug)]
pub struct Proof {
    /// The certificate, PEM; good for [`names`] and for the address that is listened on.
    pub certificate: String,
    /// The private key, PEM.
    pub key: SecretString,
    /// The authority that signed the certificate, PEM.
    pub authority: String,
}

impl Proof {
    fn serving(&self) -> io::Result<rustls::ServerConfig> {
        use rustls::pki_types::pem::PemObject;
        use rustls::pki_types::{CertificateDer, PrivateKeyDer};
        let wrong = |error: rustls::pki_types::pem::Error| io::Error::other(error.to_string());
        let chain =
            CertificateDer::pem_slice_iter(self.certificate.as_bytes()).collect::<Result<_, _>>().map_err(wrong)?;
        let key = PrivateKeyDer::from_pem_slice(self.key.expose_secret().as_bytes()).map_err(wrong)?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = rustls::ServerConfig::builder_with_provider(provider);
        let builder = builder.with_safe_default_protocol_versions().map_err(io::Error::other)?;
        builder.with_no_client_auth().with_single_cert(chain, key).map_err(io::Error::other)
    }
}

/// Serves the store of a folder over TLS until `stop`, and tells the cluster and, by files, this machine of it.
pub async fn run(
    folder: &Path,
    listener: TcpListener,
    proof: Proof,
    client: Client,
    stop: CancellationToken,
) -> io::Result<()> {
    let (store, tls, at) = (Arc::new(Store::open(folder)?), proof.serving()?, listener.local_addr()?);
    disk::replace(folder, AUTHORITY, proof.authority.as_bytes())?;
    disk::replace(folder, ADDRESS, format!("https://{at}").as_bytes())?;
    let telling = async {
        while let Err(error) = announce(&client, at, &proof.authority).await {
            tracing::info!(%error, "the store cannot be announced yet");
            if !crate::pause(&stop).await {
                return;
            }
        }
    };
    tokio::join!(store.serve(listener, Some(tls), client.clone(), stop.clone()), telling);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_writes_nothing_and_its_token_ends_with_the_process() {
        let folder = tempfile::tempdir().unwrap();
        let files = || {
            let mut files: Vec<_> =
                std::fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap().path()).collect();
            files.sort();
            files.into_iter().map(|file| (std::fs::read(&file).unwrap(), file)).collect::<Vec<_>>()
        };
        let read = |store: &Store, token: &str| {
            let body = serde_json::Value::Null;
            store
                .answer(&Ask { verb: Verb::Read, path: "kv-v2/data/openstack/a", version: 0, body, token: Some(token) })
                .status
        };
        let store = Store::open(folder.path()).unwrap();
        let before = files();
        let tokens: Vec<String> = (0..3)
            .map(|_| {
                store.log_in(LOGIN, ROLE, ACCOUNT, ACCOUNT).body["auth"]["client_token"].as_str().unwrap().to_owned()
            })
            .collect();
        assert!(files() == before, "the store was written");
        assert!(tokens.iter().all(|token| read(&store, token) == 404), "each of them is good");
        let again = Store::open(folder.path()).unwrap();
        assert_eq!(read(&again, &tokens[0]), 403);
        assert_eq!(read(&again, again.root_token().expose_secret()), 404);
    }
}
