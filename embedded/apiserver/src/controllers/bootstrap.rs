//! What every cluster has from the start: its namespaces, its roles, its most important priorities, its own Service.

use std::sync::Arc;

use futures::future::try_join_all;
use serde_json::{Value, json};

use super::{SERVER, create, myself, roles};
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

/// Writes what is not there yet. Namespaces come first, since others live in them; the rest is written at once, so that
/// it shares few syncs.
pub(crate) async fn bootstrap(server: &Arc<Server>) -> Result<(), ApiError> {
    create_all(server, namespaces()).await?;
    let access = c5c3_auth::rbac::bootstrap::objects();
    let objects = access.iter().cloned().chain(priorities()).chain(flow_control());
    try_join_all(access.iter().map(|object| roles::complete(server, object))).await?;
    create_all(server, objects).await?;
    myself::serve(server).await
}

async fn create_all(server: &Arc<Server>, objects: impl IntoIterator<Item = Value>) -> Result<(), ApiError> {
    try_join_all(objects.into_iter().map(|object| create(server, SERVER, object))).await.map(drop)
}

fn namespaces() -> impl Iterator<Item = Value> {
    ["default", "kube-system", "kube-public", "kube-node-lease"].into_iter().map(|name| {
        let labels = json!({"kubernetes.io/metadata.name": name});
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}})
    })
}

fn priorities() -> impl Iterator<Item = Value> {
    PRIORITIES.into_iter().map(|(name, value, description)| {
        json!({
            "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name},
            "value": value, "description": description,
        })
    })
}

/// The flows that every request can be in. Nothing here is queued by them; who looks finds them.
fn flow_control() -> Vec<Value> {
    let object = |kind: &str, name: &str, spec: Value| {
        json!({
            "apiVersion": "flowcontrol.apiserver.k8s.io/v1", "kind": kind, "spec": spec,
            "metadata": {"name": name, "annotations": {"apf.kubernetes.io/autoupdate-spec": "true"}},
        })
    };
    let flow = |level: &str, precedence: u32, groups: &[&str]| {
        let subjects: Vec<Value> =
            groups.iter().map(|name| json!({"kind": "Group", "group": {"name": name}})).collect();
        let paths = json!([{"verbs": ["*"], "nonResourceURLs": ["*"]}]);
        let resources = json!([{
            "verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "clusterScope": true, "namespaces": ["*"],
        }]);
        let rule = json!({"subjects": subjects, "nonResourceRules": paths, "resourceRules": resources});
        json!({"priorityLevelConfiguration": {"name": level}, "matchingPrecedence": precedence, "rules": [rule]})
    };
    let everyone = ["system:unauthenticated", "system:authenticated"];
    let mut last = flow("catch-all", 10000, &everyone);
    last["distinguisherMethod"] = json!({"type": "ByUser"});
    let reject = json!({"nominalConcurrencyShares": 5, "lendablePercent": 0, "limitResponse": {"type": "Reject"}});
    vec![
        object("PriorityLevelConfiguration", "exempt", json!({"type": "Exempt"})),
        object("PriorityLevelConfiguration", "catch-all", json!({"type": "Limited", "limited": reject})),
        object("FlowSchema", "exempt", flow("exempt", 1, &["system:masters"])),
        object("FlowSchema", "catch-all", last),
    ]
}
