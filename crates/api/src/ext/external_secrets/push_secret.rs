//! PushSecret: a Secret that is written to stores.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use serde::{Deserialize, Serialize};

use super::{GeneratorRef, OPERATOR, RemoteKey, StoreRef, synced_generation};
use crate::blocks::Condition;
use crate::ext::readiness::Judge;
use crate::ext::{NamedRef, Readiness, Ready};

/// A Secret that is written to stores.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "external-secrets.io",
    version = "v1alpha1",
    kind = "PushSecret",
    plural = "pushsecrets",
    namespaced,
    status = "PushSecretStatus",
    derive = "PartialEq",
    derive = "Default",
    schema = "disabled"
)]
#[serde(rename_all = "camelCase")]
pub struct PushSecretSpec {
    /// The stores.
    #[serde(default)]
    pub secret_store_refs: Vec<StoreRef>,
    /// What is written.
    #[serde(default)]
    pub selector: Selector,
    /// Which keys go where.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub data: Vec<PushData>,
    /// Whether what is in the store already is replaced; so when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update_policy: Option<UpdatePolicy>,
    /// What happens in the store when the object is deleted; nothing when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletion_policy: Option<PushDeletionPolicy>,
    /// How often it is written, such as `1h`, which it is when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refresh_interval: Option<String>,
}

/// What is written. Exactly one field is set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Selector {
    /// A Secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<NamedRef>,
    /// What a generator makes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generator_ref: Option<GeneratorRef>,
}

impl Selector {
    /// The Secret `name`.
    pub fn secret(name: impl Into<String>) -> Self {
        Self { secret: Some(NamedRef::new(name)), generator_ref: None }
    }

    /// What `generator` makes.
    pub fn generator(generator: GeneratorRef) -> Self {
        Self { secret: None, generator_ref: Some(generator) }
    }
}

/// Which key goes where.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PushData {
    /// How names of keys are changed. It is always written: a default within a list makes each apply a change to some servers.
    #[serde(default)]
    pub conversion_strategy: PushConversion,
    /// The key and the place.
    #[serde(default)]
    pub r#match: Match,
}

/// A key and a place. With neither `secretKey` nor `property`, all of the Secret is written as one JSON object.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Match {
    /// The key of the Secret; all of them when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_key: Option<String>,
    /// The place.
    #[serde(default)]
    pub remote_ref: PushRemoteRef,
}

/// A place in a store.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PushRemoteRef {
    /// The secret in the store.
    #[serde(default)]
    pub remote_key: RemoteKey,
    /// The property of the secret; may be absent only if the value is a JSON object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub property: Option<String>,
}

impl PushData {
    /// `key` of the Secret as the property of the same name.
    pub fn property(remote_key: RemoteKey, key: impl Into<String>) -> Self {
        let key = Some(key.into());
        let remote_ref = PushRemoteRef { remote_key, property: key.clone() };
        Self { r#match: Match { secret_key: key, remote_ref }, ..Self::default() }
    }

    /// All of the Secret.
    pub fn whole(remote_key: RemoteKey) -> Self {
        let remote_ref = PushRemoteRef { remote_key, property: None };
        Self { r#match: Match { secret_key: None, remote_ref }, ..Self::default() }
    }
}

words! {
    /// How names of keys are changed on the way to a store.
    #[derive(Default)]
    PushConversion {
        /// Not at all.
        #[default]
        None = "None",
        /// What was encoded for Kubernetes is decoded.
        ReverseUnicode = "ReverseUnicode",
    }
}

words! {
    /// Whether what is in the store already is replaced.
    UpdatePolicy {
        /// It is.
        Replace = "Replace",
        /// It is not.
        IfNotExists = "IfNotExists",
    }
}

words! {
    /// What happens in the store when a PushSecret is deleted.
    PushDeletionPolicy {
        /// The secret is deleted, for which the store must work.
        Delete = "Delete",
        /// Nothing.
        None = "None",
    }
}

/// What the External Secrets operator reports. Conditions do not say which generation they are about.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PushSecretStatus {
    /// `Ready`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// When it was last written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refresh_time: Option<Time>,
    /// The generation that was last written and a hash, as `3-0a1b2c`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub synced_resource_version: Option<String>,
}

impl Readiness for PushSecret {
    fn readiness(&self) -> Ready {
        Judge::judge(OPERATOR, &self.metadata, self.status.as_ref(), |judge, status| {
            judge.holds(&status.conditions, "Ready")?;
            let synced = synced_generation(status.synced_resource_version.as_deref());
            synced.map_or(Ok(()), |synced| judge.current(Some(synced)))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_seeds_push_of_a_credential_is_written_with_a_relative_key() {
        let key = RemoteKey::new("kv-v2", "kv-v2/data/openstack/k-orc/app-credential");
        let spec = PushSecretSpec {
            secret_store_refs: vec![StoreRef::cluster("openbao-cluster-store")],
            selector: Selector::secret("k-orc-app-credential"),
            data: vec![PushData::property(key, "clouds.yaml")],
            ..PushSecretSpec::default()
        };
        assert_eq!(
            serde_json::to_value(spec).unwrap(),
            json!({
                "secretStoreRefs": [{"name": "openbao-cluster-store", "kind": "ClusterSecretStore"}],
                "selector": {"secret": {"name": "k-orc-app-credential"}},
                "data": [{"conversionStrategy": "None", "match": {"secretKey": "clouds.yaml", "remoteRef": {
                    "remoteKey": "openstack/k-orc/app-credential", "property": "clouds.yaml"}}}],
            }),
        );
    }

    #[test]
    fn a_push_passes_on_what_went_wrong_and_is_not_ready_before_its_last_edit_is_written() {
        let push = |status: &str, synced: &str| {
            let push: PushSecret = serde_json::from_value(json!({
                "apiVersion": "external-secrets.io/v1alpha1", "kind": "PushSecret",
                "metadata": {"name": "riddle", "generation": 2}, "spec": {"secretStoreRefs": [], "selector": {}},
                "status": {"syncedResourceVersion": synced, "conditions": [
                    {"type": "Ready", "status": status, "reason": "Errored", "message": "permission denied"},
                ]},
            }))
            .unwrap();
            push.readiness()
        };
        assert_eq!(push("True", "2-abc"), Ready::Yes);
        let Ready::No { reason, .. } = push("True", "1-abc") else { panic!() };
        assert_eq!(reason, "Outdated");
        assert_eq!(push("False", "1-abc"), Ready::No { reason: "Errored".into(), message: "permission denied".into() });
    }
}
