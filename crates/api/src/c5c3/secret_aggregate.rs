//! SecretAggregate: several Secrets, or parts of them, as one.

use std::borrow::Cow;

use c5c3_schema::Problem;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{CustomResource, KubeSchema, ResourceExt};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::alias::{Alias, alias};
use crate::blocks::{Condition, DataKey, NamespacedRef, WaitStatus};
use crate::catalog::{Rules, problem};

/// One Secret put together from keys of others, and kept up to date with them.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "c5c3.io",
    version = "v1alpha1",
    kind = "SecretAggregate",
    plural = "secretaggregates",
    namespaced,
    status = "SecretAggregateStatus",
    derive = "PartialEq",
    shortname = "sag",
    category = "c5c3",
    printcolumn(name = "Ready", type_ = "string", json_path = ".status.conditions[?(@.type=='Ready')].status"),
    printcolumn(name = "Reason", type_ = "string", json_path = ".status.conditions[?(@.type=='Ready')].reason"),
    printcolumn(name = "Target", type_ = "string", json_path = ".spec.target.name"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct SecretAggregateSpec {
    /// Where the keys come from. A later source wins over an earlier one with the same key.
    #[schemars(length(min = 1, max = 64))]
    pub sources: Vec<SecretSource>,
    /// The Secret that is written.
    pub target: NamespacedRef,
}

/// A Secret that keys are taken from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecretSource {
    /// What it is called in messages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub name: Option<String>,
    /// The Secret.
    pub secret_ref: NamespacedRef,
    /// Which keys: each a name, or `{sourceKey, targetKey}` to rename it. All of them when empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 128))]
    pub keys: Vec<KeyMapping>,
}

/// A key, taken under its own name or another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum KeyMapping {
    /// Under its own name.
    Same(DataKey),
    /// Under another name.
    Renamed(Renamed),
}

/// A key that gets another name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Renamed {
    /// Its name in the source.
    pub source_key: DataKey,
    /// Its name in the target.
    pub target_key: DataKey,
}

/// Written by hand so that an error names the wrong key: for an untagged enum serde only says that no variant matches.
impl<'de> Deserialize<'de> for KeyMapping {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let written = Value::deserialize(deserializer)?;
        match &written {
            Value::String(key) => DataKey::new(key.as_str()).map(Self::Same).map_err(D::Error::custom),
            Value::Object(_) => serde_json::from_value(written).map(Self::Renamed).map_err(D::Error::custom),
            _ => Err(D::Error::custom("is neither a key nor {sourceKey, targetKey}; write one of them")),
        }
    }
}

impl KeyMapping {
    /// Its name in the source.
    pub fn source(&self) -> &DataKey {
        match self {
            Self::Same(key) => key,
            Self::Renamed(renamed) => &renamed.source_key,
        }
    }

    /// Its name in the target.
    pub fn target(&self) -> &DataKey {
        match self {
            Self::Same(key) => key,
            Self::Renamed(renamed) => &renamed.target_key,
        }
    }
}

impl JsonSchema for KeyMapping {
    fn schema_name() -> Cow<'static, str> {
        "KeyMapping".into()
    }
    fn inline_schema() -> bool {
        true
    }
    /// A string or an object is beyond a structural schema, so the shape is not in it; [`Rules`] refuses other shapes.
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A key, or {sourceKey, targetKey}.",
            "x-kubernetes-preserve-unknown-fields": true,
        })
    }
}

/// What the operator observed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecretAggregateStatus {
    /// Ready, SourcesResolved, AllSourcesAvailable.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// The generation that the status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// What is waited for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub waiting_for: Vec<WaitStatus>,
    /// When the target last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_aggregated: Option<Time>,
}

impl Rules for SecretAggregate {
    const ALIASES: &'static [Alias] = &[alias("target.secretName", "target.name")];

    fn problems(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        for (index, source) in self.spec.sources.iter().enumerate() {
            let namespace =
                |secret: &NamespacedRef| secret.namespace.as_ref().map(ToString::to_string).or(self.namespace());
            let target = &self.spec.target;
            if source.secret_ref.name == target.name && namespace(&source.secret_ref) == namespace(target) {
                problems.push(problem(
                    format!("spec.sources[{index}].secretRef.name"),
                    format!("\"{}\" is the target itself", source.secret_ref.name),
                    "name another Secret as source or as target",
                ));
            }
        }
        problems
    }
}
