//! Configuration that goes past the typed fields: policies, plugins, middleware and raw options.

use std::collections::BTreeMap;

use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use super::LocalRef;

/// Raw options, section by section: `{DEFAULT: {debug: "true"}}`. Options that an operator sets itself (connections,
/// credentials, paths) are refused by that operator.
pub type ExtraConfig = BTreeMap<String, BTreeMap<String, String>>;

/// Rules that replace the service's default policies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("has(self.rules) || has(self.configMapRef)")
        .message("has no rules; set rules or configMapRef, or remove policyOverrides"),
    validation = Rule::new("!has(self.rules) || self.rules.all(name, name != '' && !name.contains('\\n'))")
        .message("has a rule with an empty or broken name; name the policy, such as identity:list_users")
)]
pub struct PolicyOverrides {
    /// Rules by name; these win over the ConfigMap's.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 256))]
    pub rules: BTreeMap<String, String>,
    /// ConfigMap with more rules, key `policy.yaml`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_map_ref: Option<LocalRef>,
}

/// A plugin with a configuration section of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Plugin {
    /// Name of the plugin.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Section of the configuration file; each plugin has its own.
    #[schemars(length(min = 1, max = 128), regex(pattern = r"^[^\s\[\]]+$"))]
    pub config_section: String,
    /// Options of that section.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 128))]
    pub config: BTreeMap<String, String>,
}

/// A filter in the service's WSGI pipeline.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Middleware {
    /// Name of the filter.
    #[schemars(length(min = 1, max = 128), regex(pattern = r"^[A-Za-z0-9_.-]+$"))]
    pub name: String,
    /// The Python factory, such as `keystonemiddleware.audit:filter_factory`.
    #[schemars(length(min = 1, max = 253), regex(pattern = r"^[A-Za-z0-9_.]+:[A-Za-z0-9_.]+$"))]
    pub filter_factory: String,
    /// Its position in the pipeline.
    pub position: Position,
    /// Its options.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 128))]
    pub config: BTreeMap<String, String>,
}

/// A place in a pipeline, beside a filter that is there already.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.before) != has(self.after)").message("needs exactly one of before and after; set one of them"))]
pub struct Position {
    /// Directly before this filter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128))]
    pub before: Option<String>,
    /// Directly after this filter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128))]
    pub after: Option<String>,
}
