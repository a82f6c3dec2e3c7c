//! Requests for certificates (PKCS#10): the requested key and names, verified by the signature of that key.

use std::net::IpAddr;

use ring::digest::{SHA256, digest};
use ring::signature::{self, UnparsedPublicKey, VerificationAlgorithm};
use rustls::pki_types::CertificateSigningRequestDer;
use rustls::pki_types::pem::PemObject;
use yasna::models::ObjectIdentifier;
use yasna::{ASN1Result, BERReader, BERReaderSeq, Tag};

use super::PkiError;
use super::x509::{self, ECDSA_WITH_SHA256, Public, SUBJECT_ALT_NAME, Subject, any, read_name, skip, truth};

const ECDSA_WITH_SHA384: &[u64] = &[1, 2, 840, 10045, 4, 3, 3];
const RSA_WITH_SHA256: &[u64] = &[1, 2, 840, 113_549, 1, 1, 11];
const ED25519: &[u64] = &[1, 3, 101, 112];
const EC_KEY: &[u64] = &[1, 2, 840, 10045, 2, 1];
const P256_CURVE: &[u64] = &[1, 2, 840, 10045, 3, 1, 7];
const P384_CURVE: &[u64] = &[1, 3, 132, 0, 34];
const EXTENSION_REQUEST: &[u64] = &[1, 2, 840, 113_549, 1, 9, 14];

/// What kind of key a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names of algorithms")]
pub enum KeyKind {
    Ec,
    Rsa,
    Ed25519,
}

/// A request for a certificate, signed by the key that it is for.
#[derive(Debug)]
pub struct Request {
    public: Public,
    kind: KeyKind,
    subject: Subject,
    names: Vec<x509::Alternative>,
}

impl Request {
    /// Reads a request and verifies its signature.
    pub fn read(pem: &str) -> Result<Self, PkiError> {
        let der = CertificateSigningRequestDer::from_pem_slice(pem.as_bytes()).map_err(|_| PkiError::Request)?;
        let (body, algorithm, signature) = yasna::parse_der(&der, |reader| {
            reader.read_sequence(|reader| {
                let body = reader.next().read_der()?;
                let algorithm = reader.next().read_sequence(|reader| {
                    let algorithm = reader.next().read_oid()?;
                    reader.read_optional(skip)?;
                    Ok(algorithm)
                })?;
                Ok((body, algorithm, reader.next().read_bitvec_bytes()?.0))
            })
        })
        .map_err(|_| PkiError::Request)?;
        let (request, key) =
            yasna::parse_der(&body, |reader| reader.read_sequence(read_body)).map_err(|_| PkiError::Request)?;
        let verify = key.verifier(&algorithm).ok_or(PkiError::Request)?;
        let verified = UnparsedPublicKey::new(verify, &key.bits).verify(&body, &signature);
        verified.map(|()| request).map_err(|_| PkiError::Request)
    }

    /// What kind of key it is for.
    pub fn kind(&self) -> KeyKind {
        self.kind
    }

    /// The common name; empty if there is none.
    pub fn common_name(&self) -> &str {
        &self.subject.common_name
    }

    /// The host names that it asks for.
    pub fn dns_names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().filter_map(|name| match name {
            x509::Alternative::Dns(name) => Some(name.as_str()),
            _ => None,
        })
    }

    /// The addresses that it asks for.
    pub fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        self.names.iter().filter_map(|name| match name {
            x509::Alternative::Address(address) => Some(*address),
            _ => None,
        })
    }

    pub(super) fn public(&self) -> &Public {
        &self.public
    }
}

/// A public key as a request names it.
struct Key {
    algorithm: ObjectIdentifier,
    curve: Option<ObjectIdentifier>,
    bits: Vec<u8>,
}

impl Key {
    fn verifier(&self, signed_with: &ObjectIdentifier) -> Option<&'static dyn VerificationAlgorithm> {
        let curve = self.curve.as_ref().map(|curve| curve.components().as_slice());
        match (signed_with.components().as_slice(), curve) {
            (ECDSA_WITH_SHA256, Some(P256_CURVE)) => Some(&signature::ECDSA_P256_SHA256_ASN1),
            (ECDSA_WITH_SHA256, Some(P384_CURVE)) => Some(&signature::ECDSA_P384_SHA256_ASN1),
            (ECDSA_WITH_SHA384, Some(P256_CURVE)) => Some(&signature::ECDSA_P256_SHA384_ASN1),
            (ECDSA_WITH_SHA384, Some(P384_CURVE)) => Some(&signature::ECDSA_P384_SHA384_ASN1),
            (RSA_WITH_SHA256, None) => Some(&signature::RSA_PKCS1_2048_8192_SHA256),
            (ED25519, None) => Some(&signature::ED25519),
            _ => None,
        }
    }

    fn kind(&self) -> KeyKind {
        match self.algorithm.components().as_slice() {
            EC_KEY => KeyKind::Ec,
            ED25519 => KeyKind::Ed25519,
            // Only RSA is left of those whose signatures are verified.
            _ => KeyKind::Rsa,
        }
    }
}

fn read_body(reader: &mut BERReaderSeq<'_, '_>) -> ASN1Result<(Request, Key)> {
    // The version.
    skip(reader.next())?;
    let subject = read_name(reader.next())?;
    let spki = reader.next().read_der()?;
    let key = yasna::parse_der(&spki, read_key)?;
    let mut names = Vec::new();
    reader.next().read_tagged_implicit(Tag::context(0), |reader| {
        reader.read_set_of(|reader| read_attribute(reader, &mut names))
    })?;
    let identifier = digest(&SHA256, &key.bits).as_ref()[..20].to_vec();
    Ok((Request { public: Public { spki, identifier }, kind: key.kind(), subject, names }, key))
}

fn read_key(reader: BERReader<'_, '_>) -> ASN1Result<Key> {
    reader.read_sequence(|reader| {
        let (algorithm, curve) = reader.next().read_sequence(|reader| {
            let algorithm = reader.next().read_oid()?;
            // A curve for elliptic keys, nothing or null for the others.
            let parameter = reader.read_optional(der)?;
            Ok((algorithm, parameter.and_then(|der| yasna::parse_der(&der, oid).ok())))
        })?;
        Ok(Key { algorithm, curve, bits: reader.next().read_bitvec_bytes()?.0 })
    })
}

fn der(reader: BERReader<'_, '_>) -> ASN1Result<Vec<u8>> {
    reader.read_der()
}

fn oid(reader: BERReader<'_, '_>) -> ASN1Result<ObjectIdentifier> {
    reader.read_oid()
}

fn read_attribute(reader: BERReader<'_, '_>, names: &mut Vec<x509::Alternative>) -> ASN1Result<()> {
    let (attribute, values) =
        reader.read_sequence(|reader| Ok((reader.next().read_oid()?, reader.next().read_der()?)))?;
    if attribute.components().as_slice() != EXTENSION_REQUEST {
        return Ok(());
    }
    yasna::parse_der(&values, |reader| {
        reader.read_set_of(|reader| reader.read_sequence_of(|reader| read_extension(reader, names)))
    })
}

fn read_extension(reader: BERReader<'_, '_>, names: &mut Vec<x509::Alternative>) -> ASN1Result<()> {
    let (id, value) = reader.read_sequence(|reader| {
        let id = reader.next().read_oid()?;
        reader.read_optional(truth)?;
        Ok((id, reader.next().read_bytes()?))
    })?;
    if id.components().as_slice() != SUBJECT_ALT_NAME {
        return Ok(());
    }
    yasna::parse_der(&value, |reader| {
        reader.read_sequence_of(|reader| {
            let name = any(reader)?;
            names.extend(x509::Alternative::read(name.tag(), name.value()));
            Ok(())
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Made with `openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -subj /O=web/CN=spider.example
    /// -addext subjectAltName=DNS:spider.example,DNS:fly.example,IP:10.1.2.3`.
    const SPIDER: &str = include_str!("spider.csr");

    #[test]
    fn a_request_of_openssl_says_which_names_it_asks_for() {
        let request = Request::read(SPIDER).unwrap();
        assert_eq!((request.kind(), request.common_name()), (KeyKind::Ec, "spider.example"));
        assert_eq!(request.dns_names().collect::<Vec<_>>(), ["spider.example", "fly.example"]);
        assert_eq!(request.addresses().collect::<Vec<_>>(), ["10.1.2.3".parse::<IpAddr>().unwrap()]);
    }

    #[test]
    fn a_request_that_its_key_has_not_signed_is_refused() {
        let der = CertificateSigningRequestDer::from_pem_slice(SPIDER.as_bytes()).unwrap().to_vec();
        let at = der.windows(3).position(|part| part == b"fly").unwrap();
        let mut forged = der.clone();
        forged[at..at + 3].copy_from_slice(b"fox");
        let read = |der: &[u8]| Request::read(&super::super::key::pem("CERTIFICATE REQUEST", der));
        assert!(read(&der).is_ok());
        assert!(matches!(read(&forged), Err(PkiError::Request)));
        for length in 0..der.len() {
            assert!(read(&der[..length]).is_err(), "cut at {length}");
        }
    }
}
