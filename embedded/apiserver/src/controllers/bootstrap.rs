//! What every cluster has from the start: its namespaces, its roles.

use std::sync::Arc;

use serde_json::json;

use super::create;
use crate::server::Server;
use crate::status::ApiError;

/// Writes what is not there yet.
pub(crate) async fn bootstrap(server: &Arc<Server>) -> Result<(), ApiError> {
    for name in ["default", "kube-system", "kube-public", "kube-node-lease"] {
        let labels = json!({"kubernetes.io/metadata.name": name});
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}});
        create(server, "", "v1", "namespaces", namespace).await?;
    }
    for object in c5c3_auth::rbac::bootstrap::objects() {
        let plural = match object["kind"].as_str().unwrap_or_default() {
            "ClusterRole" => "clusterroles",
            "ClusterRoleBinding" => "clusterrolebindings",
            "Role" => "roles",
            _ => "rolebindings",
        };
        create(server, "rbac.authorization.k8s.io", "v1", plural, object).await?;
    }
    Ok(())
}
