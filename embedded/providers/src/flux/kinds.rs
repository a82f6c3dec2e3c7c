//! The kinds of Flux that are provided, as far as they are. What a spec has beside these fields is kept in `other`, to be
//! refused by name.

use std::collections::BTreeMap;

use c5c3_api::blocks::Condition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Fields that are not known here, by name.
pub type Other = BTreeMap<String, Value>;

/// A git repository whose commits are applied.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "source.toolkit.fluxcd.io",
    version = "v1",
    kind = "GitRepository",
    plural = "gitrepositories",
    namespaced,
    status = "GitRepositoryStatus",
    derive = "PartialEq",
    schema = "disabled"
)]
#[serde(rename_all = "camelCase")]
pub struct GitRepositorySpec {
    /// Where it is: `file:///srv/cloud` or `/srv/cloud`, on the machine of the cluster.
    pub url: String,
    /// How often it is looked at.
    pub interval: String,
    /// How long git may take; 60 s when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<String>,
    /// What of it; the branch `master` when absent.
    #[serde(default, rename = "ref", skip_serializing_if = "Option::is_none")]
    pub reference: Option<GitReference>,
    /// Leave it alone.
    #[serde(default, skip_serializing_if = "is_false")]
    pub suspend: bool,
    /// The other fields.
    #[serde(flatten)]
    pub other: Other,
}

/// Which commit of a repository.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GitReference {
    /// The newest of a branch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// The one of a tag, before a branch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
    /// The one of a reference in full, such as `refs/heads/main`, before a tag.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// This one, before all others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// The other fields.
    #[serde(flatten)]
    pub other: Other,
}

/// What is known of a repository.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GitRepositoryStatus {
    /// The generation that was looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The request that was answered last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_handled_reconcile_at: Option<String>,
    /// What was fetched last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact: Option<Artifact>,
    /// Conditions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// A commit that was fetched.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Artifact {
    /// Which commit: `main@sha1:...`.
    pub revision: String,
    /// A digest of all files.
    pub digest: String,
    /// Where it is kept.
    pub path: String,
    /// Where it is kept, as a URL.
    pub url: String,
    /// When it was fetched.
    pub last_update_time: Time,
}

/// A folder of a repository that is applied.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "kustomize.toolkit.fluxcd.io",
    version = "v1",
    kind = "Kustomization",
    plural = "kustomizations",
    namespaced,
    status = "KustomizationStatus",
    derive = "PartialEq",
    schema = "disabled"
)]
#[serde(rename_all = "camelCase")]
pub struct KustomizationSpec {
    /// How often it is applied when nothing changes.
    pub interval: String,
    /// How soon what failed is tried again; as often as `interval` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_interval: Option<String>,
    /// How long objects may take to be healthy; as long as `interval`, and at least 30 s, when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<String>,
    /// The folder; the whole repository when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Whether what is removed from the folder is deleted.
    pub prune: bool,
    /// The repository.
    pub source_ref: SourceRef,
    /// Leave it alone.
    #[serde(default, skip_serializing_if = "is_false")]
    pub suspend: bool,
    /// Whether all that was applied has to be healthy.
    #[serde(default, skip_serializing_if = "is_false")]
    pub wait: bool,
    /// The namespace of every object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_namespace: Option<String>,
    /// Kustomizations that have to be ready first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub depends_on: Vec<Dependency>,
    /// Changes to what the folder has.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub patches: Vec<PatchSpec>,
    /// Objects that have to be healthy.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub health_checks: Vec<HealthCheck>,
    /// What healthy means for a kind, in CEL.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub health_check_exprs: Vec<HealthExpression>,
    /// What becomes of the objects when this is deleted: `MirrorPrune`, `Delete` or `Orphan`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletion_policy: Option<String>,
    /// The other fields.
    #[serde(flatten)]
    pub other: Other,
}

impl Kustomization {
    /// The namespace and the name of its repository.
    pub(super) fn source(&self) -> (String, String) {
        let source = &self.spec.source_ref;
        (self.namespace_or_own(source.namespace.as_ref()), source.name.clone())
    }

    /// The namespaces and the names of the Kustomizations that it depends on.
    pub(super) fn dependencies(&self) -> impl Iterator<Item = (String, String)> {
        let others = self.spec.depends_on.iter();
        others.map(|other| (self.namespace_or_own(other.namespace.as_ref()), other.name.clone()))
    }

    fn namespace_or_own(&self, namespace: Option<&String>) -> String {
        namespace.or(self.metadata.namespace.as_ref()).cloned().unwrap_or_default()
    }
}

/// A source.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SourceRef {
    /// `GitRepository`.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Its namespace; the Kustomization's when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

/// Another Kustomization.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Dependency {
    /// Its name.
    pub name: String,
    /// Its namespace; the same when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The other fields.
    #[serde(flatten)]
    pub other: Other,
}

/// A change to some objects.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PatchSpec {
    /// YAML: a list of operations of RFC 6902, or the fields to merge.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patch: Option<String>,
    /// Which objects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<Target>,
    /// The other fields.
    #[serde(flatten)]
    pub other: Other,
}

/// The objects that a patch changes. Each field is a regular expression for the whole value.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Target {
    /// API group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The other fields.
    #[serde(flatten)]
    pub other: Other,
}

/// An object that has to be healthy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HealthCheck {
    /// Group and version.
    #[serde(default)]
    pub api_version: String,
    /// Kind.
    pub kind: String,
    /// Name.
    pub name: String,
    /// Namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

/// What healthy means for a kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HealthExpression {
    /// Group and version.
    pub api_version: String,
    /// Kind.
    #[serde(default)]
    pub kind: String,
    /// When it is healthy.
    pub current: String,
    /// When it is on its way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_progress: Option<String>,
    /// When it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
}

/// What is known of a Kustomization.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KustomizationStatus {
    /// The generation that was looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The request that was answered last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_handled_reconcile_at: Option<String>,
    /// The revision that was applied last, and was healthy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_applied_revision: Option<String>,
    /// The revision that was tried last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_attempted_revision: Option<String>,
    /// What was applied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inventory: Option<Inventory>,
    /// Conditions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// The objects that were applied.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Inventory {
    /// Sorted.
    pub entries: Vec<Entry>,
}

/// An object that was applied.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Entry {
    /// `<namespace>_<name>_<group>_<kind>`.
    pub id: String,
    /// The version of its kind.
    pub v: String,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(value: &bool) -> bool {
    !value
}
