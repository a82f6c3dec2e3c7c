//! CredentialRotation: application credentials that are replaced before they expire, and revoked after.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::blocks::{Condition, LocalRef, ObjectName, WaitStatus};
use crate::catalog::Rules;

/// Keeps a service user's credential young: a new one before the old expires, the old one revoked after a grace period.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "c5c3.io",
    version = "v1alpha1",
    kind = "CredentialRotation",
    plural = "credentialrotations",
    namespaced,
    status = "CredentialRotationStatus",
    derive = "PartialEq",
    shortname = "crot",
    category = "c5c3",
    printcolumn(name = "Ready", type_ = "string", json_path = ".status.conditions[?(@.type=='Ready')].status"),
    printcolumn(name = "User", type_ = "string", json_path = ".spec.targetServiceUser"),
    printcolumn(name = "Last", type_ = "date", json_path = ".status.lastRotation"),
    printcolumn(name = "Next", type_ = "string", json_path = ".status.nextRotation"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("self.gracePeriodDays < self.schedule.intervalDays")
    .message("has a grace period as long as the interval, so revoked credentials would pile up; make gracePeriodDays smaller than schedule.intervalDays"))]
pub struct CredentialRotationSpec {
    /// Name of the K-ORC User object. It cannot be changed.
    #[x_kube(validation = Rule::new("self == oldSelf").message("cannot be changed; create a CredentialRotation for the other user"))]
    pub target_service_user: ObjectName,
    /// What is rotated.
    pub rotation_type: RotationType,
    /// How often.
    pub schedule: RotationSchedule,
    /// How many days the old credential still works beside the new one.
    #[serde(default = "one")]
    #[schemars(range(min = 0, max = 365))]
    pub grace_period_days: i32,
}

fn one() -> i32 {
    1
}

/// What is rotated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum RotationType {
    /// A Keystone application credential.
    ApplicationCredential,
}

/// How often credentials are rotated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("self.preRotationDays < self.intervalDays")
    .message("rotates before the credential is made; make preRotationDays smaller than intervalDays"))]
pub struct RotationSchedule {
    /// How many days a credential lives.
    #[schemars(range(min = 1, max = 3650))]
    pub interval_days: i32,
    /// How many days before its end it is replaced.
    #[schemars(range(min = 0, max = 3650))]
    pub pre_rotation_days: i32,
}

/// What the operator observed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct CredentialRotationStatus {
    /// Ready, RotationScheduled.
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
    /// When the credential was last replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_rotation: Option<Time>,
    /// When it will be replaced next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_rotation: Option<Time>,
    /// The credential in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_credential: Option<CurrentCredential>,
    /// The ApplicationCredential object in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_credential_ref: Option<LocalRef>,
    /// The ApplicationCredential object that is in its grace period.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous_credential_ref: Option<LocalRef>,
}

/// A credential, without its secret.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct CurrentCredential {
    /// Its id in Keystone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub id: Option<String>,
    /// When it was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_at: Option<Time>,
    /// When it stops working.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Time>,
}

impl Rules for CredentialRotation {}
