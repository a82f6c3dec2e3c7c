//! Conditions, and what an object is waiting for.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Whether a condition holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ConditionStatus {
    /// It holds.
    True,
    /// It does not hold.
    False,
    /// It is not known yet.
    Unknown,
}

/// One observation about an object. The fields are those of `metav1.Condition`; only `type` and `status` are required,
/// as in the documents that define the wire format. Our operators always write all of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// What is observed, such as `Ready` or `DatabaseReady`.
    #[schemars(length(min = 1, max = 316))]
    pub r#type: String,
    /// Whether it holds.
    pub status: ConditionStatus,
    /// Why, in one word for programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub reason: Option<String>,
    /// Why, in words for people, and what to look at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32768))]
    pub message: Option<String>,
    /// When the status last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
    /// The generation of the object that the observation is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub observed_generation: Option<i64>,
}

/// Something that an object waits for: the same value that its condition's message and `c5c3 why` print.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct WaitStatus {
    /// The object that is waited for, as `kind/name` or `kind/namespace/name`.
    #[schemars(length(min = 1, max = 600))]
    pub object: String,
    /// What must come true of it.
    #[schemars(length(max = 316))]
    pub condition: String,
    /// Why it is needed, and how it is now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 4096))]
    pub because: Option<String>,
    /// The command that tells more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub look_at: Option<String>,
    /// Since when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
    /// The wait in one word, such as `WaitingForSecret` or `JobFailed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub reason: Option<String>,
    /// Whether the wait has failed: it does not end without intervention.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub failed: bool,
}
