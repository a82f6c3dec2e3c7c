//! Users of a Ceph that Rook runs, as both sides see them: what they are called, and how their cluster is reached.

use c5c3_api::ext::rook::{self, CephClient, CephCluster, MON_ENDPOINTS, NAMESPACE};
use c5c3_kit::{Inputs, Ref, Wait};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::Resource;
use secrecy::{ExposeSecret, SecretString};
use std::collections::BTreeMap;

/// The Secret that a service reads its key from.
pub(crate) fn delivered(service: &str) -> String {
    format!("{service}-ceph-credentials")
}

/// The cluster.
pub(crate) fn cluster(name: impl Into<String>) -> Ref {
    Ref::namespaced::<CephCluster>(NAMESPACE, name)
}

/// A user.
pub(crate) fn user(name: &str) -> Ref {
    Ref::namespaced::<CephClient>(NAMESPACE, name)
}

/// The Secret that Rook writes the key of a user to.
pub(crate) fn source(user: &str) -> Ref {
    Ref::namespaced::<Secret>(NAMESPACE, format!("rook-ceph-client-{user}"))
}

/// What says where the monitors are.
pub(crate) fn endpoints() -> Ref {
    Ref::namespaced::<ConfigMap>(NAMESPACE, MON_ENDPOINTS)
}

/// The key of a user, once Rook has made it.
pub(crate) fn key<K: Resource>(inputs: &Inputs<K>, user: &str) -> Result<SecretString, Wait> {
    inputs.secret(&source(user), "userKey")
}

/// What a service reads: a user with its key, and how the cluster is reached.
pub(crate) fn credentials<K: Resource>(
    inputs: &Inputs<K>,
    cluster: &Ref,
    user: &str,
    key: &SecretString,
) -> Result<BTreeMap<String, ByteString>, Wait> {
    let facts: CephCluster = inputs.typed(cluster)?;
    let fsid = facts.status.and_then(|status| status.ceph?.fsid);
    let fsid = fsid.ok_or_else(|| Wait::on(cluster).condition("has an fsid").now("its status has none yet"))?;
    let endpoints = endpoints();
    let map: ConfigMap = inputs.typed(&endpoints)?;
    let monitors = rook::mon_host(map.data.as_ref().and_then(|data| data.get("data")).map_or("", String::as_str));
    if monitors.is_empty() {
        return Err(Wait::on(&endpoints).condition("names monitors").now("it names none yet"));
    }
    let values = [("key", key.expose_secret()), ("monitors", &monitors), ("userID", user), ("fsid", &fsid)];
    Ok(values.map(|(name, value)| (name.to_owned(), ByteString(value.as_bytes().to_vec()))).into())
}
