//! Certificates that users of a cluster ask for, signed by themselves or by an authority that users brought along.

use std::net::IpAddr;

use jiff::Timestamp;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use secrecy::SecretString;

use super::key::P256;
use super::request::Request;
use super::x509::{self, Alternative, Good, Issuer, Public, Purpose, Subject, Validity};
use super::{PkiError, certificate_pem};

/// What a certificate may be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the words of RFC 5280")]
pub enum Usage {
    DigitalSignature,
    KeyEncipherment,
    CertSign,
    CrlSign,
    ServerAuth,
    ClientAuth,
}

/// What someone asks to be certified.
#[derive(Clone, Debug, Default)]
pub struct Asked {
    /// Common name; none when empty.
    pub common_name: String,
    /// Organizations.
    pub organizations: Vec<String>,
    /// Units of them.
    pub units: Vec<String>,
    /// Host names.
    pub dns_names: Vec<String>,
    /// Addresses.
    pub addresses: Vec<IpAddr>,
    /// URIs.
    pub uris: Vec<String>,
    /// Whether it may sign others.
    pub authority: bool,
    /// What it may be used for.
    pub usages: Vec<Usage>,
    /// From when it holds.
    pub from: Timestamp,
    /// Until when it holds.
    pub until: Timestamp,
}

impl Asked {
    fn subject(&self) -> Subject {
        let Self { common_name, organizations, units, .. } = self.clone();
        Subject { common_name, organizations, units }
    }

    fn good(&self) -> Good {
        let mut good = Good { authority: self.authority, ..Good::default() };
        for usage in &self.usages {
            match usage {
                Usage::DigitalSignature => good.usage |= x509::DIGITAL_SIGNATURE,
                Usage::KeyEncipherment => good.usage |= x509::KEY_ENCIPHERMENT,
                Usage::CertSign => good.usage |= x509::CERT_SIGN,
                Usage::CrlSign => good.usage |= x509::CRL_SIGN,
                Usage::ServerAuth => good.extended.push(x509::SERVER_AUTH),
                Usage::ClientAuth => good.extended.push(x509::CLIENT_AUTH),
            }
        }
        if self.authority {
            good.usage |= x509::CERT_SIGN;
        }
        good.names.extend(self.dns_names.iter().cloned().map(Alternative::Dns));
        good.names.extend(self.addresses.iter().copied().map(Alternative::Address));
        good.names.extend(self.uris.iter().cloned().map(Alternative::Uri));
        good
    }
}

/// A private key that signs certificates: those for itself, or with the certificate of an authority those of others.
#[derive(Debug)]
pub struct Signer {
    key: P256,
}

impl Signer {
    /// A new key.
    pub fn generate() -> Result<Self, PkiError> {
        Ok(Self { key: P256::generate()? })
    }

    /// A key in PKCS#8 and PEM.
    pub fn from_pem(pem: &str) -> Result<Self, PkiError> {
        Ok(Self { key: P256::from_pem(pem)? })
    }

    /// The key in PKCS#8 and PEM.
    pub fn pem(&self) -> SecretString {
        self.key.pem()
    }

    /// A certificate of this key, signed by itself.
    pub fn sign_own(&self, asked: &Asked) -> Result<String, PkiError> {
        let issuer = Issuer::new(&asked.subject(), &self.key);
        issue(&issuer, &Public::of(&self.key), asked)
    }

    /// A certificate of another key, signed by this one as the authority of `certificate` (PEM).
    pub fn sign(&self, certificate: &str, other: &Self, asked: &Asked) -> Result<String, PkiError> {
        self.sign_public(certificate, &Public::of(&other.key), asked)
    }

    /// A certificate of the key of a request, signed by this one as the authority of `certificate` (PEM). It says what
    /// `asked` says: what the request says of itself is for the caller to judge.
    pub fn sign_request(&self, certificate: &str, request: &Request, asked: &Asked) -> Result<String, PkiError> {
        self.sign_public(certificate, request.public(), asked)
    }

    fn sign_public(&self, certificate: &str, key: &Public, asked: &Asked) -> Result<String, PkiError> {
        let authority = Issued::read(certificate)?;
        if !authority.facts.authority {
            return Err(PkiError::NoAuthority("the certificate is not one of an authority (isCA)"));
        }
        if !authority.belongs_to(self) {
            return Err(PkiError::NoAuthority("the certificate is not that of the private key beside it"));
        }
        issue(&Issuer::of(&authority.facts, &self.key), key, asked)
    }
}

fn issue(issuer: &Issuer<'_>, key: &Public, asked: &Asked) -> Result<String, PkiError> {
    let validity = Validity { from: asked.from, until: asked.until };
    let purpose = asked.good();
    let certificate = x509::issue(issuer, key, &asked.subject(), &Purpose::Asked(&purpose), validity)?;
    Ok(certificate_pem(&certificate))
}

/// A certificate that is there already.
#[derive(Clone, Debug)]
pub struct Issued {
    facts: x509::Facts,
}

impl Issued {
    /// Reads the first certificate of a text.
    pub fn read(pem: &str) -> Result<Self, PkiError> {
        let der = CertificateDer::from_pem_slice(pem.as_bytes()).map_err(|_| PkiError::Certificate)?;
        Ok(Self { facts: x509::facts(&der)? })
    }

    /// From when it holds.
    pub fn from(&self) -> Timestamp {
        self.facts.validity.from
    }

    /// Until when it holds.
    pub fn until(&self) -> Timestamp {
        self.facts.validity.until
    }

    /// Its serial number, as OpenSSL and OpenBao write it: `5f:0a:...`.
    pub fn serial(&self) -> String {
        self.facts.serial.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(":")
    }

    /// Whether it may sign others.
    pub fn is_authority(&self) -> bool {
        self.facts.authority
    }

    /// Whether no one stands above it.
    pub fn is_root(&self) -> bool {
        self.facts.name == self.facts.issuer
    }

    /// Whether it is a certificate of this key.
    pub fn belongs_to(&self, key: &Signer) -> bool {
        self.facts.key == key.key.spki()
    }
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret;

    use super::*;

    fn asked(name: &str, authority: bool) -> Asked {
        Asked {
            common_name: name.to_owned(),
            units: vec!["seals".to_owned()],
            dns_names: if authority { Vec::new() } else { vec!["wax.example".to_owned(), "*.wax.example".to_owned()] },
            addresses: if authority { Vec::new() } else { vec!["10.1.2.3".parse().unwrap()] },
            authority,
            usages: vec![Usage::DigitalSignature, Usage::KeyEncipherment, Usage::ServerAuth],
            from: "2026-01-01T00:00:00Z".parse().unwrap(),
            until: "2026-04-01T00:00:00Z".parse().unwrap(),
            ..Asked::default()
        }
    }

    #[test]
    fn names_are_critical_where_there_is_no_subject_as_strict_verifiers_demand() {
        let names_are_critical = |name: &str| {
            let asked = Asked { units: Vec::new(), ..asked(name, false) };
            let pem = Signer::generate().unwrap().sign_own(&asked).unwrap();
            let der = CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
            // The extension's identifier, and the boolean that is only written when it is true.
            der.windows(8).any(|bytes| bytes == [0x06, 0x03, 0x55, 0x1d, 0x11, 0x01, 0x01, 0xff])
        };
        assert!(names_are_critical("") && !names_are_critical("wax"));
    }

    #[test]
    fn an_authority_of_somebody_signs_what_a_strict_verifier_believes() {
        let (root, leaf) = (Signer::generate().unwrap(), Signer::generate().unwrap());
        let root_pem = root.sign_own(&asked("Wax Root", true)).unwrap();
        let leaf_pem = root.sign(&root_pem, &leaf, &asked("wax", false)).unwrap();
        let anchor = CertificateDer::from_pem_slice(root_pem.as_bytes()).unwrap();
        let end = CertificateDer::from_pem_slice(leaf_pem.as_bytes()).unwrap();
        let anchors = [webpki::anchor_from_trusted_cert(&anchor).unwrap()];
        let end = webpki::EndEntityCert::try_from(&end).unwrap();
        let now = std::time::Duration::from_hours(24 * 365 * 56 + 24 * 60);
        let now = rustls::pki_types::UnixTime::since_unix_epoch(now);
        let usage = webpki::KeyUsage::server_auth();
        end.verify_for_usage(webpki::ALL_VERIFICATION_ALGS, &anchors, &[], now, usage, None, None).unwrap();
        for name in ["wax.example", "a.wax.example", "10.1.2.3"] {
            let name = rustls::pki_types::ServerName::try_from(name).unwrap();
            end.verify_is_valid_for_subject_name(&name).unwrap();
        }
        let issued = Issued::read(&leaf_pem).unwrap();
        assert!(issued.belongs_to(&leaf) && !issued.belongs_to(&root) && !issued.is_root() && !issued.is_authority());
        assert_eq!(issued.until(), asked("wax", false).until);
    }

    #[test]
    fn only_an_authority_signs_for_others_and_only_with_its_own_key() {
        let (one, other) = (Signer::generate().unwrap(), Signer::generate().unwrap());
        let leaf = one.sign_own(&asked("leaf", false)).unwrap();
        assert!(matches!(one.sign(&leaf, &other, &asked("x", false)), Err(PkiError::NoAuthority(_))));
        let root = one.sign_own(&asked("root", true)).unwrap();
        assert!(matches!(other.sign(&root, &one, &asked("x", false)), Err(PkiError::NoAuthority(_))));
        assert!(Issued::read(&root).unwrap().is_root());
    }

    #[test]
    fn a_key_survives_the_way_through_pem() {
        let key = Signer::generate().unwrap();
        let certificate = key.sign_own(&asked("me", false)).unwrap();
        let again = Signer::from_pem(key.pem().expose_secret()).unwrap();
        assert!(Issued::read(&certificate).unwrap().belongs_to(&again));
    }
}
