//! The small shapes that several foreign kinds share.

use serde::{Deserialize, Serialize};

use crate::blocks::{Condition, IssuerKind};

/// An object by its name alone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedRef {
    /// Name of the object.
    #[serde(default)]
    pub name: String,
}

impl NamedRef {
    /// The object `name`.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into() }
    }
}

/// One key of a Secret in the same namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecretKey {
    /// Name of the Secret.
    #[serde(default)]
    pub name: String,
    /// Key in the Secret.
    #[serde(default)]
    pub key: String,
}

impl SecretKey {
    /// `key` of the Secret `name`.
    pub fn new(name: impl Into<String>, key: impl Into<String>) -> Self {
        Self { name: name.into(), key: key.into() }
    }
}

/// A cert-manager issuer, as cert-manager and those who use it write it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IssuerRef {
    /// Name of the issuer.
    #[serde(default)]
    pub name: String,
    /// `Issuer` or `ClusterIssuer`; `Issuer` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// API group; `cert-manager.io` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
}

impl From<&crate::blocks::IssuerRef> for IssuerRef {
    fn from(issuer: &crate::blocks::IssuerRef) -> Self {
        let kind = match issuer.kind {
            IssuerKind::ClusterIssuer => "ClusterIssuer",
            IssuerKind::Issuer => "Issuer",
        };
        Self { name: issuer.name.to_string(), kind: Some(kind.to_string()), group: None }
    }
}

/// Something that is only ever switched on or off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Toggle {
    /// Whether it is on.
    #[serde(default)]
    pub enabled: bool,
}

/// A status of which we read only the conditions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Conditions {
    /// What the operator has observed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}
