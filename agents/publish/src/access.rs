//! What an agent may do: rights, and the policy that confines a token to the objects of its own node.

use serde_json::{Value, json};

/// What an agent is allowed to do.
#[derive(Clone, Debug)]
pub struct Access {
    /// Rules of a ClusterRole.
    pub in_cluster: Value,
    /// Rules of a Role in the namespace of its objects.
    pub in_namespace: Value,
    /// What the policy is about: API groups and resources.
    pub resources: Vec<(&'static str, Vec<&'static str>)>,
    /// Expressions over `object`, `oldObject`, `request` and `variables.node`, with what they refuse.
    pub validations: Vec<(String, &'static str)>,
}

/// The claim of a pod's token that says which node the pod is on. Kubernetes has it from 1.30 on.
const NODE: &str = "authentication.kubernetes.io/node-name";

impl Access {
    /// The policy and its binding. They concern one service account and no one else.
    pub fn policy(&self, name: &str, account: (&str, &str)) -> [Value; 2] {
        let (account, namespace) = account;
        let user = format!("system:serviceaccount:{namespace}:{account}");
        let rule = |(group, resources): &(&str, Vec<&str>)| {
            json!({"apiGroups": [group], "apiVersions": ["*"], "operations": ["CREATE", "UPDATE", "DELETE"],
                "resources": resources})
        };
        let has_node = (
            "variables.node != ''".to_owned(),
            "the token does not say which node it is of; agents need Kubernetes 1.30 or newer",
        );
        let validations = std::iter::once(&has_node).chain(&self.validations);
        let validation = |(expression, message): &(String, &str)| json!({"expression": expression, "message": message, "reason": "Forbidden"});
        let version = "admissionregistration.k8s.io/v1";
        let metadata = json!({"name": name, "labels": {"app.kubernetes.io/part-of": "c5c3"}});
        let policy = json!({
            "apiVersion": version, "kind": "ValidatingAdmissionPolicy", "metadata": metadata,
            "spec": {
                "failurePolicy": "Fail",
                "matchConstraints": {"resourceRules": self.resources.iter().map(rule).collect::<Vec<_>>()},
                "matchConditions": [{"name": "agent", "expression": format!("request.userInfo.username == '{user}'")}],
                "variables": [{"name": "node", "expression": format!(
                    "has(request.userInfo.extra) && '{NODE}' in request.userInfo.extra ? request.userInfo.extra['{NODE}'][0] : ''")}],
                "validations": validations.map(validation).collect::<Vec<_>>(),
            },
        });
        let binding = json!({
            "apiVersion": version, "kind": "ValidatingAdmissionPolicyBinding", "metadata": metadata,
            "spec": {"policyName": name, "validationActions": ["Deny"]},
        });
        [policy, binding]
    }
}
