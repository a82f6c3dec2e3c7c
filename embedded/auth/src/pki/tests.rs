//! The authority over time: what is kept, what is renewed, what is refused, and that TLS believes it.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConnection};
use secrecy::ExposeSecret;

use super::*;

const DAY: SignedDuration = SignedDuration::from_hours(24);
const MINUTE: Duration = Duration::from_mins(1);

fn now() -> Timestamp {
    Timestamp::now()
}

fn in_days(days: i64) -> Timestamp {
    now() + DAY * i32::try_from(days).unwrap()
}

fn read(directory: &Path, name: &str) -> String {
    fs::read_to_string(directory.join(name)).unwrap()
}

/// A handshake without a network: the client's view of the server, the server's of the client.
fn handshake(
    server: &Pki,
    trust: &str,
    client: Option<&Identity>,
    name: &str,
) -> Result<Option<Vec<u8>>, rustls::Error> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(trust.as_bytes()).unwrap())?;
    let builder = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots);
    let mut config = match client {
        None => builder.with_no_client_auth(),
        Some(identity) => builder.with_client_auth_cert(
            vec![CertificateDer::from_pem_slice(identity.certificate.as_bytes()).unwrap()],
            PrivateKeyDer::from_pem_slice(identity.key.expose_secret().as_bytes()).unwrap(),
        )?,
    };
    config.alpn_protocols = vec![b"h2".to_vec()];
    let mut client = ClientConnection::new(Arc::new(config), ServerName::try_from(name.to_owned()).unwrap())?;
    let mut server = ServerConnection::new(Arc::new(server.tls().unwrap()))?;
    shake(&mut client, &mut server)?;
    assert_eq!(server.alpn_protocol(), Some(b"h2".as_slice()));
    Ok(server.peer_certificates().map(|chain| chain[0].to_vec()))
}

fn shake(client: &mut ClientConnection, server: &mut ServerConnection) -> Result<(), rustls::Error> {
    while client.is_handshaking() || server.is_handshaking() {
        let mut wire = Vec::new();
        client.write_tls(&mut wire).unwrap();
        server.read_tls(&mut wire.as_slice()).unwrap();
        server.process_new_packets()?;
        wire.clear();
        server.write_tls(&mut wire).unwrap();
        client.read_tls(&mut wire.as_slice()).unwrap();
        client.process_new_packets()?;
    }
    Ok(())
}

#[test]
fn a_client_certificate_carries_its_user_through_tls() {
    let pki = Pki::in_memory(&["node-7.example".to_owned()], now()).unwrap();
    let jane = pki.issue_client("jane", &["dev", "ops"], MINUTE, now()).unwrap();
    for name in SERVER_NAMES.into_iter().chain(["node-7.example"]) {
        let peer = handshake(&pki, pki.ca_pem(), Some(&jane), name).unwrap().unwrap();
        let user = certificate_user(&peer, now()).unwrap();
        assert_eq!(
            (user.name.as_str(), user.groups.as_slice()),
            ("jane", ["dev", "ops", AUTHENTICATED].map(str::to_owned).as_slice())
        );
        assert!(user.extra[CREDENTIAL_ID][0].starts_with("X509SHA256="));
        assert!(matches!(certificate_user(&peer, in_days(1)), Err(PkiError::NotInForce)));
    }
}

#[test]
fn a_client_may_come_without_a_certificate_but_not_with_a_foreign_one() {
    let (pki, other) = (Pki::in_memory(&[], now()).unwrap(), Pki::in_memory(&[], now()).unwrap());
    assert_eq!(handshake(&pki, pki.ca_pem(), None, "localhost").unwrap(), None);
    let foreign = other.issue_client("eve", &["system:masters"], MINUTE, now()).unwrap();
    assert!(handshake(&pki, pki.ca_pem(), Some(&foreign), "localhost").is_err());
    let expired = pki.issue_client("jane", &[], MINUTE, in_days(-2)).unwrap();
    assert!(handshake(&pki, pki.ca_pem(), Some(&expired), "localhost").is_err());
    assert!(handshake(&pki, other.ca_pem(), None, "localhost").is_err(), "the client checks the server too");
}

#[test]
fn a_server_certificate_is_no_client_certificate() {
    let pki = Pki::in_memory(&[], now()).unwrap();
    let leaf = pki.server.lock().unwrap();
    let server = Identity { certificate: certificate_pem(&leaf.certificate), key: leaf.key.pem() };
    assert!(handshake(&pki, pki.ca_pem(), Some(&server), "localhost").is_err());
}

#[test]
fn a_node_serves_those_of_its_authority_and_is_believed_by_them() {
    let (pki, other) = (Pki::in_memory(&[], now()).unwrap(), Pki::in_memory(&[], now()).unwrap());
    let node = pki.issue_server(&["oak", "192.0.2.7"], MINUTE, now()).unwrap();
    let meet = |client: ClientConfig, name: &str| {
        let mut client = ClientConnection::new(Arc::new(client), ServerName::try_from(name.to_owned()).unwrap())?;
        shake(&mut client, &mut ServerConnection::new(Arc::new(node.serving(pki.ca_pem()).unwrap()))?)
    };
    let caller = pki.issue_client("apiserver", &[], MINUTE, now()).unwrap();
    for name in ["oak", "192.0.2.7"] {
        meet(caller.calling(pki.ca_pem()).unwrap(), name).unwrap();
    }
    assert!(meet(caller.calling(pki.ca_pem()).unwrap(), "elm").is_err(), "the certificate is for other names");
    assert!(meet(caller.calling(other.ca_pem()).unwrap(), "oak").is_err(), "the client trusts another authority");
    let stranger = other.issue_client("apiserver", &[], MINUTE, now()).unwrap();
    assert!(meet(stranger.calling(pki.ca_pem()).unwrap(), "oak").is_err(), "the node trusts one authority");
    assert!(pki.issue_server(&["not a name"], MINUTE, now()).is_err());
}

#[test]
fn a_directory_is_filled_once_and_closed_to_others() {
    let home = tempfile::tempdir().unwrap();
    let directory = home.path().join("pki");
    let files = ["ca.crt", "ca.key", "server.crt", "server.key", "sa.key"];
    Pki::open(&directory, &[], now()).unwrap();
    let first = files.map(|name| read(&directory, name));
    Pki::open(&directory, &[], in_days(30)).unwrap();
    assert_eq!(files.map(|name| read(&directory, name)), first);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&directory), 0o700);
    assert!(files.iter().all(|name| mode(&directory.join(name)) == 0o600));
}

#[test]
fn the_server_certificate_follows_its_names_and_its_age() {
    let home = tempfile::tempdir().unwrap();
    let renewed_by = |names: &[String], time| {
        let before = ["ca.crt", "server.crt"].map(|name| read(home.path(), name));
        Pki::open(home.path(), names, time).unwrap();
        let after = ["ca.crt", "server.crt"].map(|name| read(home.path(), name));
        assert_eq!(before[0], after[0], "the authority stays");
        before[1] != after[1]
    };
    Pki::open(home.path(), &[], now()).unwrap();
    let names = ["192.0.2.7".to_owned(), "api.example".to_owned()];
    assert!(renewed_by(&names, now()), "new names");
    assert!(!renewed_by(&names[..1], now()), "fewer names");
    assert!(!renewed_by(&names, in_days(240)), "more than a third left");
    assert!(renewed_by(&names, in_days(245)), "less than a third left");
    fs::write(home.path().join("server.key"), P256::generate().unwrap().pem().expose_secret()).unwrap();
    assert!(renewed_by(&names, in_days(245)), "a key that is not the certificate's");
    fs::remove_file(home.path().join("server.crt")).unwrap();
    Pki::open(home.path(), &names, in_days(245)).unwrap();
}

#[test]
fn a_prolonged_authority_is_believed_by_those_who_hold_the_old_certificate() {
    let home = tempfile::tempdir().unwrap();
    // Made so long ago that two thirds of its life are over.
    let old = Pki::open(home.path(), &[], in_days(-2500)).unwrap();
    let jane = old.issue_client("jane", &[], Duration::from_hours(24 * 3000), in_days(-2500)).unwrap();
    let new = Pki::open(home.path(), &[], now()).unwrap();
    assert_ne!(old.ca_pem(), new.ca_pem());
    assert!(handshake(&new, old.ca_pem(), Some(&jane), "localhost").unwrap().is_some());
    assert_eq!(old.token_key.public(), new.token_key.public());
}

/// The certificate that a server shows.
fn shown(server: &Arc<ServerConfig>, trust: &str) -> CertificateDer<'static> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(trust.as_bytes()).unwrap()).unwrap();
    let client = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let mut client = ClientConnection::new(Arc::new(client), ServerName::try_from("localhost").unwrap()).unwrap();
    let mut server = ServerConnection::new(Arc::clone(server)).unwrap();
    shake(&mut client, &mut server).unwrap();
    client.peer_certificates().unwrap()[0].clone().into_owned()
}

#[test]
fn a_server_that_runs_shows_its_renewed_certificate() {
    let home = tempfile::tempdir().unwrap();
    let pki = Pki::open(home.path(), &[], in_days(-250)).unwrap();
    let server = Arc::new(pki.tls().unwrap());
    let before = shown(&server, pki.ca_pem());
    assert!(!pki.renew(in_days(-249)).unwrap(), "it has long to go");
    assert_eq!(shown(&server, pki.ca_pem()), before);
    assert!(pki.renew(now()).unwrap(), "less than a third of its life is left");
    let after = shown(&server, pki.ca_pem());
    assert_ne!(after, before);
    assert_eq!(read(home.path(), "server.crt"), certificate_pem(&after), "a restart keeps it");
    assert!(!pki.renew(now()).unwrap());
}

#[test]
fn a_server_certificate_lasts_as_long_as_is_asked_for() {
    let (home, made) = (tempfile::tempdir().unwrap(), now());
    Pki::open(home.path(), &[], made).unwrap();
    let before = read(home.path(), "server.crt");
    let short = Pki::open(home.path(), &[], made).unwrap().with_server_life(MINUTE, made).unwrap();
    let first = read(home.path(), "server.crt");
    assert_ne!(first, before, "the one that lasts a year is replaced");
    assert!(!short.renew(made + SignedDuration::from_secs(38)).unwrap(), "more than a third is left");
    assert!(short.renew(made + SignedDuration::from_secs(42)).unwrap());
    assert_ne!(read(home.path(), "server.crt"), first);
    let endless = Pki::in_memory(&[], made).unwrap().with_server_life(Duration::MAX, made);
    assert!(matches!(endless, Err(PkiError::Life(_))));
}

#[test]
fn an_authority_that_was_made_while_the_clock_was_ahead_is_made_again() {
    let home = tempfile::tempdir().unwrap();
    let early = Pki::open(home.path(), &[], in_days(30)).unwrap();
    let jane = early.issue_client("jane", &[], MINUTE, now()).unwrap();
    let put_right = Pki::open(home.path(), &[], now()).unwrap();
    assert_ne!(early.ca_pem(), put_right.ca_pem());
    assert!(handshake(&put_right, put_right.ca_pem(), Some(&jane), "localhost").unwrap().is_some(), "with the old key");
    Pki::open(home.path(), &[], now()).unwrap();
    assert_eq!(read(home.path(), "ca.crt"), put_right.ca_pem(), "once");
}

type Break<'a> = &'a dyn Fn(&Path);

#[test]
fn what_contradicts_itself_is_refused_with_the_remedy() {
    let break_and_open = |break_it: Break<'_>| {
        let home = tempfile::tempdir().unwrap();
        Pki::open(home.path(), &[], now()).unwrap();
        break_it(home.path());
        Pki::open(home.path(), &[], now()).err().map(|e| e.to_string()).unwrap_or_default()
    };
    let foreign = P256::generate().unwrap().pem();
    let cases: [(Break<'_>, &str); 5] = [
        (&|d| fs::remove_file(d.join("ca.key")).unwrap(), "its key ca.key is gone"),
        (&|d| fs::write(d.join("ca.key"), foreign.expose_secret()).unwrap(), "does not belong to ca.key"),
        (&|d| fs::write(d.join("ca.crt"), "hello").unwrap(), "not a PEM certificate"),
        (&|d| fs::write(d.join("sa.key"), "hello").unwrap(), "not a PKCS#8 P-256 private key"),
        (
            &|d| fs::set_permissions(d.join("sa.key"), fs::Permissions::from_mode(0o640)).unwrap(),
            "(mode 0640); chmod 600",
        ),
    ];
    for (break_it, message) in cases {
        let answer = break_and_open(break_it);
        assert!(answer.contains(message), "{answer:?} lacks {message:?}");
    }
    // A crash between the two writes of a new authority.
    assert_eq!(break_and_open(&|d| fs::remove_file(d.join("ca.crt")).unwrap()), "");
}

#[test]
fn a_name_that_is_none_is_refused() {
    for name in ["", "a b", "-", "1.2.3.4.5/8"] {
        let refused = Pki::in_memory(&[name.to_owned()], now());
        assert!(matches!(refused, Err(PkiError::Name(_))), "{name:?}");
    }
}
