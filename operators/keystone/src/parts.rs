//! A Keystone object as the parts that it is made of: which database, which keys, which addresses. Nothing is read here.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use c5c3_api::blocks::{CronSchedule, DeletionPolicy, Tls};
use c5c3_api::openstack::{Bootstrap, Keystone, KeystoneSpec};
use c5c3_kit::{Probe, Ref};
use c5c3_service::backup::Store;
use c5c3_service::cache::{self, Servers};
use c5c3_service::catalogue::Catalogue;
use c5c3_service::config::Additions;
use c5c3_service::database::{Address, Database};
use c5c3_service::image::{self, Version};
use c5c3_service::network::Reach;
use c5c3_service::upgrade::Progress;
use c5c3_service::wsgi::Wsgi;
use c5c3_service::{Instance, api, tls};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Secret;

use crate::config::{FOLDER, PROCESSES, THREADS};
use crate::filters;
use crate::keys::Keep;
use crate::rotation::Repository;

/// The service.
pub(crate) const SERVICE: &str = "keystone";
/// The port of its API.
pub(crate) const PORT: i32 = 5000;
/// The path of its version.
pub(crate) const VERSION: &str = "/v3";

/// How long a token is valid, and how much longer services may look at one, unless a spec says otherwise.
const EXPIRATION: u64 = 3600;
const ALLOW_EXPIRED: u64 = 172_800;

/// Keystone itself keeps no more keys for stored credentials.
const MOST_CREDENTIAL_KEYS: usize = 3;

/// The parts of a Keystone.
#[derive(Debug)]
pub(crate) struct Parts<'a> {
    pub(crate) spec: &'a KeystoneSpec,
    pub(crate) instance: Instance,
    pub(crate) database: Database,
    pub(crate) cache: Servers,
    pub(crate) store: Store,
    pub(crate) image: String,
    pub(crate) bootstrap: Bootstrap,
    pub(crate) progress: Progress,
    credential_schedule: CronSchedule,
}

impl<'a> Parts<'a> {
    pub(crate) fn new(keystone: &'a Keystone) -> Self {
        let spec = &keystone.spec;
        let instance = Instance::new(SERVICE, &keystone.metadata);
        let status = keystone.status.as_ref();
        Self {
            database: Database::new(&instance, spec.database.as_ref()),
            cache: Servers::new(&instance, spec.cache.as_ref()),
            store: Store::new(&instance, spec.secret_store_ref.as_ref()),
            image: image::of(SERVICE, spec.image.as_ref()),
            bootstrap: spec.bootstrap.clone().unwrap_or_default(),
            progress: Progress {
                installed: status.and_then(|status| status.installed_release.clone()),
                target: status.and_then(|status| status.target_release.clone()),
                phase: status.and_then(|status| status.upgrade_phase.clone()),
            },
            credential_schedule: spec.credential_keys.clone().unwrap_or_default().rotation_schedule,
            instance,
            spec,
        }
    }

    /// The tag that is wanted; none for an image by digest.
    pub(crate) fn tag(&self) -> Option<String> {
        image::tag(SERVICE, self.spec.image.as_ref())
    }

    /// The options and policies of the wanted release, if they are known.
    pub(crate) fn catalogue(&self) -> Option<&'static Catalogue> {
        let release = Version::of(&self.tag()?)?.release(SERVICE)?;
        Catalogue::of(SERVICE, &release)
    }

    pub(crate) fn additions(&self) -> Additions<'a> {
        Additions { plugins: &self.spec.plugins, extra: &self.spec.extra_config }
    }

    /// How long after it was made a token may still have to be read.
    pub(crate) fn token_life(&self) -> Duration {
        let option = |name: &str, default: u64| {
            self.additions().get("token", name).and_then(|value| value.parse().ok()).unwrap_or(default)
        };
        Duration::from_secs(option("expiration", EXPIRATION) + option("allow_expired_window", ALLOW_EXPIRED))
    }

    /// Whether keys outlive the Keystone, as its database does.
    fn keeps_keys(&self) -> bool {
        self.spec.deletion_policy == DeletionPolicy::Retain
    }

    pub(crate) fn fernet(&self) -> Repository<'_> {
        let most = usize::try_from(self.spec.fernet.max_active_keys.get()).unwrap_or(3);
        Repository {
            instance: &self.instance,
            purpose: "fernet",
            schedule: &self.spec.fernet.rotation_schedule,
            scheduling: self.spec.scheduling.as_ref(),
            keep: Keep { most, life: self.token_life() },
            hold: None,
            store: &self.store,
            kept: self.keeps_keys(),
        }
    }

    /// Nothing is read with an old key once everything is encrypted anew, before which there is no new one.
    pub(crate) fn credential(&self, hold: Option<String>) -> Repository<'_> {
        Repository {
            instance: &self.instance,
            purpose: "credential",
            schedule: &self.credential_schedule,
            scheduling: self.spec.scheduling.as_ref(),
            keep: Keep { most: MOST_CREDENTIAL_KEYS, life: Duration::ZERO },
            hold,
            store: &self.store,
            kept: self.keeps_keys(),
        }
    }

    pub(crate) fn admin_secret(&self) -> (Ref, String) {
        let given = self.bootstrap.admin_password_secret_ref.as_ref();
        let name = given.map_or_else(|| "keystone-admin-credentials".to_owned(), |secret| secret.name.to_string());
        let key = given.map_or_else(|| "password".to_owned(), |secret| secret.key.to_string());
        (Ref::namespaced::<Secret>(&self.instance.namespace, name), key)
    }

    pub(crate) fn tls(&self) -> Option<&'a Tls> {
        self.spec.tls.as_ref().filter(|tls| tls.enabled)
    }

    pub(crate) fn tls_secret(&self) -> Option<Ref> {
        tls::secret(&self.instance, self.tls())
    }

    pub(crate) fn deployment(&self) -> Ref {
        Ref::namespaced::<Deployment>(&self.instance.namespace, self.instance.named(api::COMPONENT))
    }

    /// Where the API answers within the cluster.
    pub(crate) fn endpoint(&self) -> String {
        let scheme = if self.tls().is_some() { "https" } else { "http" };
        format!("{scheme}://{}:{PORT}{VERSION}", self.instance.host())
    }

    /// Where it answers from outside, as the catalogue says.
    pub(crate) fn public_endpoint(&self) -> String {
        let given = self.bootstrap.public_endpoint.as_ref().map(ToString::to_string);
        let routed = self.spec.gateway.as_ref().map(|route| format!("https://{}{}", route.hostname, route.path));
        let Some(url) = given.or(routed) else { return self.endpoint() };
        let url = url.trim_end_matches('/');
        if url.ends_with(VERSION) { url.to_owned() } else { format!("{url}{VERSION}") }
    }

    /// The address that clients use from outside, if they use one. It is that of a Service, and its certificate has to hold
    /// for it; behind a name there may be somebody else, who has a certificate.
    pub(crate) fn public_address(&self) -> Option<IpAddr> {
        let endpoint = self.bootstrap.public_endpoint.as_ref()?.to_string();
        let authority = endpoint.strip_prefix("https://")?.split('/').next()?;
        let address = authority.parse::<SocketAddr>().map(|address| address.ip());
        address.or_else(|_| authority.trim_matches(['[', ']']).parse()).ok()
    }

    /// The question whether the API lives.
    pub(crate) fn probe(&self) -> Probe {
        Probe {
            namespace: self.instance.namespace.clone(),
            service: self.instance.name.clone(),
            port: PORT,
            tls: self.tls().is_some(),
            path: VERSION.into(),
        }
    }

    pub(crate) fn wsgi(&self) -> Wsgi<'static> {
        Wsgi {
            service: SERVICE,
            application: "keystone.wsgi.api:application",
            port: PORT,
            path: VERSION,
            folder: FOLDER,
            processes: PROCESSES,
            threads: THREADS,
            hooks: filters::hooks(&self.spec.middleware),
            warm: &["warm:policies"],
            tls: self.tls().is_some(),
        }
    }

    /// What the pods have to reach.
    pub(crate) fn reaches(&self, database: &Address, cache: &[String]) -> Vec<Reach> {
        let port =
            |server: &String| server.rsplit_once(':').and_then(|(_, port)| port.parse().ok()).unwrap_or(cache::PORT);
        let mut reaches =
            vec![Reach { namespace: self.database.namespace().map(ToOwned::to_owned), port: database.port }];
        for port in cache.iter().map(port) {
            let reach = Reach { namespace: self.cache.namespace().map(ToOwned::to_owned), port };
            if !reaches.contains(&reach) {
                reaches.push(reach);
            }
        }
        reaches
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_certificate_holds_for_the_address_that_clients_use_and_not_for_names_of_others() {
        let address = |endpoint: &str| {
            let keystone = json!({
                "apiVersion": "keystone.openstack.c5c3.io/v1alpha1", "kind": "Keystone",
                "metadata": {"name": "gate", "namespace": "cloud"},
                "spec": {"bootstrap": {"publicEndpoint": endpoint}},
            });
            let keystone: Keystone = serde_json::from_value(keystone).unwrap();
            Parts::new(&keystone).public_address().map(|address| address.to_string())
        };
        assert_eq!(address("https://10.96.3.4:5000/v3").as_deref(), Some("10.96.3.4"));
        assert_eq!(address("https://192.0.2.7").as_deref(), Some("192.0.2.7"));
        assert_eq!(address("https://[2001:db8::7]:5000").as_deref(), Some("2001:db8::7"));
        assert_eq!(address("https://identity.example.net"), None);
        assert_eq!(address("http://10.96.3.4:5000/v3"), None);
    }
}
