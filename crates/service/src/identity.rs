//! How a service authenticates to Keystone, and validates the tokens of its clients: with an application credential.

use c5c3_api::blocks::{KeystoneAuth, SecretRef};
use c5c3_api::openstack::Keystone;
use c5c3_kit::ini::{Ini, IniError};
use c5c3_kit::{Inputs, KindRef, Ref, Wait};
use k8s_openapi::api::core::v1::Secret;
use kube::Resource;
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};

use crate::instance::Instance;
use crate::network::Egress;
use crate::parts::published;
use crate::pod::Mount;

/// The version of the identity API.
const VERSION: &str = "/v3";

/// Where Keystone's CA certificate is mounted.
const TLS: &str = "/etc/keystone-tls";

/// Keystone's own port, for a URL that names none.
const PORT: i32 = 5000;

/// The Keystone of a service, and the service's credential for it.
#[derive(Clone, Debug)]
pub struct Identity {
    auth_url: Option<String>,
    keystone: Ref,
    credential: Ref,
    region: Option<String>,
    ca: Option<(Ref, String)>,
}

/// A Keystone whose address and credential are known.
#[derive(Clone, Debug)]
pub struct Access {
    /// Where the service asks Keystone.
    pub auth_url: String,
    /// Where clients are sent that have no token.
    pub public_url: String,
    /// The region whose endpoints are used.
    pub region: Option<String>,
    id: SecretString,
    secret: SecretString,
    ca: Option<(Ref, String)>,
    namespace: Option<String>,
}

impl Identity {
    /// The Keystone of a spec, or the object `keystone` of the namespace; the credential of the spec, or the Secret
    /// `<service>-keystone-credentials`.
    pub fn new(instance: &Instance, spec: Option<&KeystoneAuth>) -> Self {
        let secret = |name: String| Ref::namespaced::<Secret>(&instance.namespace, name);
        let given = spec.and_then(|spec| spec.app_credential_ref.as_ref()).and_then(|credential| credential.secret());
        let ca = |ca: &SecretRef| {
            (secret(ca.name.to_string()), ca.key.as_ref().map_or_else(|| "ca.crt".into(), ToString::to_string))
        };
        Self {
            auth_url: spec.and_then(|spec| spec.auth_url.as_ref()).map(ToString::to_string),
            keystone: Ref::namespaced::<Keystone>(&instance.namespace, "keystone"),
            credential: secret(
                given.map_or_else(|| format!("{}-keystone-credentials", instance.service), ToString::to_string),
            ),
            region: spec.and_then(|spec| spec.region.as_ref()).map(ToString::to_string),
            ca: spec.and_then(|spec| spec.ca_secret_ref.as_ref()).map(ca),
        }
    }

    /// The kinds that [`Self::needs`] names.
    pub fn reads() -> [KindRef; 1] {
        [KindRef::of::<Keystone>()]
    }

    /// What has to be read.
    pub fn needs<K: Resource>(&self, inputs: &Inputs<K>) -> Vec<Ref> {
        let keystone = self.auth_url.is_none().then(|| self.keystone.clone());
        let ca = self.authority(inputs).map(|(ca, _)| ca);
        [Some(self.credential.clone()), keystone, ca].into_iter().flatten().collect()
    }

    /// The Secret of the CA that Keystone's certificate is from: the spec's, or the one that its certificate came with.
    fn authority<K: Resource>(&self, inputs: &Inputs<K>) -> Option<(Ref, String)> {
        let own = || {
            let keystone: Keystone = inputs.typed(&self.keystone).ok().filter(|_| self.auth_url.is_none())?;
            let instance = Instance::new("keystone", &keystone.metadata);
            let secret = crate::tls::secret(&instance, keystone.spec.tls.as_ref())?;
            // A certificate of a public authority comes without one: then it is the system's that is trusted.
            let lacks = inputs.get(&secret).is_some_and(|found| found.data["data"].get("ca.crt").is_none());
            (!lacks).then(|| (secret, "ca.crt".to_owned()))
        };
        self.ca.clone().or_else(own)
    }

    /// Where Keystone is and with what to authenticate there, or the waits for both.
    pub fn access<K: Resource>(&self, inputs: &Inputs<K>) -> Result<Access, Vec<Wait>> {
        let because = "the service authenticates to Keystone with it";
        let value = |key: &str| {
            let wait = inputs.secret(&self.credential, key);
            wait.map_err(|wait| wait.because(because).with_reason("WaitingForKeystoneCredentials"))
        };
        let (id, secret) = (value("application_credential_id"), value("application_credential_secret"));
        let urls = self.urls(inputs);
        let ca = self.authority(inputs);
        let trusted = ca.as_ref().map(|(ca, key)| {
            let because = "Keystone's certificate is verified with it";
            inputs.secret(ca, key).map_err(|wait| wait.because(because).with_reason("WaitingForKeystoneCertificate"))
        });
        match (id, secret, urls, trusted.transpose()) {
            (Ok(id), Ok(secret), Ok((auth_url, public_url)), Ok(_)) => {
                let namespace = self.auth_url.is_none().then(|| self.keystone.namespace.clone()).flatten();
                Ok(Access { auth_url, public_url, region: self.region.clone(), id, secret, ca, namespace })
            }
            (id, secret, urls, trusted) => {
                let mut waits: Vec<Wait> =
                    [id.err(), secret.err(), urls.err(), trusted.err()].into_iter().flatten().collect();
                waits.dedup();
                Err(waits)
            }
        }
    }

    /// Where the service and where its clients find Keystone.
    fn urls<K: Resource>(&self, inputs: &Inputs<K>) -> Result<(String, String), Wait> {
        if let Some(url) = &self.auth_url {
            return Ok((versioned(url), versioned(url)));
        }
        let because = "the service validates every request's token there";
        let keystone: Keystone =
            inputs.typed(&self.keystone).map_err(|wait| wait.because(because).with_reason("WaitingForKeystone"))?;
        let endpoint = keystone.status.as_ref().and_then(|status| status.service.endpoint.clone());
        let wait = || Wait::on(&self.keystone).condition("has an endpoint").now("has no endpoint yet").because(because);
        let endpoint = endpoint.ok_or_else(|| wait().with_reason("WaitingForKeystone"))?;
        let public = published(&keystone).unwrap_or_else(|| endpoint.clone());
        Ok((versioned(&endpoint), versioned(&public)))
    }
}

impl Access {
    /// `[keystone_authtoken]`: how tokens of clients are validated, and cached on these servers.
    pub fn authtoken(&self, conf: &mut Ini, cache: &[String]) -> Result<(), IniError> {
        const SECTION: &str = "keystone_authtoken";
        self.credential(conf, SECTION)?;
        conf.set(SECTION, "www_authenticate_uri", self.public_url.as_str())?;
        conf.set(SECTION, "service_token_roles", "service")?;
        conf.set(SECTION, "service_token_roles_required", true)?;
        if !cache.is_empty() {
            conf.set(SECTION, "memcached_servers", cache)?;
            // A server that is gone is a miss for python-memcached. One that is silent costs a request this many seconds, and is
            // asked again after that many: 3 and 300 unless they are set.
            conf.set(SECTION, "memcache_pool_socket_timeout", 1)?;
            conf.set(SECTION, "memcache_pool_dead_retry", 30)?;
        }
        Ok(())
    }

    /// `[service_user]`: the token that is sent beside a client's, so that long requests outlive the client's token.
    pub fn service_user(&self, conf: &mut Ini) -> Result<(), IniError> {
        conf.set("service_user", "send_service_user_token", true)?;
        self.credential(conf, "service_user")
    }

    /// A section by which a service is a client of another: `[placement]`, `[neutron]`.
    pub fn client(&self, conf: &mut Ini, section: &str) -> Result<(), IniError> {
        self.credential(conf, section)?;
        conf.set(section, "valid_interfaces", "internal")?;
        Ok(())
    }

    /// How to authenticate, as options of a section that has no others of a client.
    pub fn credential(&self, conf: &mut Ini, section: &str) -> Result<(), IniError> {
        conf.set(section, "auth_type", "v3applicationcredential")?;
        conf.set(section, "auth_url", self.auth_url.as_str())?;
        conf.set(section, "application_credential_id", self.id.clone())?;
        conf.set(section, "application_credential_secret", self.secret.clone())?;
        if let Some(region) = &self.region {
            conf.set(section, "region_name", region.as_str())?;
        }
        if let Some(file) = self.ca_file() {
            conf.set(section, "cafile", file)?;
        }
        Ok(())
    }

    /// The file with the certificate that the APIs of the cloud are verified by, if they speak TLS.
    pub fn ca_file(&self) -> Option<String> {
        self.ca.as_ref().map(|(_, key)| format!("{TLS}/{key}"))
    }

    /// The id of the credential. It is not secret.
    pub fn credential_id(&self) -> &str {
        self.id.expose_secret()
    }

    /// The certificate that pods mount.
    pub fn mounts(&self) -> Vec<Mount> {
        let ca = self.ca.iter();
        ca.map(|(secret, key)| Mount::secret_items("keystone-ca", &secret.name, TLS, &[(key, key)])).collect()
    }

    /// What pods have to reach.
    pub fn egress(&self) -> Egress {
        let authority = self.auth_url.split("//").nth(1).and_then(|rest| rest.split('/').next()).unwrap_or_default();
        let explicit = authority.rsplit_once(':').and_then(|(_, port)| port.parse().ok());
        let by_scheme = || match (&self.namespace, self.auth_url.starts_with("https")) {
            (Some(_), _) => PORT,
            (None, true) => 443,
            (None, false) => 80,
        };
        Egress::new(self.namespace.clone(), explicit.unwrap_or_else(by_scheme))
    }

    /// The settings of `auth.py`, which gets a token with the credential.
    pub(crate) fn check_settings(&self) -> SecretString {
        self.settings().to_string().into()
    }

    /// The same as JSON, which is secret.
    pub fn settings(&self) -> Value {
        json!({
            "auth_url": self.auth_url,
            "application_credential_id": self.id.expose_secret(),
            "application_credential_secret": self.secret.expose_secret(),
            "verify": self.ca_file(),
        })
    }
}

/// The URL of the identity API's version.
fn versioned(url: &str) -> String {
    let url = url.trim_end_matches('/');
    if url.ends_with(VERSION) { url.to_owned() } else { format!("{url}{VERSION}") }
}
