//! What a node must be allowed to read for its network, beyond what Kubernetes allows nodes anyway.

use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule, RoleRef, Subject};
use kube::core::ObjectMeta;

const NAME: &str = "c5c3:node-network";

/// What [`crate::services`] and [`crate::policies`] watch. Elsewhere kube-proxy and a network plugin have roles of their
/// own for this; here it is the node itself that reads.
fn watched() -> Vec<PolicyRule> {
    let read = |group: &str, resources: &[&str]| PolicyRule {
        api_groups: Some(vec![group.to_owned()]),
        resources: Some(resources.iter().map(ToString::to_string).collect()),
        verbs: vec!["list".to_owned(), "watch".to_owned()],
        ..PolicyRule::default()
    };
    vec![
        read("", &["namespaces", "pods", "services"]),
        read("discovery.k8s.io", &["endpointslices"]),
        read("networking.k8s.io", &["networkpolicies"]),
    ]
}

/// The role that allows all nodes to read what their network is made from, and who holds it.
pub fn for_nodes() -> (ClusterRole, ClusterRoleBinding) {
    let metadata = ObjectMeta { name: Some(NAME.to_owned()), ..ObjectMeta::default() };
    let group = "rbac.authorization.k8s.io".to_owned();
    let binding = ClusterRoleBinding {
        metadata: metadata.clone(),
        role_ref: RoleRef { api_group: group.clone(), kind: "ClusterRole".to_owned(), name: NAME.to_owned() },
        subjects: Some(vec![Subject {
            api_group: Some(group),
            kind: "Group".to_owned(),
            name: "system:nodes".to_owned(),
            ..Subject::default()
        }]),
    };
    (ClusterRole { metadata, rules: Some(watched()), ..ClusterRole::default() }, binding)
}
