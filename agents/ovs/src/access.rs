//! What the agent of Open vSwitch may do: the OVSNode of its own node.

use c5c3_agent_publish::Access;
use serde_json::json;

/// The rights of the agent, and what its node's token is confined to.
pub fn access() -> Access {
    let group = "ovs.c5c3.io";
    Access {
        in_cluster: json!([{"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]}]),
        in_namespace: json!([
            {"apiGroups": [group], "resources": ["ovsnodes"], "verbs": ["create", "get", "list", "patch", "watch"]},
            {"apiGroups": [group], "resources": ["ovsnodes/status"], "verbs": ["patch"]},
        ]),
        resources: vec![(group, vec!["ovsnodes", "ovsnodes/status"])],
        validations: vec![(
            "request.operation != 'DELETE' && object.metadata.name == variables.node".into(),
            "an agent may only write the OVSNode of its own node",
        )],
    }
}
