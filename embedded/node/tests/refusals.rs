//! What goes wrong shows the reason and the event that users know, and is put right when its cause is.

#![allow(clippy::needless_pass_by_value, reason = "`json!(..)` reads better than `&json!(..)`")]

mod support;

use c5c3_cri::images;
use serde_json::{Value, json};
use support::{TestNode, container_status, idle, sh};

fn with(mut container: Value, name: &str, value: Value) -> Value {
    container[name] = value;
    container
}

#[tokio::test]
async fn images_that_are_not_there() {
    let node = TestNode::start().await;
    let image =
        |image: &str, policy: &str| with(with(idle("app"), "image", image.into()), "imagePullPolicy", policy.into());
    node.create("absent", json!({"containers": [image("127.0.0.1:1/absent:1", "IfNotPresent")]})).await;
    node.create("never", json!({"containers": [image("c5c3.local/late:1", "Never")]})).await;
    node.create("invalid", json!({"containers": [image("BAD!name", "IfNotPresent")]})).await;

    let message = node.waiting("absent", "app", "ImagePullBackOff").await;
    assert!(message.starts_with("Back-off pulling image \"127.0.0.1:1/absent:1\": ErrImagePull: "), "{message}");
    for event in ["Pulling: Pulling image", "Failed: Failed to pull image", "Failed: Error: ErrImagePull", "BackOff: "]
    {
        node.event("absent", event).await;
    }
    let message = node.waiting("never", "app", "ErrImageNeverPull").await;
    assert_eq!(message, "Container image \"c5c3.local/late:1\" is not present with pull policy of Never");
    let message = node.waiting("invalid", "app", "InvalidImageName").await;
    assert!(message.contains("invalid reference format"), "{message}");

    // An archive that appears is imported, and the pod goes on.
    let folder = node.machine.folder().join("images");
    std::fs::create_dir_all(&folder).unwrap();
    let mut late = images::busybox("/bin/busybox".as_ref()).unwrap();
    late.name = "c5c3.local/late:1".to_owned();
    std::fs::write(folder.join("late.tar"), late.archive().unwrap()).unwrap();
    node.ready("never").await;
}

#[tokio::test]
async fn commands_and_users_that_cannot_be() {
    let node = TestNode::start().await;
    let nonsense = json!({"name": "app", "command": ["/no/such/program"]});
    node.create("again", json!({"containers": [nonsense]})).await;
    node.create("once", json!({"restartPolicy": "Never", "containers": [nonsense]})).await;
    let root = with(idle("app"), "securityContext", json!({"runAsNonRoot": true, "runAsUser": 0}));
    node.create("root", json!({"containers": [root]})).await;

    node.waiting("again", "app", "CrashLoopBackOff").await;
    node.event("again", "Failed: Error: failed to create containerd task").await;
    let pod = node.phase("once", "Failed").await;
    let end = container_status(&pod, "app").unwrap().state.unwrap().terminated.unwrap();
    assert_eq!((end.reason.as_deref(), end.exit_code), (Some("StartError"), 128));
    let message = node.waiting("root", "app", "CreateContainerConfigError").await;
    assert!(message.contains("breaks non-root policy"), "{message}");
}

#[tokio::test]
async fn what_a_pod_refers_to_is_missed_until_it_is_there() {
    let node = TestNode::start().await;
    let env = json!([{"name": "PIN", "valueFrom": {"secretKeyRef": {"name": "key", "key": "pin"}}}]);
    node.create("env", json!({"containers": [with(idle("app"), "env", env)]})).await;
    let mount = json!([{"name": "till", "mountPath": "/till"}]);
    let app = with(idle("app"), "volumeMounts", mount);
    let volumes = json!([{"name": "till", "configMap": {"name": "till"}}]);
    node.create("files", json!({"containers": [app], "volumes": volumes})).await;

    assert_eq!(node.waiting("env", "app", "CreateContainerConfigError").await, "secret \"key\" not found");
    node.event("env", "Failed: Error: secret \"key\" not found").await;
    node.event("files", "FailedMount: MountVolume.SetUp failed for volume \"till\" : configmap \"till\" not found")
        .await;
    node.waiting("files", "app", "ContainerCreating").await;

    let metadata = |name: &str| json!({"name": name});
    node.apply(json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata("key"), "stringData": {"pin": "1"}}))
        .await;
    node.apply(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata("till"), "data": {"open": "8"}}))
        .await;
    node.ready("env").await;
    node.ready("files").await;
}

#[tokio::test]
async fn a_pod_that_does_not_fit_or_asks_for_the_forbidden_fails() {
    let node = TestNode::start().await;
    let large = with(sh("app", "true"), "resources", json!({"requests": {"cpu": "1000"}}));
    node.create("large", json!({"containers": [large]})).await;
    let sysctls = json!({"sysctls": [{"name": "kernel.msgmax", "value": "1"}]});
    node.create("forbidden", json!({"containers": [idle("app")], "securityContext": sysctls})).await;
    let status = node.phase("large", "Failed").await.status.unwrap();
    assert_eq!(status.reason.as_deref(), Some("OutOfcpu"));
    assert!(status.message.unwrap().contains("requested: 1000000"));
    let status = node.phase("forbidden", "Failed").await.status.unwrap();
    assert_eq!(status.reason.as_deref(), Some("SysctlForbidden"));
    node.delete("large").await;
}
