//! Keys of the curve P-256, in files.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use pem::Pem;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_ASN1, ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair as _, UnparsedPublicKey,
};
use zeroize::Zeroizing;

use crate::Error;

const PRIVATE: &str = "PRIVATE KEY";
const PUBLIC: &str = "PUBLIC KEY";
/// What stands before the point of every public key on this curve: its algorithm and the length of the point.
const SPKI: [u8; 26] = [
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce,
    0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];
/// An uncompressed point: a mark and two coordinates.
const POINT: usize = 65;

/// A key to sign with.
#[derive(Debug)]
pub struct SigningKey(EcdsaKeyPair);

/// A key to verify signatures with.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PublicKey([u8; POINT]);

impl SigningKey {
    /// A new key, in a file that only its owner can read. A file that is there is not touched.
    pub fn generate(path: &Path) -> Result<Self, Error> {
        let generated = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &SystemRandom::new());
        let document = generated.expect("the system gives random numbers");
        let text = Zeroizing::new(pem::encode(&Pem::new(PRIVATE, document.as_ref())));
        let opened = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
        let written = opened.and_then(|mut file| file.write_all(text.as_bytes()).and_then(|()| file.sync_all()));
        written.map_err(Error::file("write", path))?;
        Self::of_pkcs8(document.as_ref(), path)
    }

    /// The key in a file.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let text = Zeroizing::new(fs::read(path).map_err(Error::file("read", path))?);
        let parsed = pem::parse(&text).ok().filter(|pem| pem.tag() == PRIVATE);
        let pem = parsed.ok_or(Error::Key { path: path.to_owned(), kind: "private" })?;
        Self::of_pkcs8(&Zeroizing::new(pem.into_contents()), path)
    }

    fn of_pkcs8(document: &[u8], path: &Path) -> Result<Self, Error> {
        EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, document, &SystemRandom::new())
            .map(Self)
            .map_err(|_| Error::Key { path: path.to_owned(), kind: "private" })
    }

    /// The key that verifies what this one signs.
    pub fn public(&self) -> PublicKey {
        let point = self.0.public_key().as_ref();
        PublicKey(point.try_into().expect("a point of the curve has 65 bytes"))
    }

    pub(super) fn sign(&self, message: &[u8]) -> Vec<u8> {
        self.0.sign(&SystemRandom::new(), message).expect("the system gives random numbers").as_ref().to_vec()
    }
}

impl PublicKey {
    /// The key in a file.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let text = fs::read(path).map_err(Error::file("read", path))?;
        Self::parse(&text).ok_or(Error::Key { path: path.to_owned(), kind: "public" })
    }

    fn parse(text: &[u8]) -> Option<Self> {
        let pem = pem::parse(text).ok().filter(|pem| pem.tag() == PUBLIC)?;
        pem.contents().strip_prefix(&SPKI)?.try_into().ok().map(Self)
    }

    /// The key as the text of a file.
    pub fn to_pem(&self) -> String {
        pem::encode(&Pem::new(PUBLIC, [&SPKI[..], &self.0].concat()))
    }

    pub(super) fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, &self.0).verify(message, signature).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::process::Command;

    use super::*;

    #[test]
    fn a_new_key_is_for_its_owner_alone_and_never_replaces_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key.pem");
        let key = SigningKey::generate(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(SigningKey::read(&path).unwrap().public(), key.public());
        assert!(SigningKey::generate(&path).unwrap_err().to_string().starts_with("cannot write"));
        assert_eq!(SigningKey::read(&path).unwrap().public(), key.public());
    }

    #[test]
    fn openssl_verifies_what_is_signed() {
        let folder = tempfile::tempdir().unwrap();
        let key = SigningKey::generate(&folder.path().join("key.pem")).unwrap();
        let public = folder.path().join("key.pub");
        fs::write(&public, key.public().to_pem()).unwrap();
        fs::write(folder.path().join("message"), "hello").unwrap();
        fs::write(folder.path().join("signature"), key.sign(b"hello")).unwrap();
        let arguments = ["dgst", "-sha256", "-verify", "key.pub", "-signature", "signature", "message"];
        let done = Command::new("openssl").args(arguments).current_dir(folder.path()).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        assert_eq!(PublicKey::read(&public).unwrap(), key.public());
    }

    #[test]
    fn a_file_that_holds_no_key_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key.pem");
        SigningKey::generate(&path).unwrap();
        let error = PublicKey::read(&path).unwrap_err().to_string();
        assert!(error.ends_with("key.pem is no public key of the curve P-256 in PEM"), "{error}");
    }
}
