//! References to other objects.

use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use super::{DataKey, ObjectName};

/// An object in the same namespace, by name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct LocalRef {
    /// Name of the object.
    pub name: ObjectName,
}

/// An object by name, possibly in another namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct NamespacedRef {
    /// Name of the object.
    pub name: ObjectName,
    /// Its namespace; the one of the referring object when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<ObjectName>,
}

/// A Secret in the same namespace, and optionally one of its keys.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecretRef {
    /// Name of the Secret.
    pub name: ObjectName,
    /// Key in the Secret; each use has its own default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<DataKey>,
}

/// One key of a Secret in the same namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecretKeyRef {
    /// Name of the Secret.
    pub name: ObjectName,
    /// Key in the Secret.
    pub key: DataKey,
}

/// The Secret that holds a Keystone application credential. The wire format has two spellings of the same thing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("has(self.secretName) || has(self.name)")
        .message("names no Secret; set secretName to the Secret that holds the application credential"),
    validation = Rule::new("!has(self.secretName) || !has(self.name) || self.secretName == self.name")
        .message("names two different Secrets; set only one of secretName and name")
)]
pub struct AppCredentialRef {
    /// Name of the Secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_name: Option<ObjectName>,
    /// Name of the Secret, in the other spelling.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<ObjectName>,
}

impl AppCredentialRef {
    /// The Secret, whichever way it is spelled.
    pub fn secret(&self) -> Option<&ObjectName> {
        self.secret_name.as_ref().or(self.name.as_ref())
    }
}
