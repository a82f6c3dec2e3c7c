//! SecretStore and ClusterSecretStore, of which we know one provider: `vault`, which OpenBao speaks too.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::CustomResource;
use serde::{Deserialize, Serialize};

use super::OPERATOR;
use crate::blocks::Condition;

/// A store for one namespace.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "external-secrets.io",
    version = "v1",
    kind = "SecretStore",
    plural = "secretstores",
    namespaced,
    status = "StoreStatus",
    derive = "PartialEq",
    derive = "Default",
    schema = "disabled"
)]
#[serde(rename_all = "camelCase")]
pub struct SecretStoreSpec {
    /// What it stands for.
    #[serde(default)]
    pub provider: Provider,
    /// How requests that fail are repeated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_settings: Option<RetrySettings>,
}

/// A store for the whole cluster.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "external-secrets.io",
    version = "v1",
    kind = "ClusterSecretStore",
    plural = "clustersecretstores",
    status = "StoreStatus",
    derive = "PartialEq",
    derive = "Default",
    schema = "disabled"
)]
pub struct ClusterSecretStoreSpec {
    /// The same as in a [`SecretStore`].
    #[serde(flatten)]
    pub store: SecretStoreSpec,
    /// The namespaces that may use it, if any of these hold; all when absent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<StoreCondition>,
}

/// What a store stands for. Others than `vault` are read as nothing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Provider {
    /// OpenBao or Vault.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vault: Option<Vault>,
}

/// A KV engine of OpenBao or Vault.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Vault {
    /// URL of the server.
    #[serde(default)]
    pub server: String,
    /// Where the engine is mounted, such as `kv-v2`. Keys are relative to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Version of the engine; v2 when absent. An empty one, as some clients write it, would be refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<KvVersion>,
    /// Namespace in the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// CA of the server, in PEM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_bundle: Option<ByteString>,
    /// CA of the server, in an object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_provider: Option<CaProvider>,
    /// The certificate shown to the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<VaultTls>,
    /// How to log in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth: Option<VaultAuth>,
    /// Whether a write must name the version it replaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check_and_set: Option<CheckAndSet>,
    /// Whether a read sees one's own writes in a cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_your_writes: Option<bool>,
    /// Headers of each request.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
}

words! {
    /// Version of a KV engine.
    KvVersion {
        /// Without versions.
        V1 = "v1",
        /// With versions.
        V2 = "v2",
    }
}

/// An object with the CA of a server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CaProvider {
    /// Kind of the object.
    pub r#type: CaProviderKind,
    /// Its name.
    pub name: String,
    /// Key in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Its namespace; a ClusterSecretStore must say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

words! {
    /// Kind of an object with a CA.
    CaProviderKind {
        /// A Secret.
        Secret = "Secret",
        /// A ConfigMap.
        ConfigMap = "ConfigMap",
    }
}

/// The certificate shown to a server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VaultTls {
    /// The certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cert_secret_ref: Option<SecretRef>,
    /// Its key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_secret_ref: Option<SecretRef>,
}

/// A key of a Secret.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecretRef {
    /// Name of the Secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its namespace; a ClusterSecretStore must say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Key in it; each use has its own default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

/// How to log in. Set one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VaultAuth {
    /// With a service account.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubernetes: Option<KubernetesAuth>,
    /// With an AppRole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub app_role: Option<AppRole>,
    /// With a token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_secret_ref: Option<SecretRef>,
}

/// A login with a service account.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KubernetesAuth {
    /// Where the method is mounted, without `auth/`, such as `kubernetes/control-plane`.
    #[serde(default)]
    pub mount_path: String,
    /// Role in the server.
    #[serde(default)]
    pub role: String,
    /// The service account; the operator's own when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_account_ref: Option<ServiceAccountRef>,
}

/// A service account.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ServiceAccountRef {
    /// Its name.
    #[serde(default)]
    pub name: String,
    /// Its namespace; a ClusterSecretStore must say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Audiences of the token.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub audiences: Vec<String>,
}

/// A login with an AppRole. Exactly one of `roleId` and `roleRef` is set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AppRole {
    /// Where the method is mounted, such as `approle`.
    #[serde(default)]
    pub path: String,
    /// The role.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role_id: Option<String>,
    /// The role, in a Secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role_ref: Option<SecretRef>,
    /// The secret id.
    #[serde(default)]
    pub secret_ref: SecretRef,
}

/// Whether a write must name the version it replaces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckAndSet {
    /// So it must.
    #[serde(default)]
    pub required: bool,
}

/// How requests that fail are repeated.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RetrySettings {
    /// How often.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_retries: Option<i32>,
    /// With which pause, such as `10s`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_interval: Option<String>,
}

/// Namespaces that may use a ClusterSecretStore.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StoreCondition {
    /// By label.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace_selector: Option<LabelSelector>,
    /// By name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub namespaces: Vec<String>,
    /// By regular expression.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub namespace_regexes: Vec<String>,
}

/// What the External Secrets operator reports of a store. Nothing says which generation it is about.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StoreStatus {
    /// `Ready`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// `ReadOnly`, `WriteOnly` or `ReadWrite`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capabilities: Option<String>,
}

ready_by_condition!(OPERATOR; SecretStore, ClusterSecretStore);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ext::{Readiness, Ready};
    use serde_json::json;

    #[test]
    fn a_store_of_another_provider_can_be_read_and_says_why_it_is_not_ready() {
        let store: ClusterSecretStore = serde_json::from_value(json!({
            "apiVersion": "external-secrets.io/v1", "kind": "ClusterSecretStore", "metadata": {"name": "cave"},
            "spec": {"provider": {"fake": {"data": []}}},
            "status": {"conditions": [
                {"type": "Ready", "status": "False", "reason": "InvalidProviderConfig", "message": "unable to log in"},
            ]},
        }))
        .unwrap();
        assert_eq!(store.spec.store.provider.vault, None);
        let message = "unable to log in".to_string();
        assert_eq!(store.readiness(), Ready::No { reason: "InvalidProviderConfig".into(), message });
    }

    #[test]
    fn an_absent_version_is_not_written() {
        let vault = Vault { server: "https://openbao:8200".into(), ..Vault::default() };
        assert_eq!(serde_json::to_value(vault).unwrap(), json!({"server": "https://openbao:8200"}));
    }
}
