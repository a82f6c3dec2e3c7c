//! Keys and certificates in a data directory: read, judged, made when missing.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use jiff::{SignedDuration, Timestamp};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use secrecy::{ExposeSecret, SecretString};
use webpki::{ALL_VERIFICATION_ALGS, EndEntityCert, KeyUsage, anchor_from_trusted_cert};

use super::{AUTHORITY_LIFE, Authority, Leaf, P256, PkiError, certificate_pem, x509};

/// Makes the directory, and closes one that others can look into.
pub(super) fn prepare(directory: &Path) -> Result<(), PkiError> {
    c5c3_files::create_private_folder(directory)
        .and_then(|()| fs::set_permissions(directory, fs::Permissions::from_mode(0o700)))
        .map_err(at(directory))
}

/// The authority: new if there is none, prolonged if it nears its end or is from the future.
pub(super) fn authority(directory: &Path, now: Timestamp) -> Result<Authority, PkiError> {
    let (key_path, path) = (directory.join("ca.key"), directory.join("ca.crt"));
    let Some(key) = read_key(&key_path)? else {
        if path.exists() {
            return Err(refused(
                &path,
                "its key ca.key is gone; restore it, or remove ca.crt to start a new authority",
            ));
        }
        let key = P256::generate()?;
        write(&key_path, key.pem().expose_secret())?;
        return create_authority(&path, key, now);
    };
    // A key without a certificate is what a crash between the two writes leaves.
    let Some(certificate) = read_certificate(&path)? else { return create_authority(&path, key, now) };
    let parsed = EndEntityCert::try_from(&certificate).map_err(|_| refused(&path, "not a certificate"))?;
    if parsed.subject_public_key_info().as_ref() != key.spki() {
        return Err(refused(&path, "does not belong to ca.key; restore the pair from one backup"));
    }
    let (subject, validity) = x509::read(&certificate)?;
    // One that was made while the clock was ahead is not in force yet, and clients refuse it.
    let is_in_force = validity.from <= now && now + AUTHORITY_LIFE / 3 < validity.until;
    if subject == Authority::subject() && is_in_force {
        return Ok(Authority { pem: certificate_pem(&certificate), subject, key, certificate });
    }
    create_authority(&path, key, now)
}

fn create_authority(path: &Path, key: P256, now: Timestamp) -> Result<Authority, PkiError> {
    let authority = Authority::new(key, now)?;
    write(path, &authority.pem)?;
    Ok(authority)
}

/// The server's certificate: kept as long as it would serve, made again for any reason else.
pub(super) fn server(
    directory: &Path,
    authority: &Authority,
    names: &[ServerName<'static>],
    life: SignedDuration,
    now: Timestamp,
) -> Result<Leaf, PkiError> {
    let (key_path, path) = (directory.join("server.key"), directory.join("server.crt"));
    if let (Some(key), Some(certificate)) = (read_key(&key_path)?, read_certificate(&path)?)
        && serves(&certificate, &key, authority, names, life, now)
    {
        return Ok(Leaf { key, certificate });
    }
    let leaf = authority.server(names, life, now)?;
    write_server(directory, &leaf)?;
    Ok(leaf)
}

/// Keeps the server's certificate and its key.
pub(super) fn write_server(directory: &Path, leaf: &Leaf) -> Result<(), PkiError> {
    write(&directory.join("server.key"), leaf.key.pem().expose_secret())?;
    write(&directory.join("server.crt"), &certificate_pem(&leaf.certificate))
}

/// Whether a client of `authority` would accept the certificate under every name, now and for a third of its life.
pub(super) fn serves(
    certificate: &CertificateDer<'_>,
    key: &P256,
    authority: &Authority,
    names: &[ServerName<'static>],
    life: SignedDuration,
    now: Timestamp,
) -> bool {
    let (Ok(parsed), Ok(anchor)) =
        (EndEntityCert::try_from(certificate), anchor_from_trusted_cert(&authority.certificate))
    else {
        return false;
    };
    let holds_at = |time: Timestamp| {
        let since_epoch = UnixTime::since_unix_epoch(time.duration_since(Timestamp::UNIX_EPOCH).unsigned_abs());
        let usage = KeyUsage::server_auth();
        let anchors = std::slice::from_ref(&anchor);
        parsed.verify_for_usage(ALL_VERIFICATION_ALGS, anchors, &[], since_epoch, usage, None, None).is_ok()
    };
    parsed.subject_public_key_info().as_ref() == key.spki()
        && names.iter().all(|name| parsed.verify_is_valid_for_subject_name(name).is_ok())
        && holds_at(now)
        && holds_at(now + life / 3)
}

/// The key that signs service account tokens; with a new one every token issued before is void.
pub(super) fn token_key(directory: &Path) -> Result<P256, PkiError> {
    let path = directory.join("sa.key");
    if let Some(key) = read_key(&path)? {
        return Ok(key);
    }
    let key = P256::generate()?;
    write(&path, key.pem().expose_secret())?;
    Ok(key)
}

fn read_key(path: &Path) -> Result<Option<P256>, PkiError> {
    let Some(text) = read(path)?.map(SecretString::from) else { return Ok(None) };
    let mode = fs::metadata(path).map_err(at(path))?.permissions().mode();
    if mode & 0o077 != 0 {
        let reason = format!("a private key that others can read (mode {:04o}); chmod 600 it", mode & 0o7777);
        return Err(refused(path, &reason));
    }
    P256::from_pem(text.expose_secret()).map(Some).map_err(|e| refused(path, &e.to_string()))
}

fn read_certificate(path: &Path) -> Result<Option<CertificateDer<'static>>, PkiError> {
    let Some(text) = read(path)? else { return Ok(None) };
    let certificate = CertificateDer::from_pem_slice(text.as_bytes());
    certificate.map(Some).map_err(|_| refused(path, "not a PEM certificate; restore or remove it"))
}

fn read(path: &Path) -> Result<Option<String>, PkiError> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
        Err(e) => Err(at(path)(e)),
    }
}

fn write(path: &Path, text: &str) -> Result<(), PkiError> {
    c5c3_files::write_private(path, text.as_bytes()).map_err(at(path))
}

fn at(path: &Path) -> impl FnOnce(std::io::Error) -> PkiError {
    let path = PathBuf::from(path);
    move |source| PkiError::File { path, source }
}

fn refused(path: &Path, reason: &str) -> PkiError {
    PkiError::Refused { path: path.to_owned(), reason: reason.to_owned() }
}
