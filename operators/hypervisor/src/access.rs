//! The credential that Nova and Placement are called with, from its Secret.

use std::fmt;
use std::hash::{Hash, Hasher};

use c5c3_kit::{Inputs, Ref, Wait, hash};
use c5c3_openstack::{Cloud, Credential, clouds};
use k8s_openapi::api::core::v1::Secret;
use kube::Resource;
use secrecy::ExposeSecret;
use serde_json::json;

use crate::settings::CloudSecret;

/// The keys of the Secret, as K-ORC has them.
const CLOUDS: &str = "clouds.yaml";
const AUTHORITY: &str = "cacert";

/// A cloud and a credential for it. Two are equal if their Secrets say the same.
#[derive(Clone)]
pub(crate) struct Access {
    pub(crate) digest: String,
    pub(crate) cloud: Cloud,
    pub(crate) credential: Credential,
}

/// The Secret of a credential.
pub(crate) fn secret(cloud: &CloudSecret) -> Ref {
    Ref::namespaced::<Secret>(&cloud.namespace, &cloud.name)
}

/// The credential in a Secret, or the wait for it.
pub(crate) fn read<K: Resource>(inputs: &Inputs<K>, cloud: &CloudSecret) -> Result<Access, Wait> {
    let because = "Nova and Placement are called with it";
    let reference = secret(cloud);
    let text = inputs.secret(&reference, CLOUDS).map_err(|wait| wait.because(because))?;
    let authority = inputs.secret(&reference, AUTHORITY).ok();
    let authority = authority.as_ref().map(ExposeSecret::expose_secret);
    let (parsed, credential) = clouds::parse(text.expose_secret(), &cloud.cloud, authority).map_err(|error| {
        Wait::on(&reference).condition("has a good clouds.yaml").now(error.to_string()).failed("InvalidCloud")
    })?;
    let digest = hash::of_json(&json!([text.expose_secret(), cloud.cloud, authority]));
    Ok(Access { digest, cloud: parsed, credential })
}

impl PartialEq for Access {
    fn eq(&self, other: &Self) -> bool {
        self.digest == other.digest
    }
}

impl Eq for Access {}

impl Hash for Access {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.digest.hash(state);
    }
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Access")
    }
}
