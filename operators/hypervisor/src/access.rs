//! The credential that Nova and Placement are called with, from its Secret.

use c5c3_kit::{Inputs, Ref, Wait};
use c5c3_openstack::Access;
use k8s_openapi::api::core::v1::Secret;
use kube::Resource;
use secrecy::ExposeSecret;

use crate::settings::CloudSecret;

/// The keys of the Secret, as K-ORC has them.
const CLOUDS: &str = "clouds.yaml";
const AUTHORITY: &str = "cacert";

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
    Access::parse(text.expose_secret(), &cloud.cloud, authority).map_err(|error| {
        Wait::on(&reference).condition("has a good clouds.yaml").now(error.to_string()).failed("InvalidCloud")
    })
}
