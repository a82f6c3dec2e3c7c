//! Where pods of a service agree on who does what: a Valkey, by its binding.

use c5c3_kit::{Inputs, Ref, Wait};
use k8s_openapi::api::core::v1::Secret;
use kube::Resource;
use secrecy::{ExposeSecret, SecretString};

use crate::instance::Instance;
use crate::network::Egress;
use crate::pod::Mount;

/// Where the CA certificate of the Valkey is mounted.
const TLS: &str = "/etc/coordination-tls";

/// The port of a Valkey that names none.
const PORT: i32 = 6379;

/// The binding of a Valkey.
#[derive(Clone, Debug)]
pub struct Coordinator {
    secret: Ref,
}

/// A Valkey whose address and password are known.
#[derive(Clone, Debug)]
pub struct Coordination {
    /// The URL for `[coordination] backend_url`.
    pub url: SecretString,
    secret: String,
    tls: bool,
    port: i32,
}

impl Coordinator {
    /// The binding in a Secret of the instance's namespace.
    pub fn new(instance: &Instance, secret: &str) -> Self {
        Self { secret: Ref::namespaced::<Secret>(&instance.namespace, secret) }
    }

    /// What has to be read.
    pub(crate) fn needs(&self) -> Ref {
        self.secret.clone()
    }

    /// The address and the password, or the wait for them.
    pub(crate) fn connect<K: Resource>(&self, inputs: &Inputs<K>) -> Result<Coordination, Wait> {
        let because =
            |wait: Wait| wait.because("pods agree there on who changes a volume").with_reason("WaitingForCoordination");
        let value = |key: &str| inputs.secret(&self.secret, key).map(|value| value.expose_secret().trim().to_owned());
        let optional = |key: &str| value(key).ok().filter(|value| !value.is_empty());
        let password = value("password").map_err(because)?;
        let tls = optional("tlsEnabled").as_deref() == Some("true");
        let primary = optional("primaryName");
        let (host, port) =
            if primary.is_some() { ("sentinelHost", "sentinelPort") } else { ("primaryHost", "primaryPort") };
        let (host, port) = (value(host).map_err(because)?, optional(port));
        let port = port.and_then(|port| port.parse().ok()).unwrap_or(PORT);
        // The client takes the password as it is in the URL.
        if !password.chars().chain(host.chars()).all(|one| one.is_ascii_alphanumeric() || "-._~".contains(one)) {
            let wait = Wait::on(&self.secret).condition("can be written to a URL");
            let now = "has a password or an address with characters other than letters, digits and -._~";
            return Err(because(wait.now(now)).failed("Malformed"));
        }
        let mut options = Vec::new();
        if let Some(primary) = &primary {
            options.extend([format!("sentinel={primary}"), format!("sentinel_password={password}")]);
            options.extend(tls.then(|| "sentinel_ssl=true".to_owned()));
        }
        if tls {
            options.extend(["ssl=true".to_owned(), format!("ssl_ca_certs={TLS}/ca.crt")]);
        }
        let query = if options.is_empty() { String::new() } else { format!("?{}", options.join("&")) };
        let url = format!("redis://:{password}@{host}:{port}{query}").into();
        Ok(Coordination { url, secret: self.secret.name.clone(), tls, port })
    }
}

impl Coordination {
    /// The certificate that pods mount.
    pub(crate) fn mounts(&self) -> Option<Mount> {
        self.tls.then(|| Mount::secret_items("coordination-ca", &self.secret, TLS, &[("caData", "ca.crt")]))
    }

    /// What pods have to reach: Sentinel, and the servers that it names.
    pub(crate) fn egress(&self) -> Vec<Egress> {
        let mut ports = vec![self.port, PORT];
        ports.dedup();
        ports.into_iter().map(|port| Egress::new(None, port)).collect()
    }
}

#[cfg(test)]
mod tests {
    use c5c3_kit::inputs::Found;
    use k8s_openapi::ByteString;
    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::json;

    use super::*;

    fn connect(binding: &[(&str, &str)]) -> Result<Coordination, Wait> {
        let instance = Instance { service: "kestrel", name: "gate".into(), namespace: "cloud".into() };
        let coordinator = Coordinator::new(&instance, "valkey-valkey-binding");
        let mut inputs = Inputs::new(ConfigMap::default(), jiff::Timestamp::UNIX_EPOCH);
        let data: std::collections::BTreeMap<&str, ByteString> =
            binding.iter().map(|(key, value)| (*key, ByteString(value.as_bytes().to_vec()))).collect();
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "any"}, "data": data});
        inputs.insert(coordinator.needs(), Found::Object(Box::new(serde_json::from_value(secret).unwrap())));
        coordinator.connect(&inputs)
    }

    #[test]
    fn a_binding_with_sentinel_and_tls_and_one_without_are_urls() {
        let sentinel = connect(&[
            ("password", "s3cret"),
            ("tlsEnabled", "true"),
            ("sentinelHost", "valkey.cloud.svc"),
            ("sentinelPort", "26379"),
            ("primaryName", "myprimary"),
        ]);
        let sentinel = sentinel.unwrap();
        assert_eq!(
            sentinel.url.expose_secret(),
            "redis://:s3cret@valkey.cloud.svc:26379?sentinel=myprimary&sentinel_password=s3cret&sentinel_ssl=true\
             &ssl=true&ssl_ca_certs=/etc/coordination-tls/ca.crt"
        );
        assert_eq!((sentinel.mounts().is_some(), sentinel.egress().len()), (true, 2));
        let plain = connect(&[("password", "s3cret"), ("primaryHost", "valkey-primary"), ("primaryPort", "6379")]);
        let plain = plain.unwrap();
        assert_eq!(plain.url.expose_secret(), "redis://:s3cret@valkey-primary:6379");
        assert_eq!((plain.mounts().is_some(), plain.egress().len()), (false, 1));
    }

    #[test]
    fn what_is_missing_and_what_no_url_can_carry_is_said() {
        assert_eq!(connect(&[("password", "s3cret")]).unwrap_err().reason(), "WaitingForCoordination");
        let wrong = connect(&[("password", "a/b"), ("primaryHost", "valkey-primary")]).unwrap_err();
        assert!(wrong.message(None).contains("letters, digits"), "{}", wrong.message(None));
    }
}
