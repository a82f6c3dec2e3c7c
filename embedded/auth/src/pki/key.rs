//! P-256 keys: made, kept secret, written as PEM, used to sign certificates and tokens.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom, SystemRandom};
use ring::signature::{
    ECDSA_P256_SHA256_ASN1_SIGNING, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, EcdsaSigningAlgorithm, KeyPair,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use secrecy::{ExposeSecret, SecretSlice, SecretString};
use zeroize::Zeroizing;

use super::PkiError;

/// SubjectPublicKeyInfo of a P-256 key up to the point itself, which always has 65 bytes.
const SPKI_PREFIX: [u8; 26] = [
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce,
    0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];

/// A private key. Its `Debug` shows nothing, its memory is wiped when it goes.
#[derive(Debug)]
pub(crate) struct P256 {
    pkcs8: SecretSlice<u8>,
    public: Vec<u8>,
}

impl P256 {
    pub(crate) fn generate() -> Result<Self, PkiError> {
        let document = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &SystemRandom::new())
            .map_err(|_| PkiError::Random)?;
        Self::from_pkcs8(document.as_ref().to_vec())
    }

    pub(crate) fn from_pem(pem: &str) -> Result<Self, PkiError> {
        let der = PrivatePkcs8KeyDer::from_pem_slice(pem.as_bytes()).map_err(|_| PkiError::Key)?;
        Self::from_pkcs8(der.secret_pkcs8_der().to_vec())
    }

    fn from_pkcs8(pkcs8: Vec<u8>) -> Result<Self, PkiError> {
        let pkcs8 = SecretSlice::from(pkcs8);
        let pair = key_pair(&ECDSA_P256_SHA256_ASN1_SIGNING, &pkcs8)?;
        Ok(Self { public: pair.public_key().as_ref().to_vec(), pkcs8 })
    }

    pub(crate) fn pem(&self) -> SecretString {
        pem("PRIVATE KEY", self.pkcs8.expose_secret()).as_str().into()
    }

    /// The key in the form that rustls takes.
    pub(crate) fn der(&self) -> PrivateKeyDer<'static> {
        PrivatePkcs8KeyDer::from(self.pkcs8.expose_secret().to_vec()).into()
    }

    /// The public point, uncompressed: `0x04`, x, y.
    pub(crate) fn public(&self) -> &[u8] {
        &self.public
    }

    /// The public key as certificates carry it.
    pub(crate) fn spki(&self) -> Vec<u8> {
        [SPKI_PREFIX.as_slice(), &self.public].concat()
    }

    /// What names this key in certificates: 160 bits of its hash, as RFC 7093 has it.
    pub(crate) fn identifier(&self) -> Vec<u8> {
        digest(&SHA256, &self.public).as_ref()[..20].to_vec()
    }

    /// Signs as X.509 wants it.
    pub(crate) fn sign_der(&self, message: &[u8]) -> Result<Vec<u8>, PkiError> {
        self.sign(&ECDSA_P256_SHA256_ASN1_SIGNING, message)
    }

    /// Signs as JOSE wants it: r and s side by side.
    pub(crate) fn sign_fixed(&self, message: &[u8]) -> Result<Vec<u8>, PkiError> {
        self.sign(&ECDSA_P256_SHA256_FIXED_SIGNING, message)
    }

    fn sign(&self, algorithm: &'static EcdsaSigningAlgorithm, message: &[u8]) -> Result<Vec<u8>, PkiError> {
        let signature = key_pair(algorithm, &self.pkcs8)?.sign(&SystemRandom::new(), message);
        Ok(signature.map_err(|_| PkiError::Random)?.as_ref().to_vec())
    }
}

fn key_pair(algorithm: &'static EcdsaSigningAlgorithm, pkcs8: &SecretSlice<u8>) -> Result<EcdsaKeyPair, PkiError> {
    EcdsaKeyPair::from_pkcs8(algorithm, pkcs8.expose_secret(), &SystemRandom::new()).map_err(|_| PkiError::Key)
}

/// `N` bytes that no one can guess.
pub(crate) fn random<const N: usize>() -> Result<[u8; N], PkiError> {
    let mut bytes = [0; N];
    SystemRandom::new().fill(&mut bytes).map_err(|_| PkiError::Random)?;
    Ok(bytes)
}

/// Wraps DER in PEM armour. The text may be a private key, so that it wipes itself.
pub(crate) fn pem(label: &str, der: &[u8]) -> Zeroizing<String> {
    let body = Zeroizing::new(STANDARD.encode(der));
    // Reserved in full, because a growing string leaves copies of itself behind.
    let mut text = Zeroizing::new(String::with_capacity(body.len() + body.len() / 64 + 2 * label.len() + 40));
    text.extend(["-----BEGIN ", label, "-----\n"]);
    let mut rest = body.as_str();
    while !rest.is_empty() {
        let (line, tail) = rest.split_at(rest.len().min(64));
        text.push_str(line);
        text.push('\n');
        rest = tail;
    }
    text.extend(["-----END ", label, "-----\n"]);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_survives_the_way_through_pem() {
        let key = P256::generate().unwrap();
        let again = P256::from_pem(key.pem().expose_secret()).unwrap();
        assert_eq!(key.public(), again.public());
    }

    #[test]
    fn debug_output_shows_no_private_part() {
        let key = P256::generate().unwrap();
        assert!(format!("{key:?}").contains("REDACTED"));
    }

    #[test]
    fn garbage_is_no_key() {
        for text in ["", "hello", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"] {
            assert!(P256::from_pem(text).is_err());
        }
    }
}
