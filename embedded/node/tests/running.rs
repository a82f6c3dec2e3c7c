//! Pods run, restart and end, on a real containerd.

#![allow(clippy::needless_pass_by_value, reason = "`json!(..)` reads better than `&json!(..)`")]

mod support;

use k8s_openapi::api::core::v1::{ContainerStateTerminated, Node, Pod};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};
use support::{NODE, TestNode, container_status, has_condition, idle, sh};

#[tokio::test]
async fn a_plain_pod_gets_ready_and_is_deleted_without_a_trace() {
    let node = TestNode::start().await;
    node.create("web", json!({"containers": [idle("app")]})).await;
    let pod = node.ready("web").await;
    let status = pod.status.as_ref().unwrap();
    assert_eq!(status.phase.as_deref(), Some("Running"));
    assert_eq!(status.host_ip.as_deref(), Some(node.config.address.to_string().as_str()));
    assert_eq!(status.qos_class.as_deref(), Some("BestEffort"));
    for name in ["PodReadyToStartContainers", "Initialized", "ContainersReady"] {
        assert!(has_condition(&pod, name, "True"), "{name}");
    }
    let app = container_status(&pod, "app").unwrap();
    assert!(app.ready && app.restart_count == 0 && app.started == Some(true));
    let address = status.pod_ip.clone().unwrap();
    assert!(node.exec("web", "app", "ip addr").await.contains(&address));
    assert_eq!(node.exec("web", "app", "hostname").await, "web");
    for event in ["Pulled: Container image", "Created: Created container: app", "Started: Started container app"] {
        node.event("web", event).await;
    }

    node.delete("web").await;
    node.event("web", "Killing: Stopping container app").await;
    assert!(node.runtime.list_pod_sandbox(None).await.unwrap().is_empty());
    for folder in ["pods", "logs"] {
        let left = std::fs::read_dir(node.config.site.data().join(folder)).unwrap().count();
        assert_eq!(left, 0, "{folder}");
    }
}

#[tokio::test]
async fn a_pods_status_follows_the_generation_of_its_specification() {
    let node = TestNode::start().await;
    node.create("web", json!({"containers": [idle("app")]})).await;
    let seen = |pod: &Pod| pod.status.as_ref().and_then(|status| status.observed_generation);
    let pod = node.ready("web").await;
    assert_eq!((pod.metadata.generation, seen(&pod)), (Some(1), Some(1)));
    let later = Patch::Merge(json!({"spec": {"activeDeadlineSeconds": 3600}}));
    node.pods().patch("web", &PatchParams::default(), &later).await.unwrap();
    let pod = node.until("web", |pod| (seen(pod) == Some(2)).then(|| pod.clone())).await;
    let conditions = pod.status.unwrap().conditions.unwrap();
    assert!(conditions.iter().all(|condition| condition.observed_generation == Some(2)), "{conditions:?}");
}

#[tokio::test]
async fn the_node_registers_itself_and_becomes_ready() {
    let node = TestNode::start().await;
    let nodes = Api::<Node>::all(node.client.clone());
    let ready = node
        .eventually("the node is ready", async || {
            let status = nodes.get_opt(NODE).await.unwrap()?.status?;
            let conditions = status.conditions.clone()?;
            conditions.iter().any(|one| one.type_ == "Ready" && one.status == "True").then_some(status)
        })
        .await;
    assert_eq!(ready.addresses.unwrap()[0].address, node.config.address.to_string());
    assert!(ready.node_info.unwrap().container_runtime_version.starts_with("containerd://1."));
}

/// How a container ended.
fn end(pod: &Pod, container: &str) -> Option<ContainerStateTerminated> {
    container_status(pod, container)?.state?.terminated
}

#[tokio::test]
async fn init_containers_run_in_order_and_sidecars_outlive_what_they_serve() {
    let node = TestNode::start().await;
    let mount = json!([{"name": "notes", "mountPath": "/notes"}]);
    let with_notes = |mut container: Value| {
        container["volumeMounts"] = mount.clone();
        container
    };
    let mut sidecar = with_notes(sh(
        "proxy",
        "echo proxy >> /notes/order; trap 'echo proxy ends >> /notes/order; exit 0' TERM; sleep 1; touch /notes/up; \
         while :; do sleep 0.1; done",
    ));
    sidecar["restartPolicy"] = "Always".into();
    sidecar["startupProbe"] = json!({"exec": {"command": ["test", "-e", "/notes/up"]}, "periodSeconds": 1,
        "failureThreshold": 60});
    let second = with_notes(sh("second", "test -e /notes/up && echo second >> /notes/order"));
    let main = with_notes(sh("app", "echo app >> /notes/order; sleep 1; echo app ends >> /notes/order"));
    let folder = tempfile::tempdir().unwrap();
    node.create(
        "job",
        json!({
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 30,
            "initContainers": [with_notes(sh("first", "echo first >> /notes/order")), sidecar, second],
            "containers": [main],
            "volumes": [{"name": "notes", "hostPath": {"path": folder.path()}}],
        }),
    )
    .await;
    let pod = node.phase("job", "Succeeded").await;
    let order = std::fs::read_to_string(folder.path().join("order")).unwrap();
    assert_eq!(order, "first\nproxy\nsecond\napp\napp ends\nproxy ends\n");
    assert_eq!(end(&pod, "first").unwrap().reason.as_deref(), Some("Completed"));
    assert_eq!(end(&pod, "proxy").unwrap().exit_code, 0);
    assert!(has_condition(&pod, "Initialized", "True") && has_condition(&pod, "Ready", "False"));
}

#[tokio::test]
async fn containers_restart_by_their_policy_and_leave_their_last_words() {
    let node = TestNode::start().await;
    let mut last_words = sh("app", "echo by file > /dev/termination-log; exit 3");
    last_words["terminationMessagePath"] = "/dev/termination-log".into();
    let mut logged = sh("app", "echo by log; exit 4");
    logged["terminationMessagePolicy"] = "FallbackToLogsOnError".into();
    node.create("crash", json!({"containers": [sh("app", "exit 1")]})).await;
    node.create("done", json!({"restartPolicy": "OnFailure", "containers": [sh("app", "true")]})).await;
    node.create("failed", json!({"restartPolicy": "Never", "containers": [last_words]})).await;
    node.create("logged", json!({"restartPolicy": "Never", "containers": [logged]})).await;
    node.create("late", json!({"activeDeadlineSeconds": 2, "containers": [idle("app")]})).await;
    node.create("flaky", json!({"restartPolicy": "OnFailure", "containers": [sh("app", "exit 1")]})).await;

    assert_eq!(end(&node.phase("done", "Succeeded").await, "app").unwrap().exit_code, 0);
    let failed = end(&node.phase("failed", "Failed").await, "app").unwrap();
    assert_eq!(
        (failed.exit_code, failed.reason.as_deref(), failed.message.as_deref()),
        (3, Some("Error"), Some("by file\n"))
    );
    assert_eq!(end(&node.phase("logged", "Failed").await, "app").unwrap().message.as_deref(), Some("by log\n"));
    let late = node.phase("late", "Failed").await.status.unwrap();
    assert_eq!(late.reason.as_deref(), Some("DeadlineExceeded"));
    let message = node.waiting("crash", "app", "CrashLoopBackOff").await;
    assert!(message.starts_with("back-off ") && message.contains("container=app pod=crash_default("), "{message}");
    let crashed = node.until("crash", |pod| container_status(pod, "app").filter(|app| app.restart_count >= 2)).await;
    assert_eq!(crashed.last_state.unwrap().terminated.unwrap().exit_code, 1);
    node.event("crash", "BackOff: Back-off restarting failed container app in pod crash_default(").await;
    node.until("flaky", |pod| container_status(pod, "app").filter(|app| app.restart_count >= 1)).await;
}

#[tokio::test]
async fn hooks_run_and_a_container_has_its_grace_and_no_more() {
    let node = TestNode::start().await;
    let folder = tempfile::tempdir().unwrap();
    let mut hooked = sh("app", "trap 'echo term >> /notes/order; exit 0' TERM; while :; do sleep 0.1; done");
    hooked["volumeMounts"] = json!([{"name": "notes", "mountPath": "/notes"}]);
    let exec = |script: &str| json!({"exec": {"command": ["sh", "-c", script]}});
    hooked["lifecycle"] =
        json!({"postStart": exec("echo start >> /notes/order"), "preStop": exec("echo stop >> /notes/order")});
    let volumes = json!([{"name": "notes", "hostPath": {"path": folder.path()}}]);
    node.create("hooked", json!({"terminationGracePeriodSeconds": 60, "containers": [hooked], "volumes": volumes}))
        .await;
    let mut broken = idle("app");
    broken["lifecycle"] = json!({"postStart": exec("echo no; exit 9")});
    node.create("broken", json!({"containers": [broken]})).await;
    let mut slow = sh("app", "trap '' TERM; while :; do sleep 0.1; done");
    slow["lifecycle"] = json!({"preStop": {"sleep": {"seconds": 1}}});
    node.create("stubborn", json!({"terminationGracePeriodSeconds": 3600, "containers": [slow]})).await;

    node.ready("hooked").await;
    node.delete("hooked").await;
    let order = std::fs::read_to_string(folder.path().join("order")).unwrap();
    assert_eq!(order, "start\nstop\nterm\n");
    node.event("broken", "FailedPostStartHook: PostStartHook failed").await;
    node.ready("stubborn").await;
    let pods = node.pods();
    pods.delete("stubborn", &DeleteParams::default()).await.unwrap();
    node.event("stubborn", "Killing: Stopping container app").await;
    // A shorter grace cuts the longer one short.
    pods.delete("stubborn", &DeleteParams::default().grace_period(1)).await.unwrap();
    node.gone("stubborn").await;
}

#[tokio::test]
async fn a_container_whose_image_is_changed_is_replaced() {
    let node = TestNode::start().await;
    node.create("web", json!({"containers": [idle("app")]})).await;
    node.ready("web").await;
    let containers = json!([{"name": "app", "image": "c5c3.local/other:1"}]);
    let patch = Patch::Strategic(json!({"spec": {"containers": containers}}));
    node.pods().patch("web", &PatchParams::default(), &patch).await.unwrap();
    node.event("web", "Killing: Container app definition changed, will be restarted").await;
    node.until("web", |pod| container_status(pod, "app")?.state?.waiting).await;
}
