//! What a service needs inside a RabbitMQ cluster: a virtual host, a user, and what the user may do.
//!
//! The topology operator logs in with the cluster's own first user. Names and the cluster cannot change later.

use kube::CustomResource;
use serde::{Deserialize, Serialize};

use super::super::readiness::Judge;
use crate::blocks::Condition;
use crate::ext::{NamedRef, Readiness, Ready};

const OPERATOR: &str = "the RabbitMQ messaging topology operator";

/// Label, and its value, without which the topology operator (since 1.20) refuses a User that imports a Secret.
/// It makes the operator watch the Secret, so that a new password there reaches RabbitMQ.
pub const IMPORT_LABEL: (&str, &str) = ("rabbitmq.com/topology-operator", "true");

/// A RabbitMQ cluster, by its object or by a Secret that tells how to reach it. Set one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RabbitmqClusterRef {
    /// Name of the RabbitmqCluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its namespace; that of the referring object when absent.
    /// Another one must be admitted by the cluster's annotation [`ALLOWED_NAMESPACES`](super::ALLOWED_NAMESPACES).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// A Secret with `uri`, `username` and `password`, for a RabbitMQ without an object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connection_secret: Option<NamedRef>,
}

impl RabbitmqClusterRef {
    /// The RabbitmqCluster `name` in the same namespace.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: Some(name.into()), ..Self::default() }
    }
}

/// A virtual host.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "rabbitmq.com",
    version = "v1beta1",
    kind = "Vhost",
    plural = "vhosts",
    namespaced,
    status = "TopologyStatus",
    derive = "PartialEq",
    derive = "Default",
    schema = "disabled"
)]
#[serde(rename_all = "camelCase")]
pub struct VhostSpec {
    /// Where it is.
    #[serde(default)]
    pub rabbitmq_cluster_reference: RabbitmqClusterRef,
    /// Its name.
    #[serde(default)]
    pub name: String,
    /// Type of queues that do not ask for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_queue_type: Option<QueueType>,
    /// What happens to the virtual host when the object is deleted; it is deleted when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletion_policy: Option<DeletionPolicy>,
    /// How much may be in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<VhostLimits>,
}

words! {
    /// Type of a queue.
    QueueType {
        /// Replicated: survives the loss of a broker.
        Quorum = "quorum",
        /// On one broker.
        Classic = "classic",
        /// A replicated log.
        Stream = "stream",
    }
}

words! {
    /// What happens in RabbitMQ when the object is deleted.
    DeletionPolicy {
        /// What it stands for is deleted.
        Delete = "delete",
        /// Nothing.
        Retain = "retain",
    }
}

/// How much may be in a virtual host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VhostLimits {
    /// Connections.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connections: Option<i32>,
    /// Queues.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queues: Option<i32>,
}

/// A user. Without an imported Secret the operator makes name and password, in [`user_credentials_secret`].
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "rabbitmq.com",
    version = "v1beta1",
    kind = "User",
    plural = "users",
    namespaced,
    status = "UserStatus",
    derive = "PartialEq",
    derive = "Default",
    schema = "disabled"
)]
#[serde(rename_all = "camelCase")]
pub struct UserSpec {
    /// Where the user is.
    #[serde(default)]
    pub rabbitmq_cluster_reference: RabbitmqClusterRef,
    /// A Secret with `username`, and `passwordHash` or `password`. It must carry the label [`IMPORT_LABEL`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub import_credentials_secret: Option<NamedRef>,
    /// What the user may do in the management interface.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<UserTag>,
    /// How much the user may open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<UserLimits>,
}

words! {
    /// What a user may do in the management interface.
    UserTag {
        /// See one's own virtual hosts.
        Management = "management",
        /// Also set policies.
        Policymaker = "policymaker",
        /// Also see all connections and nodes.
        Monitoring = "monitoring",
        /// Everything.
        Administrator = "administrator",
    }
}

/// How much a user may open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserLimits {
    /// Connections.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connections: Option<i32>,
    /// Channels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channels: Option<i32>,
}

/// What a user may do in a virtual host. Exactly one of `user` and `userReference` names the user.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "rabbitmq.com",
    version = "v1beta1",
    kind = "Permission",
    plural = "permissions",
    namespaced,
    status = "TopologyStatus",
    derive = "PartialEq",
    derive = "Default",
    schema = "disabled"
)]
#[serde(rename_all = "camelCase")]
pub struct PermissionSpec {
    /// Where the user is.
    #[serde(default)]
    pub rabbitmq_cluster_reference: RabbitmqClusterRef,
    /// The virtual host, by its name in RabbitMQ.
    #[serde(default)]
    pub vhost: String,
    /// The user, by the name in RabbitMQ.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The user, by the User object in the same namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_reference: Option<NamedRef>,
    /// What is permitted.
    #[serde(default)]
    pub permissions: Permissions,
}

/// Regular expressions on the names of queues and exchanges.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Permissions {
    /// Which may be declared and deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub configure: Option<String>,
    /// Which may be published to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write: Option<String>,
    /// Which may be consumed from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read: Option<String>,
}

impl Permissions {
    /// Everything in the virtual host.
    pub fn all() -> Self {
        let everything = Some(".*".to_string());
        Self { configure: everything.clone(), write: everything.clone(), read: everything }
    }
}

/// What the topology operator reports.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TopologyStatus {
    /// `Ready`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// The generation that the conditions are about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

/// What the topology operator reports of a User.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UserStatus {
    /// `Ready`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// The generation that the conditions are about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The name in RabbitMQ.
    #[serde(default)]
    pub username: String,
    /// The Secret with `username` and `password`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials: Option<NamedRef>,
}

/// The Secret that the operator makes for the User `name` that imports none: `username` and `password`.
pub fn user_credentials_secret(name: &str) -> String {
    format!("{name}-user-credentials")
}

macro_rules! ready_by_condition_and_generation {
    ($($kind:ty),+) => {
        $(impl Readiness for $kind {
            fn readiness(&self) -> Ready {
                Judge::judge(OPERATOR, &self.metadata, self.status.as_ref(), |judge, status| {
                    // The condition first: a failure explains why a generation has not been taken up.
                    judge.holds(&status.conditions, "Ready")?;
                    judge.current(status.observed_generation)
                })
            }
        })+
    };
}

ready_by_condition_and_generation!(Vhost, User, Permission);

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn user(status: &serde_json::Value) -> User {
        serde_json::from_value(json!({
            "apiVersion": "rabbitmq.com/v1beta1", "kind": "User", "metadata": {"name": "hare", "generation": 2},
            "spec": {"rabbitmqClusterReference": {"name": "burrow"}}, "status": status,
        }))
        .unwrap()
    }

    #[test]
    fn a_user_is_ready_by_condition_and_generation() {
        let ready = json!([{"type": "Ready", "status": "True", "reason": "SuccessfulCreateOrUpdate"}]);
        let status = |observed| json!({"username": "hare", "observedGeneration": observed, "conditions": ready});
        assert_eq!(user(&status(2)).readiness(), Ready::Yes);
        let Ready::No { reason, .. } = user(&status(1)).readiness() else { panic!() };
        assert_eq!(reason, "Outdated");
    }

    #[test]
    fn a_failure_is_told_even_if_its_generation_is_old() {
        let failed = json!({"username": "", "conditions": [
            {"type": "Ready", "status": "False", "reason": "FailedCreateOrUpdate", "message": "no such vhost"},
        ]});
        assert_eq!(
            user(&failed).readiness(),
            Ready::No { reason: "FailedCreateOrUpdate".into(), message: "no such vhost".into() },
        );
    }
}
