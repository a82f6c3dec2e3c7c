//! What a certificate may say: the names, the keys and the life that a role permits, and what a request wants.

use std::net::IpAddr;

use c5c3_auth::{KeyKind, Request, Usage};
use jiff::SignedDuration;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::super::vault::words;
use super::{Refused, lasting};

/// Fields that a role may have, with what is assumed of those that say nothing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "the API of OpenBao has these switches")]
pub(super) struct Role {
    allowed_domains: Vec<String>,
    allow_bare_domains: bool,
    allow_subdomains: bool,
    allow_any_name: bool,
    allow_localhost: bool,
    allow_ip_sans: bool,
    require_cn: bool,
    server_flag: bool,
    client_flag: bool,
    key_type: String,
    ttl: Option<i64>,
    max_ttl: Option<i64>,
}

/// What can be said of a role and changes nothing here: it concerns only what is not made here.
const ACCEPTED: &[&str] = &["key_bits", "key_usage", "ext_key_usage", "no_store", "issuer_ref", "not_before_duration"];

/// What a role says and this can do.
const KNOWN: &[&str] = &[
    "allowed_domains",
    "allow_bare_domains",
    "allow_subdomains",
    "allow_any_name",
    "allow_localhost",
    "allow_ip_sans",
    "require_cn",
    "server_flag",
    "client_flag",
    "key_type",
    "ttl",
    "max_ttl",
];

impl Role {
    /// From the body of a request. What cannot be enforced is refused: it could be what makes the role safe.
    pub(super) fn read(body: &Value) -> Result<Self, Refused> {
        let fields = body.as_object().ok_or("an object is expected")?;
        let is_set = |value: &Value| !matches!(value, Value::Null) && value != &json!("") && value != &json!([]);
        for (field, value) in fields.iter().filter(|(_, value)| is_set(value)) {
            if !KNOWN.contains(&field.as_str()) && !ACCEPTED.contains(&field.as_str()) && field != "name" {
                return Err(format!("{field} = {value} is not supported by this store"));
            }
        }
        let is = |field: &str, default: bool| match &body[field] {
            Value::Bool(is) => *is,
            Value::String(text) => text == "true",
            _ => default,
        };
        let key_type = body["key_type"].as_str().filter(|kind| !kind.is_empty()).unwrap_or("ec").to_owned();
        let bits = &body["key_bits"];
        if !matches!(key_type.as_str(), "ec" | "any") || !(bits.is_null() || bits == 0 || bits == 256) {
            return Err(
                "this store makes EC keys of 256 bits: set key_type to ec (or any, for sign) and key_bits to 256"
                    .into(),
            );
        }
        let seconds = |field: &str| lasting(&body[field]).map(|life| life.map(|life| life.as_secs()));
        Ok(Self {
            allowed_domains: words(&body["allowed_domains"]),
            allow_bare_domains: is("allow_bare_domains", false),
            allow_subdomains: is("allow_subdomains", false),
            allow_any_name: is("allow_any_name", false),
            allow_localhost: is("allow_localhost", true),
            allow_ip_sans: is("allow_ip_sans", true),
            require_cn: is("require_cn", true),
            server_flag: is("server_flag", true),
            client_flag: is("client_flag", true),
            key_type,
            ttl: seconds("ttl")?,
            max_ttl: seconds("max_ttl")?,
        })
    }

    pub(super) fn describe(&self) -> Value {
        let mut said = json!(self);
        said["ttl"] = json!(self.ttl.unwrap_or(0));
        said["max_ttl"] = json!(self.max_ttl.unwrap_or(0));
        said["key_bits"] = json!(256);
        said
    }

    pub(super) fn ttl(&self) -> Option<SignedDuration> {
        self.ttl.map(SignedDuration::from_secs)
    }

    pub(super) fn max_ttl(&self) -> Option<SignedDuration> {
        self.max_ttl.map(SignedDuration::from_secs)
    }

    pub(super) fn usages(&self) -> Vec<Usage> {
        let mut usages = vec![Usage::DigitalSignature, Usage::KeyEncipherment];
        usages.extend(self.server_flag.then_some(Usage::ServerAuth));
        usages.extend(self.client_flag.then_some(Usage::ClientAuth));
        usages
    }

    /// Whether a key of this kind may be certified.
    pub(super) fn takes(&self, kind: KeyKind) -> Result<(), Refused> {
        if self.key_type == "any" || kind == KeyKind::Ec {
            return Ok(());
        }
        Err(format!("role requires keys of type {}", self.key_type))
    }

    /// Whether it may say all that is wanted.
    pub(super) fn permits(&self, wanted: &Wanted) -> Result<(), Refused> {
        if wanted.common_name.is_empty() && self.require_cn {
            return Err(
                "the common_name field is required, or must be provided in a CSR, unless \"require_cn\" is set to \
                false"
                    .to_owned(),
            );
        }
        if !wanted.common_name.is_empty() && !self.permits_name(&wanted.common_name) {
            return Err(format!("common name {} not allowed by this role", wanted.common_name));
        }
        if let Some(name) = wanted.dns_names.iter().find(|name| !self.permits_name(name)) {
            return Err(format!("subject alternate name {name} not allowed by this role"));
        }
        if !wanted.addresses.is_empty() && !self.allow_ip_sans {
            return Err("IP Subject Alternative Names are not allowed in this role".to_owned());
        }
        Ok(())
    }

    fn permits_name(&self, name: &str) -> bool {
        let host = name.strip_prefix("*.").unwrap_or(name).to_lowercase();
        let is_host = !host.is_empty()
            && host.split('.').all(|label| {
                let inner = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
                !label.is_empty() && label.len() <= 63 && label.chars().all(inner) && !label.starts_with('-')
            });
        if !is_host {
            return false;
        }
        let is_local = matches!(name, "localhost" | "localdomain");
        let in_domain = |domain: &String| {
            let domain = domain.to_lowercase();
            let below = || host.strip_suffix(&domain).is_some_and(|rest| rest.ends_with('.'));
            // A wildcard of the domain itself stands for subdomains.
            (self.allow_bare_domains && name.eq_ignore_ascii_case(&domain))
                || (self.allow_subdomains && (below() || (host == domain && name.starts_with("*."))))
        };
        self.allow_any_name || (self.allow_localhost && is_local) || self.allowed_domains.iter().any(in_domain)
    }
}

/// What a certificate is to say.
#[derive(Debug)]
pub(super) struct Wanted {
    pub(super) common_name: String,
    pub(super) dns_names: Vec<String>,
    pub(super) addresses: Vec<IpAddr>,
    pub(super) ttl: Option<SignedDuration>,
}

impl Wanted {
    /// From the body of a request, and the names in a certificate request, if there is one, which go before.
    pub(super) fn read(body: &Value, request: Option<&Request>) -> Result<Self, Refused> {
        let named = request.map(Request::common_name).filter(|name| !name.is_empty());
        let common_name = named.or(body["common_name"].as_str()).unwrap_or_default().to_owned();
        let (mut dns_names, mut addresses) = (Vec::new(), Vec::new());
        if body["exclude_cn_from_sans"] != true && !common_name.is_empty() {
            dns_names.push(common_name.clone());
        }
        if let Some(request) = request {
            dns_names.extend(request.dns_names().map(str::to_owned));
            addresses.extend(request.addresses());
        } else {
            dns_names.extend(words(&body["alt_names"]));
            for address in words(&body["ip_sans"]) {
                let wrong = |_| format!("{address:?} is not a valid IP address");
                addresses.push(address.parse().map_err(wrong)?);
            }
        }
        let mut seen = std::collections::BTreeSet::new();
        dns_names.retain(|name| seen.insert(name.clone()));
        Ok(Self { common_name, dns_names, addresses, ttl: lasting(&body["ttl"])? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_permitted_by_domain() {
        let role = |body: Value| Role::read(&body).unwrap();
        let below = role(json!({"allowed_domains": "web.example", "allow_subdomains": true, "allow_localhost": false}));
        for (name, wanted) in [
            ("a.web.example", true),
            ("*.web.example", true),
            ("*.a.web.example", true),
            ("web.example", false),
            ("cobweb.example", false),
            ("a..web.example", false),
            ("a b.web.example", false),
            ("localhost", false),
        ] {
            assert_eq!(below.permits_name(name), wanted, "{name}");
        }
        let bare = role(json!({"allowed_domains": ["web.example"], "allow_bare_domains": true}));
        assert!(
            bare.permits_name("web.example") && bare.permits_name("localhost") && !bare.permits_name("a.web.example")
        );
    }

    #[test]
    fn a_role_that_cannot_be_enforced_is_refused() {
        for (body, why) in [
            (json!({"key_type": "rsa"}), "EC keys"),
            (json!({"key_type": "ec", "key_bits": 384}), "EC keys"),
            (json!({"allow_glob_domains": true}), "allow_glob_domains"),
            (json!({"max_ttl": "soon"}), "failed to parse"),
        ] {
            let refused = Role::read(&body).unwrap_err();
            assert!(refused.contains(why), "{refused}");
        }
        assert!(Role::read(&json!({"allowed_uri_sans": [], "allowed_domains": ["a"]})).is_ok());
    }
}
