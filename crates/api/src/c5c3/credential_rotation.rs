//! CredentialRotation: application credentials and accounts that are replaced regularly, and revoked after.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use c5c3_schema::Problem;

use crate::blocks::{Condition, LocalRef, ObjectName, SecretStoreRef, WaitStatus};
use crate::catalog::{Rules, problem};

/// On the Secret of a service's account: the names of the Secrets of all accounts that have to exist, with commas between them.
pub const ACCOUNTS: &str = "c5c3.io/accounts";

/// On the Secret of a service's account: the names of the Secrets of accounts that are revoked.
pub const REVOKED_ACCOUNTS: &str = "c5c3.io/revoked-accounts";

/// Keeps a service's credential young: a new one before the old expires, the old one revoked after a grace period.
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
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Last", type_ = "date", json_path = ".status.lastRotation"),
    printcolumn(name = "Next", type_ = "string", json_path = ".status.nextRotation"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("(self.rotationType == 'cephUser') == has(self.cephCluster)")
    .message("has a cephCluster without rotationType cephUser, or the type without the cluster; set both or neither"))]
#[x_kube(validation = Rule::new("self.gracePeriodDays < self.schedule.intervalDays")
    .message("has a grace period as long as the interval, so revoked credentials would pile up; make gracePeriodDays smaller than schedule.intervalDays"))]
pub struct CredentialRotationSpec {
    /// Whose credential it is. For an application credential the name of the K-ORC User object; for accounts the name of the
    /// first account, to which the second one adds `-b`. It cannot be changed.
    #[x_kube(validation = Rule::new("self == oldSelf").message("cannot be changed; create a CredentialRotation for the other user"))]
    pub target_service_user: ObjectName,
    /// What is rotated. It cannot be changed.
    #[x_kube(validation = Rule::new("self == oldSelf").message("cannot be changed; create a CredentialRotation of the other type"))]
    pub rotation_type: RotationType,
    /// How often.
    pub schedule: RotationSchedule,
    /// How many days the old credential still works beside the new one.
    #[serde(default = "one")]
    #[schemars(range(min = 0, max = 365))]
    pub grace_period_days: i32,
    /// The services that sign in with the credential. The old one is revoked only when all of them run with the new one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub consumers: Vec<CredentialConsumer>,
    /// Whether the credential can make further application credentials, as K-ORC's own has to.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unrestricted: bool,
    /// The K-ORC Role objects that the credential has; all roles of the user in its project when empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub roles: Vec<ObjectName>,
    /// The store that the credential is delivered through. When absent it is the ClusterSecretStore `openbao-cluster-store`,
    /// and without that a plain Secret. Accounts are always in a plain Secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_store_ref: Option<SecretStoreRef>,
    /// The Secret that services read. When absent it is `<user's name in Keystone>-keystone-credentials`,
    /// `<targetServiceUser>-db-credentials`, `<targetServiceUser>-rabbitmq-credentials` or
    /// `<targetServiceUser>-ceph-credentials`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_secret_ref: Option<LocalRef>,
    /// The CephCluster that users of Ceph belong to, in the namespace `rook-ceph`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ceph_cluster: Option<ObjectName>,
}

/// A service that signs in with the credential.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct CredentialConsumer {
    /// API version of the object, such as `nova.openstack.c5c3.io/v1alpha1`.
    #[schemars(length(min = 1, max = 317))]
    pub api_version: String,
    /// Kind of the object.
    pub kind: ConsumerKind,
    /// Name of the object, in the same namespace.
    pub name: ObjectName,
}

/// The kinds whose status says which credential they run with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[expect(missing_docs, reason = "each is the kind of its name")]
pub enum ConsumerKind {
    Cinder,
    Glance,
    Keystone,
    Neutron,
    Nova,
    Placement,
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
    /// An account on MariaDB. Two alternate, so that no password changes while it is in use.
    DatabaseAccount,
    /// An account on RabbitMQ. Two alternate.
    BrokerAccount,
    /// A user of Ceph, for which the ControlPlane makes CephClients. Two alternate.
    CephUser,
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

/// How far a rotation is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum RotationPhase {
    /// The next credential is being created.
    #[default]
    Creating,
    /// It is on its way to the Secret that services read.
    Delivering,
    /// Services are being replaced by ones that use it.
    Verifying,
    /// It is in use, and the old one still works.
    Grace,
    /// The old one is being deleted.
    Revoking,
    /// It is tried whether the old one is refused.
    VerifyingRevoked,
    /// There is one credential, and it is in use.
    Idle,
}

/// Why a credential is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum RotationReason {
    /// There was none.
    Created,
    /// The time for it has come.
    Scheduled,
    /// The annotation `c5c3.io/rotate` asks for it.
    Requested,
    /// The present one has other roles or rights than the spec asks for, or its secret is lost.
    Outdated,
}

/// What the operator observed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct CredentialRotationStatus {
    /// Ready, CredentialAvailable, CredentialDelivered, RotationScheduled.
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
    /// How far the rotation is. It is written before anything of the phase is done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<RotationPhase>,
    /// Why the rotation that is under way, or the last one, was started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<RotationReason>,
    /// The steps of the rotation that is under way, or of the last one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub steps: Vec<RotationStep>,
    /// The value of the annotation `c5c3.io/rotate` that was acted on last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub handled_request: Option<String>,
    /// When the credential was last replaced, or made for the first time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_rotation: Option<Time>,
    /// When it will be replaced next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_rotation: Option<Time>,
    /// The credential in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_credential: Option<RotatedCredential>,
    /// The credential that takes its place, while a rotation is under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_credential: Option<RotatedCredential>,
    /// The credential that was in use before and is not revoked yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous_credential: Option<RotatedCredential>,
    /// The ApplicationCredential object in use, or the Secret of the account in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_credential_ref: Option<LocalRef>,
    /// The ApplicationCredential object, or the Secret of the account, that is in its grace period.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous_credential_ref: Option<LocalRef>,
}

/// A credential, without its secret.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct RotatedCredential {
    /// Which of the user's credentials it is, counted from 1: the number at the end of its name.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub version: i64,
    /// Its id in Keystone, or the name of the account.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub id: Option<String>,
    /// When it was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_at: Option<Time>,
    /// When it stops working.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Time>,
    /// When it is revoked, for one that is no longer in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoke_at: Option<Time>,
}

/// A step of a rotation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct RotationStep {
    /// Its name, that of a phase.
    pub name: RotationPhase,
    /// When it began.
    pub since: Time,
    /// Whether it is done.
    #[serde(default)]
    pub done: bool,
    /// What it waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 4096))]
    pub message: Option<String>,
}

impl Rules for CredentialRotation {
    fn problems(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        for (index, consumer) in self.spec.consumers.iter().enumerate() {
            let expected = consumer.kind.api_version();
            if consumer.api_version != expected {
                problems.push(problem(
                    format!("spec.consumers[{index}].apiVersion"),
                    format!("\"{}\" has no kind {:?}", consumer.api_version, consumer.kind),
                    format!("write {expected}"),
                ));
            }
        }
        if self.spec.rotation_type != RotationType::ApplicationCredential {
            let given = [
                ("roles", !self.spec.roles.is_empty()),
                ("unrestricted", self.spec.unrestricted),
                ("secretStoreRef", self.spec.secret_store_ref.is_some()),
            ];
            for (field, _) in given.iter().filter(|(_, given)| *given) {
                problems.push(problem(format!("spec.{field}"), "is for application credentials only", "remove it"));
            }
        }
        problems
    }
}

impl ConsumerKind {
    /// The API version of the kind.
    pub fn api_version(self) -> String {
        format!("{}.openstack.c5c3.io/v1alpha1", format!("{self:?}").to_lowercase())
    }
}
