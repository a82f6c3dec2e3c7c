//! What the status of every OpenStack service has.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Condition, WaitStatus};

/// What an operator observed of a service. Part of each service's status.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServiceStatus {
    /// `Ready`, and one condition for each step of the service.
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
    /// Where the API answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub endpoint: Option<String>,
    /// The version that runs, and that the database has the schema of; the last that was known while an image by digest,
    /// branch or commit runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub installed_release: Option<String>,
    /// The version that is being upgraded to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub target_release: Option<String>,
    /// How far an upgrade is: `Expanding` adds to the schema and replaces pods, `Contracting` removes what only the old
    /// version used, after which there is no way back. With migrations that bear no pods, `Stopping` stops them after
    /// `Expanding`, and `Migrating` runs the migrations, after which there is no way back, and starts new pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub upgrade_phase: Option<String>,
    /// The application credential that the service runs with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<ServiceIdentity>,
    /// The accounts on databases and message brokers that a CredentialRotation replaces.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["secret"]))]
    pub accounts: Vec<ServiceAccount>,
    /// How many API pods there are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// Selector of the API pods, for autoscalers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub selector: Option<String>,
}

/// The application credential that a service runs with.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServiceIdentity {
    /// The id of the credential that all pods have had since the last rollout.
    #[serde(rename = "credentialID")]
    #[schemars(length(max = 64))]
    pub credential_id: String,
    /// Whether a pod of the service got a token with it.
    pub verified: bool,
}

/// An account of a service on a database or a message broker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServiceAccount {
    /// The Secret with its name and password.
    #[schemars(length(max = 253))]
    pub secret: String,
    /// How far it is.
    pub state: AccountState,
}

/// How far an account on a server is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum AccountState {
    /// It is being created, or its grants are.
    Pending,
    /// The service can sign in with it.
    Available,
    /// All pods are ready and sign in with it, and it was tried.
    InUse,
    /// It is being deleted from the server.
    Revoking,
    /// It is deleted, and has not been tried yet.
    Revoked,
    /// It is deleted, and the server refuses it.
    Refused,
}
