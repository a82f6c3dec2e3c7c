//! Pods that fit nowhere, and what ends their wait.

use serde_json::json;

use crate::fixtures::{Stage, asking, change};

const TOO_LARGE: &str = "0/1 nodes are available: 1 Insufficient cpu. preemption: 0/1 nodes are available: 1 Preemption is \
                         not helpful for scheduling.";

#[tokio::test]
async fn a_pod_that_fits_nowhere_is_told_so_until_a_node_comes() {
    let stage = Stage::set(&["oak"]).await;
    stage.pod("large", asking("3")).await;
    stage.is_told("large", TOO_LARGE).await;
    stage.has_event("large", &format!("Warning FailedScheduling {TOO_LARGE}")).await;
    stage.node("elm", "4").await;
    assert_eq!(stage.node_of("large").await, "elm");
}

#[tokio::test]
async fn without_nodes_pods_wait_for_the_first() {
    let stage = Stage::set(&[]).await;
    stage.pod("early", asking("1")).await;
    stage.is_told("early", "no nodes available to schedule pods").await;
    stage.node("oak", "2").await;
    assert_eq!(stage.node_of("early").await, "oak");
}

#[tokio::test]
async fn a_cordon_that_is_lifted_ends_the_wait() {
    let stage = Stage::set(&["oak"]).await;
    change(&stage.nodes, "oak", json!({"spec": {"unschedulable": true}})).await;
    // The scheduler may not have heard of the cordon yet: only a pod that needs the label shows that it has.
    change(&stage.nodes, "oak", json!({"metadata": {"labels": {"disk": "ssd"}}})).await;
    let mut spec = asking("1");
    spec["nodeSelector"] = json!({"disk": "ssd"});
    stage.pod("web", spec).await;
    let cordoned = "0/1 nodes are available: 1 node(s) were unschedulable. preemption: 0/1 nodes are available: 1 \
                    Preemption is not helpful for scheduling.";
    stage.is_told("web", cordoned).await;
    change(&stage.nodes, "oak", json!({"spec": {"unschedulable": null}})).await;
    assert_eq!(stage.node_of("web").await, "oak");
}

#[tokio::test]
async fn a_label_and_a_toleration_end_the_wait() {
    let stage = Stage::set(&["oak"]).await;
    let mut choosy = asking("1");
    choosy["nodeSelector"] = json!({"disk": "ssd"});
    stage.pod("choosy", choosy).await;
    let unchosen = "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector. preemption: 0/1 nodes are \
                    available: 1 Preemption is not helpful for scheduling.";
    stage.is_told("choosy", unchosen).await;
    let taint = json!([{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]);
    change(&stage.nodes, "oak", json!({"spec": {"taints": taint}, "metadata": {"labels": {"disk": "ssd"}}})).await;
    let tainted = "0/1 nodes are available: 1 node(s) had untolerated taint {gpu: yes}. preemption: 0/1 nodes are available: \
                   1 Preemption is not helpful for scheduling.";
    stage.is_told("choosy", tainted).await;
    change(&stage.pods, "choosy", json!({"spec": {"tolerations": [{"key": "gpu", "operator": "Exists"}]}})).await;
    assert_eq!(stage.node_of("choosy").await, "oak");
}

#[tokio::test]
async fn company_that_arrives_ends_the_wait() {
    let stage = Stage::set(&["oak"]).await;
    let mut follower = asking("1");
    let term = json!({"labelSelector": {"matchLabels": {"app": "leader"}}, "topologyKey": "kubernetes.io/hostname"});
    follower["affinity"] = json!({"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}});
    stage.pod("follower", follower).await;
    let alone = "0/1 nodes are available: 1 node(s) didn't match pod affinity rules. preemption: 0/1 nodes are available: 1 \
                 Preemption is not helpful for scheduling.";
    stage.is_told("follower", alone).await;
    stage.pod("leader", asking("1")).await;
    assert_eq!(stage.node_of("follower").await, "oak");
}
