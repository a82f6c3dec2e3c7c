//! A node that stops and starts again: its containers go on, and what changed meanwhile is caught up with.

#![allow(clippy::needless_pass_by_value, reason = "`json!(..)` reads better than `&json!(..)`")]

mod support;

use std::time::Duration;

use c5c3_cri::testing::pods;
use c5c3_cri::{images, v1};
use kube::api::DeleteParams;
use serde_json::json;
use support::{TestNode, container_status, idle, sh};

#[tokio::test]
async fn containers_outlive_the_node_and_are_found_again() {
    let mut node = TestNode::start().await;
    for name in ["stays", "deleted", "vanishes", "dies"] {
        node.create(name, json!({"containers": [idle("app")]})).await;
    }
    let mut ids = Vec::new();
    for name in ["stays", "deleted", "vanishes", "dies"] {
        ids.push(container_status(&node.ready(name).await, "app").unwrap().container_id.unwrap());
    }
    node.pause().await;
    assert_eq!(node.runtime.list_containers(None).await.unwrap().len(), 4);
    let pods = node.pods();
    pods.delete("deleted", &DeleteParams::default()).await.unwrap();
    pods.delete("vanishes", &DeleteParams::default().grace_period(0)).await.unwrap();
    node.runtime.stop_container(ids[3].trim_start_matches("containerd://"), Duration::from_secs(1)).await.unwrap();
    node.resume();

    node.gone("deleted").await;
    node.until("dies", |pod| container_status(pod, "app").filter(|app| app.restart_count == 1 && app.ready)).await;
    let stays = container_status(&node.ready("stays").await, "app").unwrap();
    assert_eq!((stays.container_id.as_ref(), stays.restart_count), (Some(&ids[0]), 0));
    node.eventually("what belongs to nobody is removed", async || {
        let sandboxes = node.runtime.list_pod_sandbox(None).await.unwrap();
        (sandboxes.len() == 2).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_pod_that_is_deleted_goes_although_a_container_that_could_not_start_runs() {
    let mut node = TestNode::start().await;
    node.create("web", json!({"containers": [idle("app")]})).await;
    let uid = node.ready("web").await.metadata.uid.unwrap();
    let sandbox = node.runtime.list_pod_sandbox(None).await.unwrap().remove(0).id;
    node.pause().await;
    let config = v1::ContainerConfig {
        labels: [("io.kubernetes.pod.uid".to_owned(), uid)].into(),
        args: ["sleep", "600"].map(str::to_owned).into(),
        ..pods::container(images::BUSYBOX)
    };
    let frame = pods::sandbox(&node.machine.sites[0], "web");
    let lost = node.runtime.create_container(&sandbox, config, frame).await.unwrap();
    node.machine.start_task(0, &lost);
    node.runtime.start_container(&lost).await.unwrap_err();
    assert_eq!(node.runtime.container_status(&lost).await.unwrap().reason, "StartError");
    node.pods().delete("web", &DeleteParams::default()).await.unwrap();
    node.resume();
    node.gone("web").await;
    assert!(node.runtime.list_containers(None).await.unwrap().is_empty());
    assert!(node.runtime.list_pod_sandbox(None).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_sandbox_that_is_lost_is_replaced() {
    let node = TestNode::start().await;
    node.create("web", json!({"containers": [idle("app")]})).await;
    node.ready("web").await;
    let sandbox = node.runtime.list_pod_sandbox(None).await.unwrap().remove(0).id;
    node.runtime.stop_pod_sandbox(&sandbox).await.unwrap();
    // A container that was about to start in the old sandbox when it went may count as a start, too.
    node.until("web", |pod| container_status(pod, "app").filter(|app| app.restart_count >= 1 && app.ready)).await;
    node.event("web", "SandboxChanged: ").await;
}

#[tokio::test]
async fn a_log_that_grows_is_rotated() {
    let node = TestNode::start().await;
    let script = "yes 0123456789012345678901234567890123456789 | head -c 8000000; trap 'exit 0' TERM; \
                  while :; do echo still here; sleep 0.1; done";
    node.create("talks", json!({"containers": [sh("app", script)]})).await;
    let pod = node.ready("talks").await;
    let folder = format!("default_talks_{}/app", pod.metadata.uid.unwrap());
    let folder = node.config.site.data().join("logs").join(folder);
    node.eventually("the log is rotated", async || {
        let files: Vec<_> = std::fs::read_dir(&folder).ok()?.flatten().map(|entry| entry.file_name()).collect();
        let current = std::fs::read_to_string(folder.join("0.log")).ok()?;
        (files.len() > 1 && current.len() < 10 << 20 && current.contains("still here")).then_some(())
    })
    .await;
}
