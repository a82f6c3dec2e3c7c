//! Decision: where one workload was put, and why there.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use super::pipeline::SchedulingDomain;
use crate::blocks::{Condition, ObjectName};
use crate::catalog::Rules;

/// A decision of the scheduler about one workload, named `<domain>-<id>`. The scheduler writes it, and removes the oldest.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "cortex.c5c3.io",
    version = "v1alpha1",
    kind = "Decision",
    plural = "decisions",
    namespaced,
    status = "DecisionStatus",
    derive = "PartialEq",
    shortname = "ctxdec",
    category = "c5c3",
    printcolumn(name = "Domain", type_ = "string", json_path = ".spec.schedulingDomain"),
    printcolumn(name = "Resource", type_ = "string", json_path = ".spec.resourceID"),
    printcolumn(name = "Host", type_ = "string", json_path = ".status.targetHost"),
    printcolumn(name = "Pipeline", type_ = "string", json_path = ".spec.pipelineRef.name"),
    printcolumn(name = "Decided", type_ = "date", json_path = ".status.decidedAt"),
    printcolumn(name = "Why", type_ = "string", json_path = ".status.explanation", priority = 1)
)]
#[serde(rename_all = "camelCase")]
pub struct DecisionSpec {
    /// Who asked.
    pub scheduling_domain: SchedulingDomain,
    /// The pipeline that decided.
    pub pipeline_ref: PipelineRef,
    /// Id of the workload: the UUID of a server, a volume or a share.
    #[serde(rename = "resourceID")]
    #[schemars(length(min = 1, max = 128))]
    pub resource_id: String,
    /// Why it was asked: `create`, `rebuild`, `resize`, `live_migrate`, `evacuate` or `unknown`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub intent: Option<String>,
    /// Id of the workload's project.
    #[serde(rename = "projectID", default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub project_id: Option<String>,
    /// What the workload needs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<DecisionResources>,
}

/// A pipeline: one of the Pipeline objects, or one that is built in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct PipelineRef {
    /// Name of the pipeline.
    pub name: ObjectName,
}

/// What a workload needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct DecisionResources {
    /// Virtual CPUs.
    #[serde(default)]
    pub vcpus: u32,
    /// Memory in MiB.
    #[serde(rename = "memoryMiB", default)]
    pub memory_mib: u64,
    /// Disk in GiB.
    #[serde(rename = "diskGiB", default)]
    pub disk_gib: u64,
}

/// What was decided.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct DecisionStatus {
    /// Ready: a host was found (SchedulingSucceeded), or none (NoHostFound).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// When it was decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided_at: Option<Time>,
    /// The best host; absent if no host fits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 255))]
    pub target_host: Option<String>,
    /// Why there, or why nowhere, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16384))]
    pub explanation: Option<String>,
    /// How many hosts were offered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offered_hosts: Option<u32>,
    /// How many of them can take the workload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remaining_hosts: Option<u32>,
    /// The best hosts in their order, with their scores; at most ten.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 10))]
    pub ordered_hosts: Vec<DecisionHost>,
    /// What each step did.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 130))]
    pub step_results: Vec<DecisionStep>,
    /// Earlier decisions about the same workload, the last first; at most ten.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 10))]
    pub history: Vec<DecisionHistory>,
}

/// A host with its score.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct DecisionHost {
    /// Name of the host.
    #[schemars(length(max = 255))]
    pub host: String,
    /// What all weighers together gave it.
    pub score: f64,
}

/// What a step did.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct DecisionStep {
    /// Name of the step; that of the domain for the weights that came with the request.
    #[schemars(length(max = 128))]
    pub step_name: String,
    /// How many hosts a filter left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub removed_hosts: Option<u32>,
    /// The first of them, with reasons; at most twenty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20))]
    pub removals: Vec<DecisionRemoval>,
    /// How many hosts it could not judge and did not leave out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unjudged_hosts: Option<u32>,
    /// What a weigher added to each of the best hosts.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 10))]
    pub activations: BTreeMap<String, f64>,
}

/// A host that was left out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct DecisionRemoval {
    /// Name of the host.
    #[schemars(length(max = 255))]
    pub host: String,
    /// Why.
    #[schemars(length(max = 1024))]
    pub reason: String,
}

/// An earlier decision about the same workload.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct DecisionHistory {
    /// When it was decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided_at: Option<Time>,
    /// Why it was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub intent: Option<String>,
    /// The host; absent if none fitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 255))]
    pub target_host: Option<String>,
    /// Why there, or why nowhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 4096))]
    pub explanation: Option<String>,
}

impl Rules for Decision {}
