//! What every cluster has from the start: its namespaces, its roles, its most important priorities, its own Service.

use std::sync::Arc;

use serde_json::json;

use super::{SERVER, create, myself};
use crate::server::Server;
use crate::status::ApiError;

/// The classes of pods without which a cluster, or a node, does not work.
const PRIORITIES: [(&str, i64, &str); 2] = [
    (
        "system-cluster-critical",
        2_000_000_000,
        "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
    ),
    (
        "system-node-critical",
        2_000_001_000,
        "Used for system critical pods that must not be moved from their current node.",
    ),
];

/// Writes what is not there yet.
pub(crate) async fn bootstrap(server: &Arc<Server>) -> Result<(), ApiError> {
    for name in ["default", "kube-system", "kube-public", "kube-node-lease"] {
        let labels = json!({"kubernetes.io/metadata.name": name});
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}});
        create(server, SERVER, namespace).await?;
    }
    for object in c5c3_auth::rbac::bootstrap::objects() {
        create(server, SERVER, object).await?;
    }
    for (name, value, description) in PRIORITIES {
        let class = json!({
            "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name},
            "value": value, "description": description,
        });
        create(server, SERVER, class).await?;
    }
    myself::serve(server).await
}
