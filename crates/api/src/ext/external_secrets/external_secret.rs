//! ExternalSecret: a Secret that is read from a store.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use serde::{Deserialize, Serialize};

use super::{GeneratorRef, OPERATOR, RemoteKey, StoreRef, synced_generation};
use crate::blocks::Condition;
use crate::ext::readiness::Judge;
use crate::ext::{NamedRef, Readiness, Ready};

/// A Secret that is read from a store, again and again. Changing any annotation reads it at once.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "external-secrets.io",
    version = "v1",
    kind = "ExternalSecret",
    plural = "externalsecrets",
    namespaced,
    status = "ExternalSecretStatus",
    derive = "PartialEq",
    derive = "Default",
    schema = "disabled"
)]
#[serde(rename_all = "camelCase")]
pub struct ExternalSecretSpec {
    /// The store; none is needed when all data comes from generators.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_store_ref: Option<StoreRef>,
    /// How often it is read, such as `1h`, which it is when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refresh_interval: Option<String>,
    /// When it is read; periodically when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refresh_policy: Option<RefreshPolicy>,
    /// The Secret; one with the object's name when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<Target>,
    /// Single keys.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub data: Vec<Data>,
    /// Whole secrets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub data_from: Vec<DataFrom>,
}

words! {
    /// When a secret is read.
    RefreshPolicy {
        /// Once.
        CreatedOnce = "CreatedOnce",
        /// At every interval.
        Periodic = "Periodic",
        /// When the object changes.
        OnChange = "OnChange",
    }
}

/// The Secret that is written. `Delete` does not go together with `Merge`, `CreateOrMerge` or `None`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Target {
    /// Its name; the object's when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Whose it is; the ExternalSecret's when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub creation_policy: Option<CreationPolicy>,
    /// What happens to it when the secret is gone from the store; it stays when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletion_policy: Option<DeletionPolicy>,
    /// Whether it can never change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub immutable: Option<bool>,
    /// What it looks like.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<Template>,
}

words! {
    /// Whose a Secret is.
    CreationPolicy {
        /// The ExternalSecret's; it goes with it.
        Owner = "Owner",
        /// It has no owner, and stays.
        Orphan = "Orphan",
        /// Another owner's, which created it.
        Merge = "Merge",
        /// No Secret is written.
        None = "None",
        /// Another owner's, but created if it does not exist.
        CreateOrMerge = "CreateOrMerge",
    }
}

words! {
    /// What happens to a Secret when the secret is gone from the store.
    DeletionPolicy {
        /// It is deleted.
        Delete = "Delete",
        /// It loses the keys.
        Merge = "Merge",
        /// It stays.
        Retain = "Retain",
    }
}

/// What a Secret looks like.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Template {
    /// Type of the Secret; Opaque when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub r#type: Option<String>,
    /// Labels and annotations, such as the label that an imported RabbitMQ user needs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<TemplateMetadata>,
    /// Go templates by key; with any, only these keys are written.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub data: BTreeMap<String, String>,
}

/// Labels and annotations of a Secret.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TemplateMetadata {
    /// Labels.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

/// One key of the Secret.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Data {
    /// The key.
    #[serde(default)]
    pub secret_key: String,
    /// Where its value is.
    #[serde(default)]
    pub remote_ref: RemoteRef,
}

/// Where a value is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RemoteRef {
    /// The secret in the store.
    #[serde(default)]
    pub key: RemoteKey,
    /// The property of the secret; all of it, as JSON, when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub property: Option<String>,
    /// The version of the secret; the latest when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

/// Many keys of the Secret. Set one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DataFrom {
    /// All properties of a secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extract: Option<Extract>,
    /// What a generator makes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_ref: Option<SourceRef>,
}

/// All properties of a secret.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Extract {
    /// The secret in the store.
    #[serde(default)]
    pub key: RemoteKey,
    /// The version of the secret; the latest when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

/// What a generator makes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SourceRef {
    /// The generator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generator_ref: Option<GeneratorRef>,
}

/// What the External Secrets operator reports. Conditions do not say which generation they are about.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExternalSecretStatus {
    /// `Ready`, and `Deleted` when the Secret was deleted because the secret is gone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// When it was last read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refresh_time: Option<Time>,
    /// The generation that was last read and a hash, as `3-0a1b2c`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub synced_resource_version: Option<String>,
    /// The Secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub binding: Option<NamedRef>,
}

impl ExternalSecret {
    /// The Secret that it writes.
    pub fn secret(&self) -> Option<&str> {
        let target = self.spec.target.as_ref().and_then(|target| target.name.as_deref());
        target.or(self.metadata.name.as_deref())
    }
}

impl Readiness for ExternalSecret {
    fn readiness(&self) -> Ready {
        Judge::judge(OPERATOR, &self.metadata, self.status.as_ref(), |judge, status| {
            judge.holds(&status.conditions, "Ready")?;
            match synced_generation(status.synced_resource_version.as_deref()) {
                // What is read once stays at the generation at which it was read.
                Some(synced) if self.spec.refresh_policy != Some(RefreshPolicy::CreatedOnce) => {
                    judge.current(Some(synced))
                }
                _ => Ok(()),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn secret(policy: &str, synced: &str) -> ExternalSecret {
        serde_json::from_value(json!({
            "apiVersion": "external-secrets.io/v1", "kind": "ExternalSecret",
            "metadata": {"name": "riddle", "generation": 3}, "spec": {"refreshPolicy": policy},
            "status": {"syncedResourceVersion": synced, "conditions": [
                {"type": "Ready", "status": "True", "reason": "SecretSynced", "message": "secret synced"},
            ]},
        }))
        .unwrap()
    }

    #[test]
    fn a_secret_that_was_read_before_the_last_edit_is_not_ready() {
        assert_eq!(secret("Periodic", "3-abc").readiness(), Ready::Yes);
        let Ready::No { reason, .. } = secret("Periodic", "2-abc").readiness() else { panic!() };
        assert_eq!(reason, "Outdated");
        assert_eq!(secret("CreatedOnce", "1-abc").readiness(), Ready::Yes);
        assert_eq!(secret("Periodic", "").readiness(), Ready::Yes);
    }

    #[test]
    fn a_word_of_a_newer_release_can_be_read_but_not_written() {
        let read = secret("OnFullMoon", "3-abc");
        assert_eq!(read.spec.refresh_policy, Some(RefreshPolicy::Unknown));
        assert!(serde_json::to_value(&read).is_err());
    }
}
