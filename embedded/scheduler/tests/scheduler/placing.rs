//! Pods that find a node.

use std::collections::BTreeMap;

use c5c3_harness::Fault;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, PostParams};
use serde_json::json;

use crate::fixtures::{Stage, asking, change, condition, node, of, until};

#[tokio::test]
async fn a_pod_is_bound_and_told_where() {
    let stage = Stage::set(&["oak"]).await;
    stage.pod("web", asking("1")).await;
    assert_eq!(stage.node_of("web").await, "oak");
    let pod = stage.pods.get("web").await.unwrap();
    assert_eq!(condition(&pod).unwrap().0, "True");
    stage.has_event("web", "Normal Scheduled Successfully assigned default/web to oak").await;
}

#[tokio::test]
async fn the_last_place_goes_to_one_of_two() {
    let stage = Stage::set(&["oak"]).await;
    let (first, second) = (of::<Pod>(pod("first")), of::<Pod>(pod("second")));
    let created = PostParams::default();
    let (first, second) = tokio::join!(stage.pods.create(&created, &first), stage.pods.create(&created, &second));
    first.and(second).unwrap();
    let full = "0/1 nodes are available: 1 Insufficient cpu. preemption: 0/1 nodes are available: 1 No preemption victims \
                found for incoming pod.";
    let is_settled = |pod: Option<&Pod>| pod.and_then(condition).is_some();
    let first = until(&stage.pods, "first", is_settled).await.unwrap();
    let (winner, loser) = if node(&first).is_some() { ("first", "second") } else { ("second", "first") };
    assert_eq!(stage.node_of(winner).await, "oak");
    stage.is_told(loser, full).await;
    stage.pods.delete(winner, &DeleteParams::default().grace_period(0)).await.unwrap();
    assert_eq!(stage.node_of(loser).await, "oak");
}

fn pod(name: &str) -> serde_json::Value {
    json!({"metadata": {"name": name}, "spec": asking("1500m")})
}

#[tokio::test]
async fn a_binding_that_fails_is_told_forgotten_and_tried_again() {
    let stage = Stage::set(&["oak"]).await;
    stage.cluster.inject(Fault::answer(500).to_path("/binding"));
    stage.pod("web", asking("2")).await;
    let is_failed = |pod: Option<&Pod>| pod.and_then(condition).is_some_and(|told| told.1 == "SchedulerError");
    until(&stage.pods, "web", |pod| is_failed(pod) || pod.is_some_and(|pod| node(pod).is_some())).await;
    assert_eq!(stage.node_of("web").await, "oak", "the place is not taken by its own first try");
}

#[tokio::test]
async fn pods_that_want_to_be_apart_are_though_they_come_at_once() {
    let stage = Stage::set(&["ash", "elm", "oak"]).await;
    let apart = |name: &str| {
        let term = json!({"labelSelector": {"matchLabels": {"team": "db"}}, "topologyKey": "kubernetes.io/hostname"});
        let mut spec = asking("100m");
        spec["affinity"] = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}});
        of::<Pod>(json!({"metadata": {"name": name, "labels": {"team": "db"}}, "spec": spec}))
    };
    for name in ["db-0", "db-1", "db-2"] {
        stage.pods.create(&PostParams::default(), &apart(name)).await.unwrap();
    }
    let mut nodes = Vec::new();
    for name in ["db-0", "db-1", "db-2"] {
        nodes.push(stage.node_of(name).await);
    }
    nodes.sort();
    assert_eq!(nodes, ["ash", "elm", "oak"]);
}

#[tokio::test]
async fn what_is_not_its_business_is_left_alone() {
    let stage = Stage::set(&["oak"]).await;
    let mut foreign = asking("1");
    foreign["schedulerName"] = json!("another-scheduler");
    stage.pod("foreign", foreign).await;
    let mut held = asking("1");
    held["schedulingGates"] = json!([{"name": "example.com/quota"}]);
    stage.pod("held", held).await;
    let mut bound = asking("1");
    bound["nodeName"] = json!("elsewhere");
    stage.pod("bound", bound).await;
    stage.pod("ours", asking("1")).await;
    assert_eq!(stage.node_of("ours").await, "oak");
    let held = stage.pods.get("held").await.unwrap();
    let told = condition(&held).map(|told| (told.1, told.2));
    let wanted = ("SchedulingGated".into(), "Scheduling is blocked due to non-empty scheduling gates".into());
    assert_eq!(told, Some(wanted));
    let mut placed = stage.placed().await;
    placed.sort();
    assert_eq!(placed, ["elsewhere", "oak"]);
    change(&stage.pods, "held", json!({"spec": {"schedulingGates": null}})).await;
    assert_eq!(stage.node_of("held").await, "oak");
}

#[tokio::test]
async fn watches_that_break_are_taken_up_where_things_stand() {
    let stage = Stage::set(&["oak"]).await;
    stage.pod("first", asking("2")).await;
    stage.node_of("first").await;
    stage.cluster.drop_watches();
    stage.pods.delete("first", &DeleteParams::default().grace_period(0)).await.unwrap();
    stage.pod("second", asking("2")).await;
    assert_eq!(stage.node_of("second").await, "oak");
}

#[tokio::test]
async fn five_hundred_pods_fill_twenty_nodes_and_none_too_full() {
    let names: Vec<String> = (0..20).map(|n| format!("node-{n:02}")).collect();
    let stage = Stage::set(&names.iter().map(String::as_str).collect::<Vec<_>>()).await;
    // Twenty-five of these fill a node to the last thousandth.
    let pods: Vec<Pod> =
        (0..500).map(|n| of(json!({"metadata": {"name": format!("pod-{n}")}, "spec": asking("80m")}))).collect();
    for pod in &pods {
        stage.pods.create(&PostParams::default(), pod).await.unwrap();
    }
    for n in 0..500 {
        stage.node_of(&format!("pod-{n}")).await;
    }
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for node in stage.placed().await {
        *counts.entry(node).or_default() += 1;
    }
    assert_eq!(counts, names.into_iter().map(|name| (name, 25)).collect());
}
