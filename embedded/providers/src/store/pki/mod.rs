//! A PKI engine: an authority, roles that say which certificates it signs, and the certificates that it signed.
//!
//! Keys that are made here are ECDSA P-256; a request (`sign`) may bring another one along. Nothing is revoked, so that there
//! are no revocation lists: certificates are short-lived instead. Intermediate authorities and ACME are not there.

mod role;

use std::collections::BTreeMap;
use std::fmt;

use c5c3_auth::{Asked, Issued, PkiError, Request, Signer, Usage};
use jiff::{SignedDuration, Timestamp};
use secrecy::ExposeSecret;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use self::role::{Role, Wanted};
use super::ask::{Answer, Ask, Verb};
use super::furnish::PKI_ROLES;
use super::tokens::{LONGEST_LIFE, life};

/// Certificates hold a little before they are made, for clients whose clocks are behind: OpenBao's own default.
const BACKDATE: SignedDuration = SignedDuration::from_secs(30);

/// The authority of a new store: its name and its life.
const ROOT: (&str, &str) = ("CobaltCore Internal CA", "87600h");

/// A PKI engine.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(in crate::store) struct Engine {
    root: Option<Root>,
    roles: BTreeMap<String, Role>,
    /// Certificates by serial number, PEM.
    issued: BTreeMap<String, String>,
    /// Where clients find the authority: kept and told, as asked for.
    #[serde(default)]
    urls: Value,
    /// Seconds that a certificate holds at most.
    #[serde(default)]
    most: Option<i64>,
}

/// An authority.
#[derive(Clone, Serialize, Deserialize)]
struct Root {
    certificate: String,
    /// PKCS#8, PEM. It leaves the store once, in the answer to `root/generate/exported`, or never.
    key: String,
}

impl fmt::Debug for Root {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Root").field("certificate", &self.certificate).finish_non_exhaustive()
    }
}

/// Why a certificate is not given out.
type Refused = String;

impl Engine {
    /// An engine with an authority and the roles of `deploy/openbao`. Without random numbers it has no authority.
    pub(super) fn furnished(now: Timestamp) -> Self {
        let mut engine = Self::default();
        engine.tune(&json!({"max_lease_ttl": ROOT.1}));
        let root = json!({"common_name": ROOT.0, "ttl": ROOT.1});
        if let Err(error) = engine.generate_root(&root, now) {
            tracing::error!(error, "the PKI engine has no authority");
        }
        for (name, text) in PKI_ROLES {
            if let Ok(role) = Role::read(&serde_json::from_str(text).unwrap_or(Value::Null)) {
                engine.roles.insert((*name).to_owned(), role);
            }
        }
        engine
    }

    /// Changes for how long certificates may hold.
    pub(super) fn tune(&mut self, body: &Value) -> Answer {
        match life(&body["max_lease_ttl"]) {
            Ok(Some(most)) => self.most = Some(most.as_secs()),
            Ok(None) => {}
            Err(()) => return Answer::refusal(400, &["failed to parse max_lease_ttl"]),
        }
        Answer::done()
    }

    pub(super) fn tuned(&self) -> Value {
        json!({"default_lease_ttl": LONGEST_LIFE.as_secs(), "max_lease_ttl": self.most().as_secs(), "force_no_cache": false})
    }

    fn most(&self) -> SignedDuration {
        self.most.map_or(LONGEST_LIFE, SignedDuration::from_secs)
    }

    /// Paths that need no token: the certificate of the authority.
    pub(super) fn public(&self, verb: Verb, path: &str) -> Option<Answer> {
        let wanted = matches!(path, "ca/pem" | "ca_chain" | "cert/ca" | "cert/ca_chain");
        if verb != Verb::Read || !wanted {
            return None;
        }
        Some(match (&self.root, path) {
            (Some(root), "ca/pem" | "ca_chain") => Answer::pem(root.certificate.clone()),
            (Some(root), _) => Answer::data(json!({"certificate": root.certificate, "revocation_time": 0})),
            (None, "ca/pem" | "ca_chain") => Answer::done(),
            (None, _) => Answer::missing(),
        })
    }

    /// Answers a request; `path` is behind the mount.
    pub(super) fn answer(&mut self, ask: &Ask<'_>, path: &str, now: Timestamp) -> Answer {
        let path = path.trim_end_matches('/');
        match (ask.verb, path.split_once('/').unwrap_or((path, ""))) {
            (Verb::Write, ("root", how @ ("generate/internal" | "generate/exported"))) => {
                let made = self.generate_root(&ask.body, now);
                answered(made.map(|key| self.describe_root(key.filter(|_| how == "generate/exported").as_deref())))
            }
            (Verb::Delete, ("root", "")) => {
                self.root = None;
                Answer::done()
            }
            (Verb::Write, ("issue", role)) => answered(self.issue(role, &ask.body, now)),
            (Verb::Write, ("sign", role)) => answered(self.sign(role, &ask.body, now)),
            (_, ("roles", name)) => self.role(ask, name),
            (Verb::Read, ("cert", serial)) => match self.issued.get(&serial.replace('-', ":")) {
                Some(certificate) => Answer::data(json!({"certificate": certificate, "revocation_time": 0})),
                None => Answer::missing(),
            },
            (Verb::List, ("certs", "")) if self.issued.is_empty() => Answer::missing(),
            (Verb::List, ("certs", "")) => Answer::data(json!({"keys": self.issued.keys().collect::<Vec<_>>()})),
            (Verb::Write, ("config", "urls")) => {
                self.urls = ask.body.clone();
                Answer::done()
            }
            (Verb::Read, ("config", "urls")) => Answer::data(self.urls.clone()),
            _ => Answer::unsupported(),
        }
    }

    fn role(&mut self, ask: &Ask<'_>, name: &str) -> Answer {
        match ask.verb {
            Verb::List if self.roles.is_empty() => Answer::missing(),
            Verb::List => Answer::data(json!({"keys": self.roles.keys().collect::<Vec<_>>()})),
            _ if name.is_empty() => Answer::unsupported(),
            Verb::Read => match self.roles.get(name) {
                Some(role) => Answer::data(role.describe()),
                None => Answer::missing(),
            },
            Verb::Write => match Role::read(&ask.body) {
                Ok(role) => {
                    let said = role.describe();
                    self.roles.insert(name.to_owned(), role);
                    Answer::data(said)
                }
                Err(why) => Answer::refusal(400, &[&why]),
            },
            Verb::Delete => {
                self.roles.remove(name);
                Answer::done()
            }
            Verb::Patch => Answer::unsupported(),
        }
    }

    /// Makes an authority that signs for itself. Returns its key, or none if there is an authority already, which stays.
    fn generate_root(&mut self, body: &Value, now: Timestamp) -> Result<Option<String>, Refused> {
        let name = body["common_name"].as_str().unwrap_or_default();
        if name.is_empty() {
            return Err("the common_name field is required".to_owned());
        }
        if self.root.is_some() {
            return Ok(None);
        }
        let until = until(lasting(&body["ttl"])?.unwrap_or(self.most()).min(self.most()), now)?;
        let asked = Asked {
            common_name: name.to_owned(),
            authority: true,
            usages: vec![Usage::CertSign, Usage::CrlSign],
            from: from(now),
            until,
            ..Asked::default()
        };
        let key = Signer::generate().map_err(said)?;
        let certificate = key.sign_own(&asked).map_err(said)?;
        let key = key.pem().expose_secret().to_owned();
        self.root = Some(Root { certificate, key: key.clone() });
        Ok(Some(key))
    }

    /// What is said of the authority, with its key if that is exported; nothing if it was there before.
    fn describe_root(&self, key: Option<&str>) -> Value {
        let Some(root) = &self.root else { return Value::Null };
        let Ok(issued) = Issued::read(&root.certificate) else { return Value::Null };
        let mut data = json!({
            "certificate": root.certificate, "issuing_ca": root.certificate, "serial_number": issued.serial(),
            "expiration": issued.until().as_second(),
        });
        if let Some(key) = key {
            data["private_key"] = json!(key);
            data["private_key_type"] = json!("ec");
        }
        data
    }

    fn issue(&mut self, role: &str, body: &Value, now: Timestamp) -> Result<Value, Refused> {
        let role = self.roles.get(role).ok_or_else(|| format!("unknown role: {role}"))?;
        let asked = self.asked(role, &Wanted::read(body, None)?, now)?;
        let key = Signer::generate().map_err(said)?;
        let mut data = self.keep(|authority, certificate| authority.sign(certificate, &key, &asked))?;
        data["private_key"] = json!(key.pem().expose_secret());
        data["private_key_type"] = json!("ec");
        Ok(data)
    }

    fn sign(&mut self, role: &str, body: &Value, now: Timestamp) -> Result<Value, Refused> {
        let role = self.roles.get(role).ok_or_else(|| format!("unknown role: {role}"))?;
        let request = Request::read(body["csr"].as_str().unwrap_or_default()).map_err(said)?;
        role.takes(request.kind())?;
        let asked = self.asked(role, &Wanted::read(body, Some(&request))?, now)?;
        self.keep(|authority, certificate| authority.sign_request(certificate, &request, &asked))
    }

    /// What a role lets a certificate say.
    fn asked(&self, role: &Role, wanted: &Wanted, now: Timestamp) -> Result<Asked, Refused> {
        role.permits(wanted)?;
        let most = role.max_ttl().unwrap_or(self.most()).min(self.most());
        let until = until(wanted.ttl.or(role.ttl()).unwrap_or(LONGEST_LIFE).min(most), now)?;
        let authority = self.authority()?.1;
        let end = Issued::read(&authority.certificate).map_err(said)?.until();
        if until > end {
            return Err(format!(
                "cannot satisfy request, as TTL would result in notAfter of {until} that is beyond the expiration of the \
                 CA certificate at {end}"
            ));
        }
        Ok(Asked {
            common_name: wanted.common_name.clone(),
            dns_names: wanted.dns_names.clone(),
            addresses: wanted.addresses.clone(),
            usages: role.usages(),
            from: from(now),
            until,
            ..Asked::default()
        })
    }

    fn authority(&self) -> Result<(Signer, &Root), Refused> {
        let root = self.root.as_ref().ok_or("backend must be configured with a CA certificate/key")?;
        Ok((Signer::from_pem(&root.key).map_err(said)?, root))
    }

    /// Signs a certificate and remembers it.
    fn keep(&mut self, sign: impl FnOnce(&Signer, &str) -> Result<String, PkiError>) -> Result<Value, Refused> {
        let (signer, root) = self.authority()?;
        let certificate = sign(&signer, &root.certificate).map_err(said)?;
        let issued = Issued::read(&certificate).map_err(said)?;
        let data = json!({
            "certificate": certificate, "issuing_ca": root.certificate, "ca_chain": [root.certificate],
            "serial_number": issued.serial(), "expiration": issued.until().as_second(),
        });
        self.issued.insert(issued.serial(), certificate);
        Ok(data)
    }
}

fn answered(result: Result<Value, Refused>) -> Answer {
    match result {
        Ok(data) => Answer::data(data),
        Err(why) => Answer::refusal(400, &[&why]),
    }
}

#[expect(clippy::needless_pass_by_value, reason = "it is what map_err takes")]
fn said(error: PkiError) -> Refused {
    error.to_string()
}

fn lasting(ttl: &Value) -> Result<Option<SignedDuration>, Refused> {
    life(ttl).map_err(|()| "failed to parse ttl: a number of seconds, or such as 30m, 1h or 2d".to_owned())
}

fn from(now: Timestamp) -> Timestamp {
    let whole = Timestamp::from_second(now.as_second()).unwrap_or(now);
    whole.checked_sub(BACKDATE).unwrap_or(whole)
}

fn until(life: SignedDuration, now: Timestamp) -> Result<Timestamp, Refused> {
    let whole = Timestamp::from_second(now.as_second()).unwrap_or(now);
    whole.checked_add(life).map_err(|_| "ttl: a certificate cannot last that long".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Timestamp {
        "2026-01-01T00:00:00Z".parse().unwrap()
    }

    fn ask(engine: &mut Engine, verb: Verb, path: &str, body: Value) -> Answer {
        engine.answer(&Ask { verb, path, version: 0, body, token: None }, path, now())
    }

    #[test]
    fn a_role_issues_certificates_for_its_names_and_no_longer_than_it_may() {
        let mut engine = Engine::furnished(now());
        let mut issue = |body: Value| ask(&mut engine, Verb::Write, "issue/openstack-internal", body);
        let good =
            issue(json!({"common_name": "nova.openstack.svc", "alt_names": "api.openstack.svc", "ttl": "9999h"}));
        let data = &good.body["data"];
        let certificate = Issued::read(data["certificate"].as_str().unwrap()).unwrap();
        assert_eq!(certificate.until(), now() + SignedDuration::from_hours(720));
        assert!(certificate.belongs_to(&Signer::from_pem(data["private_key"].as_str().unwrap()).unwrap()));
        assert_eq!(data["serial_number"], certificate.serial());
        for (name, why) in [
            ("openstack.svc", "not allowed by this role"),
            ("nova.example.com", "not allowed by this role"),
            ("evilopenstack.svc", "not allowed by this role"),
            ("", "common_name field is required"),
        ] {
            let refused = issue(json!({"common_name": name}));
            assert!(refused.status == 400 && refused.body["errors"][0].as_str().unwrap().contains(why), "{refused:?}");
        }
        let unknown = ask(&mut engine, Verb::Write, "issue/nothing", json!({"common_name": "a"}));
        assert_eq!(unknown.body["errors"][0], "unknown role: nothing");
        let path = format!("cert/{}", certificate.serial());
        assert!(ask(&mut engine, Verb::Read, &path, Value::Null).is_good());
    }

    #[test]
    fn the_key_of_an_authority_leaves_the_store_once_and_only_when_asked_for() {
        let mut engine = Engine::default();
        let refused = ask(&mut engine, Verb::Write, "issue/x", json!({"common_name": "a"}));
        assert_eq!(refused.status, 400);
        let root = json!({"common_name": "Wax Root", "ttl": "100h"});
        let made = ask(&mut engine, Verb::Write, "root/generate/exported", root.clone());
        assert!(made.body["data"]["private_key"].as_str().unwrap().contains("PRIVATE KEY"));
        let again = ask(&mut engine, Verb::Write, "root/generate/exported", root.clone());
        assert_eq!(again.body["data"]["private_key"], Value::Null);
        assert_eq!(again.body["data"]["certificate"], made.body["data"]["certificate"]);
        assert!(!format!("{engine:?}").contains("PRIVATE KEY"));
        assert!(ask(&mut engine, Verb::Delete, "root", Value::Null).is_good());
        let other = ask(&mut engine, Verb::Write, "root/generate/internal", root);
        assert_ne!(other.body["data"]["certificate"], made.body["data"]["certificate"]);
        assert_eq!(other.body["data"]["private_key"], Value::Null);
    }

    #[test]
    fn nothing_outlives_its_authority() {
        let mut engine = Engine::default();
        ask(&mut engine, Verb::Write, "root/generate/internal", json!({"common_name": "Wax Root", "ttl": "10h"}));
        let role = json!({"allow_any_name": true, "key_type": "ec"});
        assert!(ask(&mut engine, Verb::Write, "roles/any", role).is_good());
        let late = ask(&mut engine, Verb::Write, "issue/any", json!({"common_name": "a.example", "ttl": "11h"}));
        assert!(late.body["errors"][0].as_str().unwrap().contains("beyond the expiration of the CA"), "{late:?}");
        assert!(ask(&mut engine, Verb::Write, "issue/any", json!({"common_name": "a.example", "ttl": "9h"})).is_good());
    }
}
