//! `c5c3 tls`: speaks TLS for a service of the same pod that cannot itself, byte for byte.

use std::net::SocketAddr;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use c5c3_kit::logging::{self, Format};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use tokio_util::task::TaskTracker;

use crate::Done;
use crate::args::TlsArgs;
use crate::operator::stop_asked;

/// How often it is looked whether there is another certificate.
const LOOK: Duration = Duration::from_secs(10);

/// How long a client may take to agree on keys.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// When it is to end, connections are taken for this long, and then until none has come for a while, or for too long: it
/// takes everybody some time to hear that this pod is to go.
const LEAST: Duration = Duration::from_secs(5);
const QUIET: Duration = Duration::from_secs(3);
const MOST: Duration = Duration::from_secs(35);

/// How long connections that are open may take to end after that.
const DRAIN: Duration = Duration::from_secs(20);

pub(crate) fn run(args: &TlsArgs) -> Done {
    logging::start(Format::Text, &args.log)?;
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = tokio::runtime::Runtime::new().map_err(|error| format!("cannot start: {error}"))?;
    runtime.block_on(async {
        let listener = TcpListener::bind(args.listen).await;
        let listener = listener.map_err(|error| format!("cannot listen on {}: {error}", args.listen))?;
        serve(listener, args.to, &args.certificates, stop_asked()).await
    })
}

/// Ends when it has been told to, and then no client has connected for a while.
async fn drained(stop: impl Future<Output = ()>, taken: &AtomicUsize) {
    stop.await;
    let (begun, mut last, mut known) = (Instant::now(), Instant::now(), taken.load(Ordering::Relaxed));
    while begun.elapsed() < MOST && (begun.elapsed() < LEAST || last.elapsed() < QUIET) {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let now = taken.load(Ordering::Relaxed);
        if now != known {
            (last, known) = (Instant::now(), now);
        }
    }
}

async fn serve(listener: TcpListener, to: SocketAddr, certificates: &Path, stop: impl Future<Output = ()>) -> Done {
    let first = load(certificates)?;
    let (changed, config) = watch::channel(first);
    let (connections, taken) = (TaskTracker::new(), AtomicUsize::new(0));
    let accepting = async {
        loop {
            match listener.accept().await {
                Ok((client, _)) => {
                    taken.fetch_add(1, Ordering::Relaxed);
                    connections.spawn(pass(client, to, config.borrow().clone()));
                }
                // Too many open files, for instance: some will be closed.
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    };
    tokio::select! {
        () = accepting => {}
        () = follow(certificates, &changed) => {}
        () = drained(stop, &taken) => {}
    }
    connections.close();
    let _ = tokio::time::timeout(DRAIN, connections.wait()).await;
    Ok(ExitCode::SUCCESS)
}

/// Takes a new certificate when there is one; connections that are open keep theirs.
async fn follow(folder: &Path, changed: &watch::Sender<Arc<ServerConfig>>) {
    let read = || std::fs::read(folder.join("tls.crt")).unwrap_or_default();
    let mut known = read();
    loop {
        tokio::time::sleep(LOOK).await;
        let now = read();
        if now == known {
            continue;
        }
        match load(folder) {
            Ok(config) => {
                tracing::info!("there is a new certificate");
                changed.send_replace(config);
                known = now;
            }
            Err(error) => tracing::warn!(error, "the new certificate cannot be used; the old one is"),
        }
    }
}

async fn pass(client: TcpStream, to: SocketAddr, config: Arc<ServerConfig>) {
    let agreed = tokio::time::timeout(HANDSHAKE, TlsAcceptor::from(config).accept(client)).await;
    let Ok(Ok(mut client)) = agreed else { return };
    match TcpStream::connect(to).await {
        Ok(mut service) => {
            let _ = tokio::io::copy_bidirectional(&mut client, &mut service).await;
        }
        Err(error) => tracing::warn!(%error, %to, "the service does not listen"),
    }
}

fn load(folder: &Path) -> Result<Arc<ServerConfig>, String> {
    let unusable = |file: &str, error: String| format!("cannot use {}: {error}", folder.join(file).display());
    let chain: Vec<_> = CertificateDer::pem_file_iter(folder.join("tls.crt"))
        .and_then(Iterator::collect)
        .map_err(|error| unusable("tls.crt", error.to_string()))?;
    let key =
        PrivateKeyDer::from_pem_file(folder.join("tls.key")).map_err(|error| unusable("tls.key", error.to_string()))?;
    let config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(|error| unusable("tls.crt", error.to_string()))?;
    Ok(Arc::new(config))
}

#[cfg(test)]
mod tests {
    use c5c3_auth::Pki;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio_rustls::TlsConnector;

    use super::*;

    #[tokio::test]
    async fn what_is_said_in_tls_arrives_in_plain_text_and_the_answer_comes_back() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let (folder, now) = (tempfile::tempdir().unwrap(), jiff::Timestamp::now());
        let pki = Pki::in_memory(&[], now).unwrap();
        let identity = pki.issue_server(&["gate"], Duration::from_mins(5), now).unwrap();
        std::fs::write(folder.path().join("tls.crt"), &identity.certificate).unwrap();
        std::fs::write(folder.path().join("tls.key"), secrecy::ExposeSecret::expose_secret(&identity.key)).unwrap();

        let service = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (to, at) = (service.local_addr().unwrap(), listener.local_addr().unwrap());
        let serving = tokio::spawn(async move { serve(listener, to, folder.path(), std::future::pending()).await });
        let client = tokio::spawn(async move {
            let config = Arc::new(identity.calling(pki.ca_pem()).unwrap());
            let name = "gate".to_owned().try_into().unwrap();
            let stream = TcpStream::connect(at).await.unwrap();
            let mut stream = TlsConnector::from(config).connect(name, stream).await.unwrap();
            stream.write_all(b"who?").await.unwrap();
            let mut answer = [0; 3];
            stream.read_exact(&mut answer).await.unwrap();
            answer
        });
        let (mut asked, _) = service.accept().await.unwrap();
        let mut question = [0; 4];
        asked.read_exact(&mut question).await.unwrap();
        assert_eq!(&question, b"who?");
        asked.write_all(b"me!").await.unwrap();
        assert_eq!(&client.await.unwrap(), b"me!");
        serving.abort();
    }

    #[test]
    fn a_certificate_that_is_not_there_is_named() {
        assert!(load(Path::new("/nowhere")).unwrap_err().contains("/nowhere/tls.crt"));
    }
}
