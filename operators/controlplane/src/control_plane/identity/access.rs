//! The credentials of K-ORC: a clouds.yaml with its application credential, or with the administrator's password until there is
//! one, and a second one that always has the password. Without the second, K-ORC could not delete its own user.

use std::net::{IpAddr, SocketAddr};

use c5c3_api::c5c3::ControlPlane;
use c5c3_api::openstack::Keystone;
use c5c3_kit::ownership::{MANAGED_BY, label};
use c5c3_kit::{Child, Inputs, Ref, Wait};
use c5c3_openstack::Access;
use c5c3_service::{Instance, tls};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::core::ObjectMeta;
use secrecy::ExposeSecret;
use serde_json::{Value, json};

use super::super::accounts::{ADMIN_SECRET, admin};
use super::super::cloud::Cloud;
use super::super::keystone::{admin_user, public_endpoint};

/// The Secret with the administrator's password as a clouds.yaml.
pub(super) const ADMIN_CLOUDS: &str = "k-orc-admin-clouds-yaml";

/// The user of K-ORC in Keystone.
pub(super) const KORC_USER: &str = "k-orc";

/// The keys of a clouds.yaml in a Secret, as upstream's controller reads them.
const CLOUDS: &str = "clouds.yaml";
const AUTHORITY: &str = "cacert";

/// The Secret of `spec.korc.cloudCredentialsRef`.
pub(super) fn clouds_secret(cloud: &Cloud) -> String {
    let credentials = cloud.spec.korc.as_ref().and_then(|korc| korc.cloud_credentials_ref.as_ref());
    let name = credentials.and_then(|credentials| credentials.secret_name.as_ref());
    name.map_or_else(|| "k-orc-clouds-yaml".into(), ToString::to_string)
}

/// The cloud in each of the Secrets.
pub(super) fn cloud_name(cloud: &Cloud) -> String {
    let credentials = cloud.spec.korc.as_ref().and_then(|korc| korc.cloud_credentials_ref.as_ref());
    credentials.and_then(|credentials| credentials.cloud_name.clone()).unwrap_or_else(|| "openstack".into())
}

fn secret(cloud: &Cloud, name: impl Into<String>) -> Ref {
    Ref::namespaced::<Secret>(&cloud.namespace, name)
}

fn keystone(cloud: &Cloud) -> Ref {
    Ref::namespaced::<Keystone>(&cloud.namespace, "keystone")
}

/// The Secret with the administrator's password, and its key.
fn password(cloud: &Cloud) -> (Ref, String) {
    let (name, key) = admin(cloud).unwrap_or_else(|| (ADMIN_SECRET.into(), "password".into()));
    (secret(cloud, name), key)
}

/// The Secret that K-ORC's application credential is delivered in.
fn delivered(cloud: &Cloud) -> Ref {
    secret(cloud, format!("{KORC_USER}-keystone-credentials"))
}

/// The Secret of the authority that signed Keystone's certificate.
fn authority(cloud: &Cloud, inputs: &Inputs<ControlPlane>) -> Option<Ref> {
    let found: Keystone = inputs.typed(&keystone(cloud)).ok()?;
    tls::secret(&Instance::new("keystone", &found.metadata), found.spec.tls.as_ref())
}

pub(super) fn needs(cloud: &Cloud, inputs: &Inputs<ControlPlane>) -> Vec<Ref> {
    let own = [password(cloud).0, delivered(cloud), secret(cloud, clouds_secret(cloud))];
    own.into_iter().chain(authority(cloud, inputs)).collect()
}

/// How Keystone is reached, and who says that it is Keystone.
struct Way {
    auth_url: String,
    interface: &'static str,
    authority: Option<String>,
}

/// K-ORC runs in the cluster and uses the internal interface. Where the public endpoint is an address, clients reach the very
/// same API there, also from a machine that does not know the names of the cluster; behind a name there may be a proxy.
fn way(cloud: &Cloud, inputs: &Inputs<ControlPlane>) -> Result<Way, Wait> {
    let because = "K-ORC signs in there";
    let found: Keystone = inputs.typed(&keystone(cloud)).map_err(|wait| wait.because(because))?;
    let endpoint = found.status.and_then(|status| status.service.endpoint);
    let wait = || Wait::on(&keystone(cloud)).condition("has an endpoint").now("has no endpoint yet").because(because);
    let internal = endpoint.ok_or_else(wait)?;
    let public = public_endpoint(cloud).filter(|url| is_address(url));
    let interface = if public.is_some() { "public" } else { "internal" };
    let authority = authority(cloud, inputs).map(|signed| match inputs.get(&signed) {
        Some(found) if found.data["data"].get("ca.crt").is_none() => Ok(None),
        _ => inputs.secret(&signed, "ca.crt").map(|text| Some(text.expose_secret().to_owned())),
    });
    let authority = authority.transpose().map_err(|wait| wait.because("Keystone's certificate is verified with it"))?;
    Ok(Way { auth_url: versioned(&public.unwrap_or(internal)), interface, authority: authority.flatten() })
}

fn is_address(url: &str) -> bool {
    let authority = url.split("//").nth(1).and_then(|rest| rest.split('/').next()).unwrap_or_default();
    authority.parse::<SocketAddr>().is_ok() || authority.trim_matches(['[', ']']).parse::<IpAddr>().is_ok()
}

fn versioned(url: &str) -> String {
    let url = url.trim_end_matches('/');
    if url.ends_with("/v3") { url.to_owned() } else { format!("{url}/v3") }
}

/// A clouds.yaml, and the authority beside it.
struct Clouds {
    text: String,
    authority: Option<String>,
}

impl Clouds {
    fn new(cloud: &Cloud, way: Way, auth_type: &str, mut auth: Value) -> Self {
        auth["auth_url"] = way.auth_url.into();
        let one = json!({"auth_type": auth_type, "auth": auth, "region_name": cloud.region(),
            "identity_api_version": 3, "interface": way.interface});
        let text = json!({"clouds": {cloud_name(cloud): one}});
        // JSON is YAML, and one that needs no other library to be written.
        let text = serde_json::to_string_pretty(&text).unwrap_or_default();
        Self { text, authority: way.authority }
    }

    fn child(&self, cloud: &Cloud, name: &str) -> Child {
        let value = |text: &str| ByteString(text.as_bytes().to_vec());
        let authority = self.authority.iter().map(|text| (AUTHORITY.to_owned(), value(text)));
        let data = [(CLOUDS.to_owned(), value(&self.text))].into_iter().chain(authority).collect();
        let metadata = ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some(cloud.namespace.clone()),
            ..ObjectMeta::default()
        };
        Child::new(&Secret { metadata, data: Some(data), type_: Some("Opaque".into()), ..Secret::default() })
    }
}

/// With the administrator's password.
fn administrator(cloud: &Cloud, inputs: &Inputs<ControlPlane>) -> Result<Clouds, Wait> {
    let way = way(cloud, inputs)?;
    let (secret, key) = password(cloud);
    let password = inputs.secret(&secret, &key).map_err(|wait| wait.because("K-ORC signs in with it at first"))?;
    let auth = json!({
        "username": admin_user(cloud).unwrap_or("admin"),
        "password": password.expose_secret(),
        "project_name": "admin",
        "user_domain_name": "Default",
        "project_domain_name": "Default",
    });
    Ok(Clouds::new(cloud, way, "password", auth))
}

/// With K-ORC's application credential, once it is delivered; with the administrator's password until then.
fn korc(cloud: &Cloud, inputs: &Inputs<ControlPlane>) -> Result<Clouds, Wait> {
    let value = |key: &str| inputs.secret(&delivered(cloud), key).ok();
    match (value("application_credential_id"), value("application_credential_secret")) {
        (Some(id), Some(secret)) => {
            let auth = json!({"application_credential_id": id.expose_secret(),
                "application_credential_secret": secret.expose_secret()});
            Ok(Clouds::new(cloud, way(cloud, inputs)?, "v3applicationcredential", auth))
        }
        _ => administrator(cloud, inputs),
    }
}

/// Whether a user provides the Secret of `spec.korc.cloudCredentialsRef`.
fn is_provided(cloud: &Cloud, inputs: &Inputs<ControlPlane>) -> bool {
    let found = inputs.get(&secret(cloud, clouds_secret(cloud)));
    found.is_some_and(|found| label(&found.metadata, MANAGED_BY).is_none_or(|by| by != crate::NAME))
}

/// The Secrets, or what they cannot be made without.
pub(super) fn secrets(cloud: &Cloud, inputs: &Inputs<ControlPlane>) -> Result<Vec<Child>, Wait> {
    let mut secrets = vec![administrator(cloud, inputs)?.child(cloud, ADMIN_CLOUDS)];
    if !is_provided(cloud, inputs) {
        secrets.push(korc(cloud, inputs)?.child(cloud, &clouds_secret(cloud)));
    }
    Ok(secrets)
}

/// What Keystone is asked with: what K-ORC signs in with.
pub(super) fn access(cloud: &Cloud, inputs: &Inputs<ControlPlane>) -> Result<Access, Wait> {
    let own = secret(cloud, clouds_secret(cloud));
    let (text, authority) = if is_provided(cloud, inputs) {
        let text = inputs.secret(&own, CLOUDS)?.expose_secret().to_owned();
        (text, inputs.secret(&own, AUTHORITY).ok().map(|text| text.expose_secret().to_owned()))
    } else {
        let Clouds { text, authority } = korc(cloud, inputs)?;
        (text, authority)
    };
    Access::parse(&text, &cloud_name(cloud), authority.as_deref()).map_err(|error| {
        Wait::on(&own).condition("has a good clouds.yaml").now(error.to_string()).failed("InvalidCloud")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_told_from_a_name() {
        for address in ["http://10.96.0.7:5000/v3", "https://192.0.2.7", "http://[2001:db8::1]:5000"] {
            assert!(is_address(address), "{address}");
        }
        for name in ["https://id.example.net/v3", "http://keystone.cloud.svc:5000"] {
            assert!(!is_address(name), "{name}");
        }
    }
}
