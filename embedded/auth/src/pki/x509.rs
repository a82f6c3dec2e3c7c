//! X.509 as far as a cluster's own authority and the issuers in it need it: writes P-256 certificates, reads whom one is
//! about, how long it holds and which key it names.
//!
//! Written here because a client certificate names each group in an organization of its own, and the usual
//! builder crates keep one organization per subject. Every certificate has the key identifiers without which strict
//! verifiers (Python 3.13, for one) refuse it.

use std::net::IpAddr;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use rustls::pki_types::{CertificateDer, ServerName};
use yasna::models::{ObjectIdentifier, TaggedDerValue};
use yasna::tags::{TAG_GENERALIZEDTIME, TAG_IA5STRING, TAG_PRINTABLESTRING, TAG_UTCTIME, TAG_UTF8STRING};
use yasna::{ASN1Error, ASN1ErrorKind, ASN1Result, BERReader, BERReaderSeq, DERWriter, DERWriterSeq, Tag};

use super::PkiError;
use super::key::{P256, random};

pub(super) const ECDSA_WITH_SHA256: &[u64] = &[1, 2, 840, 10045, 4, 3, 2];
const COMMON_NAME: &[u64] = &[2, 5, 4, 3];
const ORGANIZATION: &[u64] = &[2, 5, 4, 10];
const UNIT: &[u64] = &[2, 5, 4, 11];
const SUBJECT_KEY_ID: &[u64] = &[2, 5, 29, 14];
const KEY_USAGE: &[u64] = &[2, 5, 29, 15];
pub(super) const SUBJECT_ALT_NAME: &[u64] = &[2, 5, 29, 17];
const BASIC_CONSTRAINTS: &[u64] = &[2, 5, 29, 19];
const AUTHORITY_KEY_ID: &[u64] = &[2, 5, 29, 35];
const EXTENDED_KEY_USAGE: &[u64] = &[2, 5, 29, 37];
pub(crate) const SERVER_AUTH: &[u64] = &[1, 3, 6, 1, 5, 5, 7, 3, 1];
pub(crate) const CLIENT_AUTH: &[u64] = &[1, 3, 6, 1, 5, 5, 7, 3, 2];

/// A distinguished name: who a certificate speaks of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Subject {
    pub(crate) common_name: String,
    pub(crate) organizations: Vec<String>,
    pub(crate) units: Vec<String>,
}

/// What a certificate is good for.
pub(crate) enum Purpose<'a> {
    Authority,
    Server(&'a [ServerName<'static>]),
    Client,
    /// What someone asked for, word by word.
    Asked(&'a Good),
}

/// What a certificate is good for, in full.
#[derive(Clone, Debug, Default)]
pub(crate) struct Good {
    /// Whether it may sign others.
    pub(crate) authority: bool,
    /// Bits of the key usage: digitalSignature is the highest.
    pub(crate) usage: u8,
    /// Purposes of TLS and the like.
    pub(crate) extended: Vec<&'static [u64]>,
    pub(crate) names: Vec<Alternative>,
}

/// A name that a certificate holds for beside its subject.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Alternative {
    Dns(String),
    Address(IpAddr),
    Uri(String),
}

/// From when and until when a certificate holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Validity {
    pub(crate) from: Timestamp,
    pub(crate) until: Timestamp,
}

/// Who signs.
pub(crate) struct Issuer<'a> {
    /// The name, encoded: those who look for the issuer compare it byte by byte.
    name: Vec<u8>,
    key: &'a P256,
    key_id: Vec<u8>,
}

impl<'a> Issuer<'a> {
    /// An authority of that name.
    pub(crate) fn new(subject: &Subject, key: &'a P256) -> Self {
        let name = yasna::construct_der(|writer| write_name(writer, subject));
        Self { name, key, key_id: key.identifier() }
    }

    /// The authority that a certificate is about.
    pub(crate) fn of(certificate: &Facts, key: &'a P256) -> Self {
        let key_id = certificate.key_id.clone().unwrap_or_else(|| key.identifier());
        Self { name: certificate.name.clone(), key, key_id }
    }
}

/// A public key that a certificate is for.
#[derive(Debug)]
pub(crate) struct Public {
    /// SubjectPublicKeyInfo, encoded.
    pub(crate) spki: Vec<u8>,
    /// What names the key in certificates.
    pub(crate) identifier: Vec<u8>,
}

impl Public {
    pub(crate) fn of(key: &P256) -> Self {
        Self { spki: key.spki(), identifier: key.identifier() }
    }
}

/// Makes and signs a certificate for `key`.
pub(crate) fn issue(
    issuer: &Issuer<'_>,
    key: &Public,
    subject: &Subject,
    purpose: &Purpose<'_>,
    validity: Validity,
) -> Result<CertificateDer<'static>, PkiError> {
    let mut serial = random::<16>()?;
    // Positive and without leading zeros, as the encoding demands.
    serial[0] = serial[0] & 0x7f | 0x40;
    let body = yasna::construct_der(|writer| {
        writer.write_sequence(|writer| {
            writer.next().write_tagged(Tag::context(0), |writer| writer.write_u8(2));
            writer.next().write_bigint_bytes(&serial, true);
            write_algorithm(writer.next());
            writer.next().write_der(&issuer.name);
            writer.next().write_sequence(|writer| {
                write_time(writer.next(), validity.from);
                write_time(writer.next(), validity.until);
            });
            write_name(writer.next(), subject);
            writer.next().write_der(&key.spki);
            writer.next().write_tagged(Tag::context(3), |writer| {
                let is_nameless = *subject == Subject::default();
                writer.write_sequence(|writer| write_extensions(writer, issuer, key, &good(purpose), is_nameless));
            });
        });
    });
    let signature = issuer.key.sign_der(&body)?;
    let certificate = yasna::construct_der(|writer| {
        writer.write_sequence(|writer| {
            writer.next().write_der(&body);
            write_algorithm(writer.next());
            writer.next().write_bitvec_bytes(&signature, signature.len() * 8);
        });
    });
    Ok(certificate.into())
}

fn write_algorithm(writer: DERWriter<'_>) {
    writer.write_sequence(|writer| writer.next().write_oid(&oid(ECDSA_WITH_SHA256)));
}

fn write_name(writer: DERWriter<'_>, subject: &Subject) {
    let organizations = subject.organizations.iter().map(|group| (ORGANIZATION, group));
    let units = subject.units.iter().map(|unit| (UNIT, unit));
    // An empty name is left out: a certificate may be for its alternative names alone.
    let common = Some((COMMON_NAME, &subject.common_name)).filter(|(_, name)| !name.is_empty());
    writer.write_sequence(|writer| {
        for (attribute, value) in organizations.chain(units).chain(common) {
            writer.next().write_set(|writer| {
                writer.next().write_sequence(|writer| {
                    writer.next().write_oid(&oid(attribute));
                    writer.next().write_utf8_string(value);
                });
            });
        }
    });
}

/// RFC 5280: two-digit years until 2049, four digits from then on.
fn write_time(writer: DERWriter<'_>, time: Timestamp) {
    let civil = time.to_zoned(TimeZone::UTC).datetime();
    let (tag, format) =
        if civil.year() < 2050 { (TAG_UTCTIME, "%y%m%d%H%M%SZ") } else { (TAG_GENERALIZEDTIME, "%Y%m%d%H%M%SZ") };
    let text = civil.strftime(format).to_string();
    writer.write_tagged_implicit(tag, |writer| writer.write_bytes(text.as_bytes()));
}

/// Bits from the left: digitalSignature is the first, keyCertSign and cRLSign are the sixth and seventh.
pub(crate) const DIGITAL_SIGNATURE: u8 = 0b1000_0000;
pub(crate) const KEY_ENCIPHERMENT: u8 = 0b0010_0000;
pub(crate) const CERT_SIGN: u8 = 0b0000_0100;
pub(crate) const CRL_SIGN: u8 = 0b0000_0010;

fn good(purpose: &Purpose<'_>) -> Good {
    match purpose {
        Purpose::Authority => Good { authority: true, usage: CERT_SIGN | CRL_SIGN, ..Good::default() },
        Purpose::Server(names) => {
            let names = names.iter().map(Alternative::of).collect();
            Good { usage: DIGITAL_SIGNATURE, extended: vec![SERVER_AUTH], names, ..Good::default() }
        }
        Purpose::Client => Good { usage: DIGITAL_SIGNATURE, extended: vec![CLIENT_AUTH], ..Good::default() },
        Purpose::Asked(good) => (*good).clone(),
    }
}

fn write_extensions(writer: &mut DERWriterSeq<'_>, issuer: &Issuer<'_>, key: &Public, good: &Good, is_nameless: bool) {
    extension(writer, BASIC_CONSTRAINTS, true, |writer| {
        writer.write_sequence(|writer| {
            if good.authority {
                writer.next().write_bool(true);
            }
        });
    });
    if good.usage != 0 {
        let bits = 8 - good.usage.trailing_zeros() as usize;
        extension(writer, KEY_USAGE, true, |writer| writer.write_bitvec_bytes(&[good.usage], bits));
    }
    if !good.extended.is_empty() {
        extension(writer, EXTENDED_KEY_USAGE, false, |writer| {
            writer.write_sequence(|writer| good.extended.iter().for_each(|id| writer.next().write_oid(&oid(id))));
        });
    }
    extension(writer, SUBJECT_KEY_ID, false, |writer| writer.write_bytes(&key.identifier));
    extension(writer, AUTHORITY_KEY_ID, false, |writer| {
        writer.write_sequence(|writer| {
            writer.next().write_tagged_implicit(Tag::context(0), |writer| writer.write_bytes(&issuer.key_id));
        });
    });
    if !good.names.is_empty() {
        // RFC 5280, 4.2.1.6: these names are all that there is without a subject. Python 3.13 refuses such a certificate otherwise.
        extension(writer, SUBJECT_ALT_NAME, is_nameless, |writer| {
            writer.write_sequence(|writer| good.names.iter().for_each(|name| name.write(writer.next())));
        });
    }
}

fn extension(writer: &mut DERWriterSeq<'_>, id: &[u64], critical: bool, value: impl FnOnce(DERWriter<'_>)) {
    writer.next().write_sequence(|writer| {
        writer.next().write_oid(&oid(id));
        if critical {
            writer.next().write_bool(true);
        }
        writer.next().write_bytes(&yasna::construct_der(value));
    });
}

impl Alternative {
    fn of(name: &ServerName<'_>) -> Self {
        match name {
            ServerName::IpAddress(address) => Self::Address(IpAddr::from(*address)),
            name => Self::Dns(name.to_str().into_owned()),
        }
    }

    /// From its tag and its content; none of a kind that is not known here.
    pub(super) fn read(tag: Tag, content: &[u8]) -> Option<Self> {
        let text = || String::from_utf8(content.to_vec()).ok();
        if tag == Tag::context(2) {
            text().map(Self::Dns)
        } else if tag == Tag::context(6) {
            text().map(Self::Uri)
        } else if tag == Tag::context(7) {
            let four = <[u8; 4]>::try_from(content).map(IpAddr::from);
            four.or_else(|_| <[u8; 16]>::try_from(content).map(IpAddr::from)).ok().map(Self::Address)
        } else {
            None
        }
    }

    fn write(&self, writer: DERWriter<'_>) {
        match self {
            Self::Dns(name) => writer.write_tagged_implicit(Tag::context(2), |writer| writer.write_ia5_string(name)),
            Self::Uri(uri) => writer.write_tagged_implicit(Tag::context(6), |writer| writer.write_ia5_string(uri)),
            Self::Address(address) => {
                let octets = match address {
                    IpAddr::V4(v4) => v4.octets().to_vec(),
                    IpAddr::V6(v6) => v6.octets().to_vec(),
                };
                writer.write_tagged_implicit(Tag::context(7), |writer| writer.write_bytes(&octets));
            }
        }
    }
}

fn oid(components: &[u64]) -> ObjectIdentifier {
    ObjectIdentifier::from_slice(components)
}

/// What a certificate says.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    pub(crate) subject: Subject,
    pub(crate) validity: Validity,
    /// The subject, encoded.
    pub(crate) name: Vec<u8>,
    /// The issuer, encoded: the same as the name if the certificate is its own authority.
    pub(crate) issuer: Vec<u8>,
    /// The public key, encoded.
    pub(crate) key: Vec<u8>,
    key_id: Option<Vec<u8>>,
    pub(crate) authority: bool,
    pub(crate) serial: Vec<u8>,
}

/// Reads whom a certificate speaks of and how long. Says nothing about whether to believe it.
pub(crate) fn read(der: &[u8]) -> Result<(Subject, Validity), PkiError> {
    facts(der).map(|facts| (facts.subject, facts.validity))
}

/// Reads what a certificate says. Says nothing about whether to believe it.
pub(crate) fn facts(der: &[u8]) -> Result<Facts, PkiError> {
    yasna::parse_der(der, |reader| {
        reader.read_sequence(|reader| {
            let facts = reader.next().read_sequence(read_body)?;
            skip(reader.next())?;
            skip(reader.next())?;
            Ok(facts)
        })
    })
    .map_err(|_| PkiError::Certificate)
}

fn read_body(reader: &mut BERReaderSeq<'_, '_>) -> ASN1Result<Facts> {
    // The version.
    skip(reader.next())?;
    let (serial, _) = reader.next().read_bigint_bytes()?;
    // The algorithm.
    skip(reader.next())?;
    let issuer = reader.next().read_der()?;
    let validity = reader
        .next()
        .read_sequence(|reader| Ok(Validity { from: read_time(reader.next())?, until: read_time(reader.next())? }))?;
    let name = reader.next().read_der()?;
    let subject = yasna::parse_der(&name, read_name)?;
    let key = reader.next().read_der()?;
    let mut facts = Facts { subject, validity, name, issuer, key, key_id: None, authority: false, serial };
    while let Some(rest) = reader.read_optional(any)? {
        if rest.tag() == Tag::context(3) {
            yasna::parse_der(rest.value(), |reader| {
                reader.read_sequence_of(|reader| read_extension(reader, &mut facts))
            })?;
        }
    }
    Ok(facts)
}

fn read_extension(reader: BERReader<'_, '_>, facts: &mut Facts) -> ASN1Result<()> {
    let (id, value) = reader.read_sequence(|reader| {
        let id = reader.next().read_oid()?;
        reader.read_optional(truth)?;
        Ok((id, reader.next().read_bytes()?))
    })?;
    match id.components().as_slice() {
        SUBJECT_KEY_ID => facts.key_id = Some(yasna::parse_der(&value, bytes)?),
        BASIC_CONSTRAINTS => {
            facts.authority = yasna::parse_der(&value, |reader| {
                reader.read_sequence(|reader| {
                    let authority = reader.read_optional(truth)?;
                    // How many authorities may follow.
                    reader.read_optional(skip)?;
                    Ok(authority == Some(true))
                })
            })?;
        }
        _ => {}
    }
    Ok(())
}

pub(super) fn skip(reader: BERReader<'_, '_>) -> ASN1Result<()> {
    reader.read_der().map(drop)
}

pub(super) fn any(reader: BERReader<'_, '_>) -> ASN1Result<TaggedDerValue> {
    reader.read_tagged_der()
}

pub(super) fn truth(reader: BERReader<'_, '_>) -> ASN1Result<bool> {
    reader.read_bool()
}

fn bytes(reader: BERReader<'_, '_>) -> ASN1Result<Vec<u8>> {
    reader.read_bytes()
}

pub(super) fn read_name(reader: BERReader<'_, '_>) -> ASN1Result<Subject> {
    let mut subject = Subject::default();
    reader.read_sequence_of(|reader| {
        reader.read_set_of(|reader| {
            let (attribute, value) =
                reader.read_sequence(|reader| Ok((reader.next().read_oid()?, reader.next().read_tagged_der()?)))?;
            match attribute.components().as_slice() {
                COMMON_NAME => subject.common_name = text(&value)?,
                ORGANIZATION => subject.organizations.push(text(&value)?),
                UNIT => subject.units.push(text(&value)?),
                _ => {}
            }
            Ok(())
        })
    })?;
    Ok(subject)
}

fn text(value: &TaggedDerValue) -> ASN1Result<String> {
    if ![TAG_UTF8STRING, TAG_PRINTABLESTRING, TAG_IA5STRING].contains(&value.tag()) {
        return Err(ASN1Error::new(ASN1ErrorKind::Invalid));
    }
    String::from_utf8(value.value().to_vec()).map_err(|_| ASN1Error::new(ASN1ErrorKind::Invalid))
}

fn read_time(reader: BERReader<'_, '_>) -> ASN1Result<Timestamp> {
    let invalid = || ASN1Error::new(ASN1ErrorKind::Invalid);
    let value = reader.read_tagged_der()?;
    let digits = std::str::from_utf8(value.value()).map_err(|_| invalid())?;
    let digits = if value.tag() == TAG_UTCTIME {
        let century = if digits < "50" { "20" } else { "19" };
        format!("{century}{digits}")
    } else {
        digits.to_owned()
    };
    let civil = DateTime::strptime("%Y%m%d%H%M%SZ", digits).map_err(|_| invalid())?;
    Ok(civil.to_zoned(TimeZone::UTC).map_err(|_| invalid())?.timestamp())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn validity(from: &str, until: &str) -> Validity {
        Validity { from: from.parse().unwrap(), until: until.parse().unwrap() }
    }

    fn certificate(subject: &Subject, validity: Validity) -> CertificateDer<'static> {
        let key = P256::generate().unwrap();
        let issuer = Issuer::new(&Subject { common_name: "root".into(), ..Subject::default() }, &key);
        issue(&issuer, &Public::of(&key), subject, &Purpose::Client, validity).unwrap()
    }

    #[test]
    fn each_group_is_an_organization_of_its_own() {
        let jane = Subject {
            common_name: "jané".into(),
            organizations: vec!["dev".into(), "ops".into(), "system:x".into()],
            ..Subject::default()
        };
        let times = validity("2026-01-02T03:04:05Z", "2051-01-02T03:04:05Z");
        let (subject, read_times) = read(&certificate(&jane, times)).unwrap();
        assert_eq!((subject, read_times), (jane, times));
    }

    #[test]
    fn a_damaged_certificate_is_an_error_wherever_it_is_cut() {
        let whole = certificate(&Subject::default(), validity("2026-01-01T00:00:00Z", "2027-01-01T00:00:00Z"));
        for length in 0..whole.len() {
            assert!(read(&whole[..length]).is_err(), "cut at {length}");
        }
    }
}
