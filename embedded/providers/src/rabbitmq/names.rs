//! What everything that belongs to a RabbitMQ cluster is called.

use c5c3_api::ext::rabbitmq::RabbitmqCluster;
use kube::ResourceExt;
use serde_json::{Value, json};

/// The names of a cluster.
#[derive(Clone, Debug)]
pub(super) struct Names {
    pub(super) cluster: String,
    pub(super) namespace: String,
    pub(super) members: i32,
}

impl Names {
    pub(super) fn of(cluster: &RabbitmqCluster) -> Self {
        Self {
            cluster: cluster.name_any(),
            namespace: cluster.namespace().unwrap_or_default(),
            members: cluster.spec.replicas.unwrap_or(1),
        }
    }

    /// The StatefulSet, and the service account of its pods.
    pub(super) fn server(&self) -> String {
        format!("{}-server", self.cluster)
    }

    /// The Service that gives each member a name.
    pub(super) fn nodes(&self) -> String {
        format!("{}-nodes", self.cluster)
    }

    pub(super) fn cookie(&self) -> String {
        format!("{}-erlang-cookie", self.cluster)
    }

    pub(super) fn configuration(&self) -> String {
        format!("{}-server-conf", self.cluster)
    }

    pub(super) fn plugins(&self) -> String {
        format!("{}-plugins-conf", self.cluster)
    }

    /// The name that clients connect to.
    pub(super) fn host(&self) -> String {
        format!("{}.{}.svc", self.cluster, self.namespace)
    }

    /// The lasting host names of the members.
    pub(super) fn hosts(&self) -> impl Iterator<Item = String> + '_ {
        (0..self.members).map(|number| format!("{}-{number}.{}.{}", self.server(), self.nodes(), self.namespace))
    }

    /// What selects the members.
    pub(super) fn selector(&self) -> Value {
        json!({"app.kubernetes.io/name": self.cluster})
    }

    /// The metadata of something that belongs to the cluster.
    pub(super) fn metadata(&self, name: &str) -> Value {
        json!({"name": name, "namespace": self.namespace, "labels": self.labels()})
    }

    pub(super) fn labels(&self) -> Value {
        json!({
            "app.kubernetes.io/name": self.cluster,
            "app.kubernetes.io/component": "rabbitmq",
            "app.kubernetes.io/part-of": "rabbitmq",
        })
    }
}
