//! Descheduling: a live migration of one server off a host that carries too much.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use super::decision::PipelineRef;
use crate::blocks::{self, Condition};
use crate::catalog::Rules;

/// A live migration of one server off its host, proposed by a pipeline of detectors or by a person. It is a dry run unless it
/// says otherwise: then the status tells where the server would go.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "cortex.c5c3.io",
    version = "v1alpha1",
    kind = "Descheduling",
    plural = "deschedulings",
    namespaced,
    status = "DeschedulingStatus",
    derive = "PartialEq",
    shortname = "ctxdes",
    category = "c5c3",
    printcolumn(name = "Server", type_ = "string", json_path = ".spec.resourceID"),
    printcolumn(name = "From", type_ = "string", json_path = ".spec.prevHost"),
    printcolumn(name = "To", type_ = "string", json_path = ".status.newHost"),
    printcolumn(name = "Dry run", type_ = "boolean", json_path = ".spec.dryRun"),
    printcolumn(name = "State", type_ = "string", json_path = ".status.conditions[?(@.type=='Ready')].reason"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Why", type_ = "string", json_path = ".spec.reason", priority = 1),
    printcolumn(name = "Effect", type_ = "string", json_path = ".status.explanation", priority = 1)
)]
#[serde(rename_all = "camelCase")]
pub struct DeschedulingSpec {
    /// UUID of the server. It cannot be changed.
    #[serde(rename = "resourceID")]
    #[schemars(length(min = 1, max = 128))]
    #[x_kube(validation = Rule::new("self == oldSelf").message("cannot be changed; create another Descheduling"))]
    pub resource_id: String,
    /// The host that the server is to leave. It cannot be changed.
    #[schemars(length(min = 1, max = 255))]
    #[x_kube(validation = Rule::new("self == oldSelf").message("cannot be changed; create another Descheduling"))]
    pub prev_host: String,
    /// Why, in words.
    #[schemars(length(min = 1, max = 1024))]
    pub reason: String,
    /// The detector that found the host. A server does not go back to a host that it left for the same one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub detector: Option<String>,
    /// The pipeline of the detector.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pipeline_ref: Option<PipelineRef>,
    /// Whether the status only tells what would be done; with `false` the server is moved.
    #[serde(default = "blocks::yes")]
    pub dry_run: bool,
}

/// The state of a Descheduling.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeschedulingStatus {
    /// Ready: the server has left the host (Migrated, AlreadyGone), or not: DryRun, InProgress, Waiting, NoHostFound,
    /// NotMovable, Failed. InProgress: Nova was told to move the server, and the migration has not ended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// The generation that the status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The host that the server goes to, or would go to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 255))]
    pub new_host: Option<String>,
    /// What is done or would be done, why, and what it changes, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16384))]
    pub explanation: Option<String>,
    /// When Nova was told to move the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Time>,
    /// When it ended, well or not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<Time>,
}

impl Rules for Descheduling {}
