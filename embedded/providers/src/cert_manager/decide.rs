//! What a Certificate asks for, and whether what is in its Secret is still that.

use std::collections::BTreeMap;

use c5c3_api::ext::cert_manager::{CertificateSpec, KeyAlgorithm, RotationPolicy};
use c5c3_auth::{Asked, Issued, Signer, Usage};
use c5c3_kit::hash;
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

/// How long a certificate is valid that does not say how long.
const LIFE: SignedDuration = SignedDuration::from_hours(24 * 90);

/// The annotation of a Secret that stands for what was asked for when it was issued.
pub(super) const ASKED: &str = "c5c3.io/certificate-specification";

/// What a Certificate asks for, or what is wrong with it.
pub(super) fn asked(spec: &CertificateSpec, now: Timestamp) -> Result<Asked, String> {
    let key = spec.private_key.clone().unwrap_or_default();
    match key.algorithm {
        None => {}
        Some(KeyAlgorithm::Ecdsa) if key.size.is_none_or(|size| size == 256) => {}
        Some(_) => return Err("spec.privateKey: the embedded cluster makes ECDSA keys of 256 bits only".to_owned()),
    }
    let life = duration("spec.duration", spec.duration.as_deref())?.unwrap_or(LIFE);
    let wrong = |address: &String| format!("spec.ipAddresses: {address} is not an address");
    let addresses = spec.ip_addresses.iter().map(|address| address.parse().map_err(|_| wrong(address)));
    let subject = spec.subject.clone().unwrap_or_default();
    let until = now.checked_add(life).map_err(|_| "spec.duration: longer than calendars go".to_owned())?;
    let asked = Asked {
        common_name: spec.common_name.clone().unwrap_or_default(),
        organizations: subject.organizations,
        units: subject.organizational_units,
        dns_names: spec.dns_names.clone(),
        addresses: addresses.collect::<Result<_, _>>()?,
        uris: spec.uris.clone(),
        authority: spec.is_ca == Some(true),
        usages: usages(spec)?,
        from: now,
        until,
    };
    let nobody = asked.common_name.is_empty()
        && asked.dns_names.is_empty()
        && asked.addresses.is_empty()
        && asked.uris.is_empty();
    if nobody {
        return Err("spec: at least one of commonName, dnsNames, ipAddresses and uris must be set".to_owned());
    }
    Ok(asked)
}

fn usages(spec: &CertificateSpec) -> Result<Vec<Usage>, String> {
    use c5c3_api::ext::cert_manager::Usage as Word;
    if spec.usages.is_empty() {
        return Ok(vec![Usage::DigitalSignature, Usage::KeyEncipherment]);
    }
    let known = spec.usages.iter().map(|usage| match usage {
        Word::DigitalSignature => Ok(Usage::DigitalSignature),
        Word::KeyEncipherment => Ok(Usage::KeyEncipherment),
        Word::CertSign => Ok(Usage::CertSign),
        Word::CrlSign => Ok(Usage::CrlSign),
        Word::ServerAuth => Ok(Usage::ServerAuth),
        Word::ClientAuth => Ok(Usage::ClientAuth),
        Word::Unknown => Err("spec.usages: one of them is not provided on the embedded cluster".to_owned()),
    });
    known.collect()
}

/// A duration such as `2160h` or `1h30m`.
fn duration(field: &str, text: Option<&str>) -> Result<Option<SignedDuration>, String> {
    let parse = |text: &str| text.parse::<SignedDuration>().map_err(|_| format!("{field}: {text} is not a duration"));
    text.map(parse).transpose()
}

/// Stands for whatever makes a certificate another one, in ten digits.
pub(super) fn fingerprint(spec: &CertificateSpec) -> String {
    let CertificateSpec { common_name, dns_names, ip_addresses, uris, subject, duration, is_ca, .. } = spec;
    let subject = subject.as_ref().map(|subject| (&subject.organizations, &subject.organizational_units));
    let usages: Vec<String> = spec.usages.iter().map(|usage| format!("{usage:?}")).collect();
    let issuer = (&spec.issuer_ref.name, spec.issuer_ref.kind.as_deref().unwrap_or("Issuer"));
    hash::of_json(&json!([common_name, dns_names, ip_addresses, uris, subject, duration, is_ca, usages, issuer]))
}

/// When a certificate is renewed: as long before its end as asked, or when a third of its life is left.
pub(super) fn renewal(spec: &CertificateSpec, from: Timestamp, until: Timestamp) -> Result<Timestamp, String> {
    let life = until.duration_since(from);
    let before = match duration("spec.renewBefore", spec.renew_before.as_deref())? {
        Some(before) if before < life => before,
        Some(_) => return Err("spec.renewBefore: as long as the certificate is valid, or longer".to_owned()),
        None => life / 3,
    };
    Ok(until - before)
}

/// What is in a Secret.
#[derive(Clone, Debug, Default)]
pub(super) struct Held {
    pub(super) data: BTreeMap<String, String>,
    pub(super) annotations: BTreeMap<String, String>,
}

/// A certificate that is there, with what there is to say about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Current {
    pub(super) from: Timestamp,
    pub(super) until: Timestamp,
    pub(super) renewal: Timestamp,
}

/// The certificate in a Secret if it is what a Certificate asks for; else why another one must be issued: the reason of
/// the condition, and a sentence.
pub(super) fn current(
    spec: &CertificateSpec,
    held: Option<&Held>,
    now: Timestamp,
) -> Result<Current, (&'static str, String)> {
    let Some(held) = held else {
        return Err(("DoesNotExist", "Issuing certificate as Secret does not exist".to_owned()));
    };
    let (Some(certificate), Some(key)) = (held.data.get("tls.crt"), held.data.get("tls.key")) else {
        return Err((
            "MissingData",
            "Issuing certificate as Secret does not contain a certificate and a key".to_owned(),
        ));
    };
    let (Ok(certificate), Ok(key)) = (Issued::read(certificate), Signer::from_pem(key)) else {
        return Err(("InvalidKeyPair", "Issuing certificate as Secret contains what is none".to_owned()));
    };
    if !certificate.belongs_to(&key) {
        return Err(("InvalidKeyPair", "Issuing certificate as Secret contains an invalid key-pair".to_owned()));
    }
    if held.annotations.get(ASKED) != Some(&fingerprint(spec)) {
        return Err(("SecretMismatch", "Existing issued Secret is not up to date for spec".to_owned()));
    }
    let (from, until) = (certificate.from(), certificate.until());
    let renewal = renewal(spec, from, until).map_err(|why| ("InvalidSpec", why))?;
    if until <= now {
        return Err(("Expired", format!("Certificate expired on {until}")));
    }
    if renewal <= now {
        return Err(("Renewing", format!("Renewing certificate as renewal was scheduled at {renewal}")));
    }
    Ok(Current { from, until, renewal })
}

/// Whether a new certificate keeps the private key of the old one.
pub(super) fn keeps_key(spec: &CertificateSpec) -> bool {
    spec.private_key.as_ref().and_then(|key| key.rotation_policy) == Some(RotationPolicy::Never)
}

#[cfg(test)]
mod tests {
    use super::*;
    use secrecy::ExposeSecret;
    use serde_json::Value;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn spec(more: &Value) -> CertificateSpec {
        let mut spec = json!({"secretName": "seal", "issuerRef": {"name": "stamp"}, "dnsNames": ["wax.example"]});
        for (field, value) in more.as_object().unwrap() {
            spec[field] = value.clone();
        }
        serde_json::from_value(spec).unwrap()
    }

    fn held(spec: &CertificateSpec, now: Timestamp) -> Held {
        let key = Signer::generate().unwrap();
        let certificate = key.sign_own(&asked(spec, now).unwrap()).unwrap();
        let data = [("tls.crt", certificate), ("tls.key", key.pem().expose_secret().to_owned())];
        Held {
            data: data.map(|(key, value)| (key.to_owned(), value)).into(),
            annotations: [(ASKED.to_owned(), fingerprint(spec))].into(),
        }
    }

    #[test]
    fn a_certificate_is_renewed_when_a_third_of_its_life_is_left_or_as_asked() {
        let (from, until) = (at("2026-01-01T00:00:00Z"), at("2026-04-01T00:00:00Z"));
        assert_eq!(renewal(&spec(&json!({})), from, until), Ok(at("2026-03-02T00:00:00Z")));
        assert_eq!(renewal(&spec(&json!({"renewBefore": "24h"})), from, until), Ok(at("2026-03-31T00:00:00Z")));
        assert!(renewal(&spec(&json!({"renewBefore": "2160h"})), from, until).is_err());
    }

    #[test]
    fn what_is_held_is_good_until_it_is_due_or_something_else_is_asked_for() {
        let (asked, now) = (spec(&json!({"duration": "3h"})), at("2026-01-01T00:00:00Z"));
        let mut held = held(&asked, now);
        let why = |spec: &CertificateSpec, held: &Held, now: &str| {
            current(spec, Some(held), at(now)).map_err(|(reason, _)| reason)
        };
        let good = Ok(Current { from: now, until: at("2026-01-01T03:00:00Z"), renewal: at("2026-01-01T02:00:00Z") });
        assert_eq!(why(&asked, &held, "2026-01-01T01:59:59Z"), good);
        assert_eq!(why(&asked, &held, "2026-01-01T02:00:00Z"), Err("Renewing"));
        assert_eq!(why(&asked, &held, "2026-01-01T03:00:00Z"), Err("Expired"));
        let other = spec(&json!({"duration": "3h", "dnsNames": ["other.example"]}));
        assert_eq!(why(&other, &held, "2026-01-01T00:00:01Z"), Err("SecretMismatch"));
        held.data.insert("tls.key".to_owned(), Signer::generate().unwrap().pem().expose_secret().to_owned());
        assert_eq!(why(&asked, &held, "2026-01-01T00:00:01Z"), Err("InvalidKeyPair"));
        held.data.remove("tls.key");
        assert_eq!(why(&asked, &held, "2026-01-01T00:00:01Z"), Err("MissingData"));
        assert_eq!(current(&asked, None, now).map_err(|(reason, _)| reason), Err("DoesNotExist"));
    }

    #[test]
    fn what_is_not_provided_is_refused_by_name() {
        let why = |more: &Value| asked(&spec(more), Timestamp::UNIX_EPOCH).unwrap_err();
        assert!(why(&json!({"privateKey": {"algorithm": "RSA"}})).starts_with("spec.privateKey"));
        assert!(why(&json!({"privateKey": {"algorithm": "ECDSA", "size": 521}})).starts_with("spec.privateKey"));
        assert!(why(&json!({"usages": ["code signing"]})).starts_with("spec.usages"));
        assert!(why(&json!({"ipAddresses": ["here"]})).starts_with("spec.ipAddresses"));
        assert!(why(&json!({"duration": "long"})).starts_with("spec.duration"));
        assert!(why(&json!({"dnsNames": []})).starts_with("spec: at least one"));
    }
}
