//! `c5c3 status` and `why` on a cluster of others, by what a kubeconfig lets them read.

use std::process::Command;

use c5c3_harness::TestCluster;
use kube::Api;
use kube::api::{Patch, PatchParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use serde_json::json;

/// What a command prints, and its exit code.
async fn c5c3(kubeconfig: std::path::PathBuf, arguments: &'static [&'static str]) -> (String, Option<i32>) {
    let run = move || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_c5c3"));
        let output = command.args(arguments).env("KUBECONFIG", kubeconfig).output().unwrap();
        let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
        (text, output.status.code())
    };
    tokio::task::spawn_blocking(run).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_control_plane_that_waits_is_shown_with_its_reason() {
    let cluster = TestCluster::start().await.unwrap();
    cluster.install(&c5c3_api::find("c5c3.io/v1alpha1", "ControlPlane").unwrap().crd()).await.unwrap();
    let port = cluster.listen().unwrap();
    let kubeconfig = port.kubeconfig();
    let (text, code) = c5c3(kubeconfig.clone(), &["status"]).await;
    assert!(text.contains("there is no ControlPlane") && code == Some(1), "{code:?} {text}");

    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("c5c3.io", "v1alpha1", "ControlPlane"));
    let planes: Api<DynamicObject> = Api::namespaced_with(cluster.client(), cluster.namespace(), &resource);
    let plane = json!({"apiVersion": "c5c3.io/v1alpha1", "kind": "ControlPlane", "metadata": {"name": "lab"},
        "spec": {"services": {"keystone": {}}}});
    let params = PatchParams::apply("test").force();
    planes.patch("lab", &params, &Patch::Apply(plane)).await.unwrap();
    let status = json!({"status": {"phase": "Infrastructure", "waitingFor": [{"object": "storageclass/gold",
        "condition": "exists", "because": "spec.infrastructure.mariadb.storageClass names it (does not exist)", "failed": true}],
        "conditions": [{"type": "Ready", "status": "False", "reason": "StorageClassMissing", "message": "it is missing"}],
        "services": {"keystone": {"ready": false, "message": "does not exist yet"}}}});
    planes.patch_status("lab", &PatchParams::default(), &Patch::Merge(status)).await.unwrap();

    let (text, code) = c5c3(kubeconfig.clone(), &["why"]).await;
    assert!(text.contains("storageclass/gold") && text.contains("mariadb.storageClass names it"), "{text}");
    assert_eq!(code, Some(1));
    let (text, code) = c5c3(kubeconfig.clone(), &["status"]).await;
    assert!(text.contains("✗ controlplane/lab") && text.contains("· keystone"), "{text}");
    assert_eq!(code, Some(0));
    let (text, code) = c5c3(kubeconfig, &["why", "keystone/keystone"]).await;
    assert!(text.contains("there is no keystone/keystone") && code == Some(1), "{text}");
}
