//! CephCluster, CephBlockPool and CephClient, as far as that goes without a container: what is made before the first
//! monitor answers, and what is refused.

use c5c3_api::ext::rook::{CephBlockPool, CephClient, CephCluster, MON_ENDPOINTS, MON_SECRET};
use c5c3_harness::Fault;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Secret, Service};
use kube::ResourceExt;
use kube::api::ListParams;
use serde_json::{Value, json};

use crate::stage::Stage;

#[expect(clippy::needless_pass_by_value, reason = "a test writes it down where it is used")]
fn object(kind: &str, name: &str, spec: Value) -> Value {
    json!({"apiVersion": "ceph.rook.io/v1", "kind": kind, "metadata": {"name": name}, "spec": spec})
}

#[tokio::test]
async fn monitors_and_managers_have_the_names_and_secrets_that_rook_gives_them() {
    let stage = Stage::set().await;
    stage.cluster.inject(Fault::lose_answer().to("patch", "/secrets/rook-ceph-mon"));
    stage.cluster.inject(Fault::answer(500).to("patch", "/deployments").times(2));
    stage.create::<CephCluster>(object("CephCluster", "pottery", json!({"mon": {"allowMultiplePerNode": true}}))).await;
    stage.eventually::<Deployment>("rook-ceph-mgr-a", |it: Option<&Deployment>| it.is_some()).await;
    let deployments = stage.api::<Deployment>().list(&ListParams::default()).await.unwrap();
    let names: Vec<_> = deployments.iter().map(ResourceExt::name_any).collect();
    assert_eq!(names, ["rook-ceph-mgr-a", "rook-ceph-mon-a", "rook-ceph-mon-b", "rook-ceph-mon-c"]);

    let secret = stage.secret(MON_SECRET).await;
    assert_eq!(secret["ceph-username"], "client.admin");
    assert_eq!(stage.secret("rook-ceph-admin-keyring").await["keyring"].matches(&secret["ceph-secret"]).count(), 1);
    let endpoints = stage.api::<ConfigMap>().get(MON_ENDPOINTS).await.unwrap().data.unwrap()["data"].clone();
    let service = stage.api::<Service>().get("rook-ceph-mon-a").await.unwrap().spec.unwrap().cluster_ip.unwrap();
    assert!(endpoints.starts_with(&format!("a={service}:6789,b=")), "{endpoints}");

    // No command runs here, so that nothing is known of the cluster and nothing in it is made.
    let said = stage.not_ready::<CephCluster>("pottery", "Progressing").await;
    assert!(said.starts_with("Configuring Ceph Mons"), "{said}");
    stage.create::<CephClient>(object("CephClient", "potter", json!({"caps": {"mon": "profile rbd"}}))).await;
    stage.not_ready::<CephClient>("potter", "Progressing").await;
    assert!(stage.api::<Secret>().get_opt("rook-ceph-client-potter").await.unwrap().is_none());

    // What is in it keeps a cluster.
    stage.api::<CephCluster>().delete("pottery", &kube::api::DeleteParams::default()).await.unwrap();
    let blocked = |cluster: Option<&CephCluster>| {
        let message = cluster.and_then(|cluster| cluster.status.as_ref()?.message.clone()).unwrap_or_default();
        message == "Deletion is blocked: delete cephclient/potter first"
    };
    stage.eventually::<CephCluster>("pottery", blocked).await;
    stage.delete::<CephClient>("potter").await;
    stage.eventually::<CephCluster>("pottery", |cluster: Option<&CephCluster>| cluster.is_none()).await;
}

#[tokio::test]
async fn what_cannot_be_had_is_refused_by_its_field() {
    let stage = Stage::set().await;
    stage.create::<CephCluster>(object("CephCluster", "pottery", json!({"storage": {"useAllDevices": true}}))).await;
    let why = stage.not_ready::<CephCluster>("pottery", "Failure").await;
    assert!(why.starts_with("spec.storage.useAllDevices: "), "{why}");
    stage.create::<CephBlockPool>(object("CephBlockPool", "bricks", json!({}))).await;
    let why = stage.not_ready::<CephBlockPool>("bricks", "Failure").await;
    assert!(why.starts_with("spec.replicated.size: "), "{why}");
    // A second cluster has no place in the namespace.
    stage.create::<CephCluster>(object("CephCluster", "quarry", json!({}))).await;
    let why = stage.not_ready::<CephCluster>("quarry", "Failure").await;
    assert!(why.starts_with("cephcluster/pottery is in this namespace"), "{why}");
}
