//! Volumes, on a real containerd.

#![allow(clippy::needless_pass_by_value, reason = "`json!(..)` reads better than `&json!(..)`")]

mod support;

use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use support::{TestNode, idle};

fn mounting(volumes: &[(&str, Value)]) -> Value {
    let mounts: Vec<Value> =
        volumes.iter().map(|(name, _)| json!({"name": name, "mountPath": format!("/mnt/{name}")})).collect();
    let mut app = idle("app");
    app["volumeMounts"] = mounts.into();
    let volumes: Vec<Value> = volumes
        .iter()
        .map(|(name, source)| {
            let mut volume = source.clone();
            volume["name"] = (*name).into();
            volume
        })
        .collect();
    json!({"containers": [app], "volumes": volumes})
}

fn map(kind: &str, name: &str, data: Value) -> Value {
    let field = if kind == "Secret" { "stringData" } else { "data" };
    json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name}, field: data})
}

#[tokio::test]
async fn maps_and_secrets_are_files_that_change_at_once() {
    let node = TestNode::start().await;
    node.apply(map("ConfigMap", "till", json!({"open": "8", "close": "18"}))).await;
    node.apply(map("Secret", "key", json!({"pin": "1234"}))).await;
    let items = json!([{"key": "open", "path": "deep/from", "mode": 0o400}]);
    let sources = json!([
        {"configMap": {"name": "till", "items": [{"key": "open", "path": "o"}]}},
        {"secret": {"name": "key"}},
        {"secret": {"name": "none", "optional": true}},
        {"downwardAPI": {"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]}},
        {"serviceAccountToken": {"path": "token", "audience": "shop.test", "expirationSeconds": 600}},
    ]);
    node.create(
        "files",
        mounting(&[
            ("map", json!({"configMap": {"name": "till"}})),
            ("items", json!({"configMap": {"name": "till", "items": items}})),
            ("secret", json!({"secret": {"secretName": "key", "defaultMode": 0o440}})),
            ("all", json!({"projected": {"sources": sources}})),
        ]),
    )
    .await;
    node.ready("files").await;
    let read = async |path: &str| node.exec("files", "app", &format!("cat /mnt/{path}")).await;
    assert_eq!((read("map/open").await, read("map/close").await), ("8".to_owned(), "18".to_owned()));
    assert_eq!(node.exec("files", "app", "stat -L -c %a /mnt/items/deep/from /mnt/secret/pin").await, "400\n440");
    assert_eq!(
        (read("secret/pin").await, read("all/o").await, read("all/pin").await),
        ("1234".into(), "8".into(), "1234".into())
    );
    assert_eq!(read("all/labels").await, "app=\"files\"");
    assert_eq!(read("all/token").await.matches('.').count(), 2);
    let mounts = node.exec("files", "app", "grep /mnt/secret /proc/mounts").await;
    assert!(mounts.starts_with("tmpfs ") && mounts.contains(" ro,"), "{mounts}");

    node.apply(map("ConfigMap", "till", json!({"open": "9"}))).await;
    node.apply(map("Secret", "key", json!({"pin": "4321"}))).await;
    let patch = Patch::Merge(json!({"metadata": {"labels": {"app": "changed"}}}));
    node.pods().patch("files", &PatchParams::default(), &patch).await.unwrap();
    node.eventually("the files follow", async || {
        let now = [read("map/open").await, read("secret/pin").await, read("all/labels").await];
        (now == ["9", "4321", "app=\"changed\""]).then_some(())
    })
    .await;
    assert!(read("map/close").await.contains("No such file"), "a key that is gone is gone");
}

#[tokio::test]
async fn folders_of_the_pod_the_node_and_of_claims() {
    let node = TestNode::start().await;
    let folder = tempfile::tempdir().unwrap();
    let place = |name: &str| folder.path().join(name).display().to_string();
    std::fs::create_dir(folder.path().join("local")).unwrap();
    claim(&node, "data", json!({"hostPath": {"path": place("claimed"), "type": "DirectoryOrCreate"}})).await;
    claim(&node, "local", json!({"local": {"path": place("local")}})).await;
    let mut spec = mounting(&[
        ("empty", json!({"emptyDir": {}})),
        ("memory", json!({"emptyDir": {"medium": "Memory", "sizeLimit": "4Mi"}})),
        ("host", json!({"hostPath": {"path": place("host"), "type": "DirectoryOrCreate"}})),
        ("data", json!({"persistentVolumeClaim": {"claimName": "data"}})),
        ("local", json!({"persistentVolumeClaim": {"claimName": "local"}})),
    ]);
    spec["securityContext"] = json!({"fsGroup": 2000, "runAsUser": 1000});
    let mounts = spec["containers"][0]["volumeMounts"].as_array_mut().unwrap();
    mounts.push(json!({"name": "empty", "mountPath": "/mnt/inner", "subPath": "a/b"}));
    mounts.push(json!({"name": "data", "mountPath": "/mnt/own", "subPathExpr": "$(NAME)", "readOnly": true}));
    spec["containers"][0]["env"] = json!([{"name": "NAME", "value": "named"}]);
    node.create("folders", spec).await;
    node.ready("folders").await;
    let run = async |command: &str| node.exec("folders", "app", command).await;
    assert_eq!(run("touch /mnt/empty/x /mnt/inner/y /mnt/local/z && ls /mnt/empty/a/b").await, "y");
    assert_eq!(run("stat -c %g /mnt/empty /mnt/memory /mnt/local/z").await, "2000\n2000\n2000");
    assert!(run("df -k /mnt/memory").await.contains("4096"));
    assert!(folder.path().join("host").is_dir() && folder.path().join("claimed/named").is_dir());
    assert!(run("touch /mnt/own/x").await.contains("Read-only file system"));
    assert!(folder.path().join("local/z").exists());

    node.delete("folders").await;
    let data = node.config.site.data().display().to_string();
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(!mounts.lines().any(|line| line.contains(&format!("{data}/pods/"))), "{mounts}");
    assert!(folder.path().join("local/z").exists(), "a claim's data outlives the pod");
}

/// A claim that is bound to a volume of its name.
async fn claim(node: &TestNode, name: &str, source: Value) {
    let (api_version, modes) = ("v1", json!(["ReadWriteOnce"]));
    let spec = json!({"accessModes": modes, "volumeName": name, "storageClassName": "",
        "resources": {"requests": {"storage": "1Mi"}}});
    let claim =
        json!({"apiVersion": api_version, "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": spec});
    node.apply(claim).await;
    let claims =
        kube::Api::<k8s_openapi::api::core::v1::PersistentVolumeClaim>::namespaced(node.client.clone(), "default");
    let bound = Patch::Merge(json!({"status": {"phase": "Bound"}}));
    let claim = claims.patch_status(name, &PatchParams::default(), &bound).await.unwrap();
    let mut spec = json!({"accessModes": modes, "capacity": {"storage": "1Mi"}, "storageClassName": "",
        "claimRef": {"namespace": "default", "name": name, "uid": claim.metadata.uid},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [
            {"key": "kubernetes.io/hostname", "operator": "In", "values": ["node-0"]}]}]}}});
    for (key, value) in source.as_object().unwrap() {
        spec[key] = value.clone();
    }
    node.apply(
        json!({"apiVersion": api_version, "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec}),
    )
    .await;
}
