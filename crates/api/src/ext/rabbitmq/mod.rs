//! Kinds of the two RabbitMQ operators (`rabbitmq.com`): RabbitmqCluster of the cluster operator, and Vhost, User and
//! Permission of the messaging topology operator.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Affinity, Toleration};
use kube::CustomResource;
use serde::{Deserialize, Serialize};

use super::readiness::Judge;
use super::{NamedRef, Readiness, Ready};
use crate::blocks::{Condition, Quantity, Resources};

mod topology;

pub use topology::{
    DeletionPolicy, IMPORT_LABEL, Permission, PermissionSpec, Permissions, QueueType, RabbitmqClusterRef,
    TopologyStatus, User, UserLimits, UserSpec, UserStatus, UserTag, Vhost, VhostLimits, VhostSpec,
    user_credentials_secret,
};

const OPERATOR: &str = "the RabbitMQ cluster operator";

/// Annotation of a RabbitmqCluster: the namespaces, by comma, whose Vhosts, Users and Permissions it admits beside its
/// own, or `*`.
pub const ALLOWED_NAMESPACES: &str = "rabbitmq.com/topology-allowed-namespaces";

/// A RabbitMQ cluster.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "rabbitmq.com",
    version = "v1beta1",
    kind = "RabbitmqCluster",
    plural = "rabbitmqclusters",
    namespaced,
    status = "RabbitmqClusterStatus",
    derive = "PartialEq",
    derive = "Default",
    schema = "disabled"
)]
#[serde(rename_all = "camelCase")]
pub struct RabbitmqClusterSpec {
    /// How many brokers; 1 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// The image; the operator's when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// The volumes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub persistence: Option<Persistence>,
    /// CPU and memory of each broker; 1 to 2 CPUs and 2Gi when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<BrokerResources>,
    /// Configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rabbitmq: Option<Configuration>,
    /// Encryption.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<RabbitmqTls>,
    /// The Service for clients.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<ClientService>,
    /// Where the first user comes from; the operator makes it when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_backend: Option<SecretBackend>,
    /// Attraction to nodes and pods, and repulsion from them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub affinity: Option<Affinity>,
    /// Taints that are tolerated.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tolerations: Vec<Toleration>,
    /// How long a broker may take to stop, in seconds; a week when absent, since it waits for its queues to be in sync.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub termination_grace_period_seconds: Option<i64>,
    /// How long a broker waits before it starts, in seconds; 30 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_start_seconds: Option<i32>,
    /// Whether feature flags are enabled after an upgrade.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auto_enable_all_feature_flags: Option<bool>,
    /// Patches of the objects that the operator makes. We write none.
    #[serde(default, rename = "override", skip_serializing_if = "Option::is_none")]
    pub overrides: Option<serde_json::Value>,
}

/// The volumes of a RabbitMQ cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Persistence {
    /// Storage class; the cluster's default when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage_class_name: Option<String>,
    /// Size of each; 10Gi when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage: Option<Quantity>,
}

/// CPU and memory of a broker. The memory asked for is always the memory allowed: RabbitMQ sets its high watermark by
/// what is allowed, and the operator warns when the two differ.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BrokerResources(Resources);

impl BrokerResources {
    /// `resources`, with the memory made equal: to the limit if there is one, else to the request.
    pub fn new(mut resources: Resources) -> Self {
        const MEMORY: &str = "memory";
        if let Some(memory) = resources.limits.get(MEMORY).or_else(|| resources.requests.get(MEMORY)).cloned() {
            resources.limits.insert(MEMORY.to_string(), memory.clone());
            resources.requests.insert(MEMORY.to_string(), memory);
        }
        Self(resources)
    }

    /// As a pod has them.
    pub fn get(&self) -> &Resources {
        &self.0
    }
}

/// Configuration of a RabbitMQ cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Configuration {
    /// Plugins beside the operator's own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub additional_plugins: Vec<String>,
    /// Lines for `rabbitmq.conf`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub additional_config: Option<String>,
    /// Text of `advanced.config`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advanced_config: Option<String>,
    /// Text of `rabbitmq-env.conf`; neither `$(` nor a backtick may occur.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env_config: Option<String>,
}

/// Encryption of a RabbitMQ cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RabbitmqTls {
    /// The certificate, as a Secret of type `kubernetes.io/tls`. With it, the port told to clients is 5671.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_name: Option<String>,
    /// The CA of clients; set it to have them show certificates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_secret_name: Option<String>,
    /// Whether only encrypted connections are taken.
    #[serde(default, rename = "disableNonTLSListeners", skip_serializing_if = "Option::is_none")]
    pub disable_non_tls_listeners: Option<bool>,
}

/// The Service for clients.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ClientService {
    /// Type; ClusterIP when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub r#type: Option<ServiceType>,
    /// Annotations.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

words! {
    /// Type of a Service.
    ServiceType {
        /// Within the cluster.
        ClusterIp = "ClusterIP",
        /// Through a load balancer.
        LoadBalancer = "LoadBalancer",
        /// On a port of each node.
        NodePort = "NodePort",
    }
}

/// Where the first user of a RabbitMQ cluster comes from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SecretBackend {
    /// A Secret that exists already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external_secret: Option<NamedRef>,
}

/// What the cluster operator reports.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RabbitmqClusterStatus {
    /// `AllReplicasReady`, `ClusterAvailable`, `NoWarnings` and `ReconcileSuccess`; there is no `Ready`.
    #[serde(default)]
    pub conditions: Vec<Condition>,
    /// The generation that the conditions are about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The first user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_user: Option<DefaultUser>,
    /// The first user's Secret once more, for service bindings; the topology operator logs in with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub binding: Option<NamedRef>,
    /// `ok`, `ok (N unavailable)`, `quorum-critical: ...` or `unavailable`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quorum_status: Option<String>,
}

/// The first user of a RabbitMQ cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DefaultUser {
    /// The Secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_reference: Option<DefaultUserSecret>,
    /// The Service for clients.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_reference: Option<DefaultUserService>,
}

/// The Secret of the first user.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DefaultUserSecret {
    /// Name.
    #[serde(default)]
    pub name: String,
    /// Namespace.
    #[serde(default)]
    pub namespace: String,
    /// Which keys hold `username` and `password`.
    #[serde(default)]
    pub keys: BTreeMap<String, String>,
}

/// The Service for clients.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DefaultUserService {
    /// Name.
    #[serde(default)]
    pub name: String,
    /// Namespace.
    #[serde(default)]
    pub namespace: String,
}

/// The Secret of the first user of the RabbitmqCluster `name`: `username`, `password`, `host`, `port`,
/// `connection_string`.
pub fn default_user_secret(name: &str) -> String {
    format!("{name}-default-user")
}

impl Readiness for RabbitmqCluster {
    fn readiness(&self) -> Ready {
        Judge::judge(OPERATOR, &self.metadata, self.status.as_ref(), |judge, status| {
            // Errors first: they explain why replicas are missing.
            judge.holds(&status.conditions, "ReconcileSuccess")?;
            judge.current(status.observed_generation)?;
            judge.holds(&status.conditions, "AllReplicasReady")?;
            judge.holds(&status.conditions, "ClusterAvailable")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn cluster(observed: i64, replicas_ready: &str) -> RabbitmqCluster {
        serde_json::from_value(json!({
            "apiVersion": "rabbitmq.com/v1beta1", "kind": "RabbitmqCluster",
            "metadata": {"name": "burrow", "generation": 3}, "spec": {},
            "status": {"observedGeneration": observed, "conditions": [
                {"type": "AllReplicasReady", "status": replicas_ready, "reason": "NotAllPodsReady",
                    "message": "1/3 Pods ready"},
                {"type": "ClusterAvailable", "status": "True"},
                {"type": "NoWarnings", "status": "False", "reason": "MemoryRequestAndLimitDifferent"},
                {"type": "ReconcileSuccess", "status": "True"},
            ]},
        }))
        .unwrap()
    }

    #[test]
    fn a_cluster_is_ready_when_all_three_conditions_hold_of_the_present_generation() {
        assert_eq!(cluster(3, "True").readiness(), Ready::Yes);
        let Ready::No { reason, .. } = cluster(2, "True").readiness() else { panic!() };
        assert_eq!(reason, "Outdated");
        assert_eq!(
            cluster(3, "False").readiness(),
            Ready::No { reason: "NotAllPodsReady".into(), message: "1/3 Pods ready".into() },
        );
    }

    #[test]
    fn a_broker_asks_for_the_memory_it_may_use() {
        let made = |text: &str| {
            let resources = BrokerResources::new(serde_json::from_str(text).unwrap());
            serde_json::to_value(resources).unwrap()
        };
        assert_eq!(
            made(r#"{"requests": {"memory": "2Gi", "cpu": "1"}}"#),
            json!({"requests": {"memory": "2Gi", "cpu": "1"}, "limits": {"memory": "2Gi"}}),
        );
        assert_eq!(
            made(r#"{"requests": {"memory": "1Gi"}, "limits": {"memory": "4Gi"}}"#),
            json!({"requests": {"memory": "4Gi"}, "limits": {"memory": "4Gi"}}),
        );
        assert_eq!(made(r#"{"limits": {"cpu": "2"}}"#), json!({"limits": {"cpu": "2"}}));
    }
}
