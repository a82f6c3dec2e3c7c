//! What the agent of a hypervisor may do: the status of its own Hypervisor, and Migrations that it takes part in.

use c5c3_agent_publish::Access;
use serde_json::json;

/// The rights of the agent, and what its node's token is confined to.
pub fn access() -> Access {
    let group = "hypervisor.c5c3.io";
    let is_over =
        "has(oldObject.status.type) && oldObject.status.type in ['success', 'failed', 'cancelled', 'completed']";
    let is_origin = format!(
        "has(object.status.origin) && object.status.origin == variables.node && (!has(oldObject.status) || \
         !has(oldObject.status.origin) || oldObject.status.origin == variables.node || ({is_over}))"
    );
    let is_destination = "has(object.status.destination) && object.status.destination == variables.node && \
         has(oldObject.status) && has(oldObject.status.origin) && has(object.status.origin) && \
         object.status.origin == oldObject.status.origin";
    Access {
        in_cluster: json!([
            {"apiGroups": [group], "resources": ["hypervisors"], "verbs": ["get", "list", "watch"]},
            {"apiGroups": [group], "resources": ["hypervisors/status"], "verbs": ["patch"]},
        ]),
        in_namespace: json!([
            {"apiGroups": [group], "resources": ["migrations"], "verbs": ["create", "get", "list"]},
            {"apiGroups": [group], "resources": ["migrations/status"], "verbs": ["patch", "update"]},
        ]),
        resources: vec![(group, vec!["hypervisors", "hypervisors/status", "migrations", "migrations/status"])],
        validations: vec![
            (
                "request.resource.resource != 'hypervisors' || request.name == variables.node".into(),
                "an agent may only write the Hypervisor of its own node",
            ),
            (
                format!(
                    "request.resource.resource != 'migrations' || request.operation == 'CREATE' || \
                     (request.operation == 'UPDATE' && has(object.status) && (({is_origin}) || ({is_destination})))"
                ),
                "an agent may only write Migrations from or to its own node",
            ),
        ],
    }
}
