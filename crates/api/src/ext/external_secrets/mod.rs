//! Kinds of the External Secrets operator (`external-secrets.io`): stores, what is read from them, what is written to
//! them.
//!
//! Only PushSecret is `v1alpha1`; the others are `v1`, and their `v1beta1` is served no longer.

use serde::{Deserialize, Serialize};

mod external_secret;
mod push_secret;
mod store;

pub use external_secret::{
    CreationPolicy, Data, DataFrom, DeletionPolicy, ExternalSecret, ExternalSecretSpec, ExternalSecretStatus, Extract,
    RefreshPolicy, RemoteRef, SourceRef, Target, Template, TemplateMetadata,
};
pub use push_secret::{
    Match, PushConversion, PushData, PushDeletionPolicy, PushRemoteRef, PushSecret, PushSecretSpec, PushSecretStatus,
    Selector, UpdatePolicy,
};
pub use store::{
    AppRole, CaProvider, CaProviderKind, CheckAndSet, ClusterSecretStore, ClusterSecretStoreSpec, KubernetesAuth,
    KvVersion, Provider, RetrySettings, SecretRef, SecretStore, SecretStoreSpec, ServiceAccountRef, StoreCondition,
    StoreStatus, Vault, VaultAuth, VaultTls,
};

const OPERATOR: &str = "the External Secrets operator";

/// A store. The kind is never left out: a PushSecret would take an absent one for `SecretStore`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreRef {
    /// Name of the store.
    #[serde(default)]
    pub name: String,
    /// Its kind.
    #[serde(default = "StoreRef::kind_when_absent")]
    pub kind: StoreKind,
}

words! {
    /// Kind of a store.
    StoreKind {
        /// For one namespace.
        SecretStore = "SecretStore",
        /// For the whole cluster.
        ClusterSecretStore = "ClusterSecretStore",
    }
}

impl StoreRef {
    /// The ClusterSecretStore `name`.
    pub fn cluster(name: impl Into<String>) -> Self {
        Self { name: name.into(), kind: StoreKind::ClusterSecretStore }
    }

    /// The SecretStore `name` in the same namespace.
    pub fn local(name: impl Into<String>) -> Self {
        Self { name: name.into(), kind: StoreKind::SecretStore }
    }

    fn kind_when_absent() -> StoreKind {
        StoreKind::SecretStore
    }
}

/// A generator of secrets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GeneratorRef {
    /// `generators.external-secrets.io/v1alpha1` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,
    /// Kind, such as `VaultDynamicSecret` or `Password`.
    #[serde(default)]
    pub kind: String,
    /// Name.
    #[serde(default)]
    pub name: String,
}

/// Where a secret is in a KV engine, relative to the mount that the store names. A key with `<mount>/data/` in front
/// can be read and written, but its metadata, which pushing and deleting need, is looked for in the wrong place.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RemoteKey(String);

impl RemoteKey {
    /// `path` below `mount`, whether it is written relative (`openstack/nova/db`), with the mount
    /// (`kv-v2/openstack/nova/db`) or as the HTTP API has it (`kv-v2/data/openstack/nova/db`).
    pub fn new(mount: &str, path: &str) -> Self {
        let path = path.trim_matches('/');
        let mount = mount.trim_matches('/');
        let below = path.strip_prefix(mount).and_then(|rest| rest.strip_prefix('/')).filter(|_| !mount.is_empty());
        let relative = below.map_or(path, |below| {
            below.strip_prefix("data/").or_else(|| below.strip_prefix("metadata/")).unwrap_or(below)
        });
        Self(relative.to_string())
    }

    /// The relative path.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// `syncedResourceVersion` is `<generation>-<hash of labels and annotations>`: the generation that was synced last.
fn synced_generation(synced_resource_version: Option<&str>) -> Option<i64> {
    synced_resource_version?.split_once('-')?.0.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_remote_key_is_relative_however_it_was_written() {
        for written in
            ["openstack/nova/db", "/openstack/nova/db", "kv-v2/openstack/nova/db", "kv-v2/data/openstack/nova/db"]
        {
            assert_eq!(RemoteKey::new("kv-v2", written).as_str(), "openstack/nova/db", "{written}");
        }
        assert_eq!(RemoteKey::new("kv-v2", "kv-v2-old/data/x").as_str(), "kv-v2-old/data/x");
        assert_eq!(RemoteKey::new("team/kv", "team/kv/data/x").as_str(), "x");
        assert_eq!(RemoteKey::new("", "data/x").as_str(), "data/x");
    }

    #[test]
    fn the_kind_of_a_store_is_always_written() {
        let json = serde_json::to_value(StoreRef::cluster("vault")).unwrap();
        assert_eq!(json, serde_json::json!({"name": "vault", "kind": "ClusterSecretStore"}));
        let read: StoreRef = serde_json::from_str(r#"{"name": "vault"}"#).unwrap();
        assert_eq!(read, StoreRef::local("vault"));
    }
}
