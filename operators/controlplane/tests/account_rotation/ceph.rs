//! Users of Ceph: a ControlPlane makes and deletes them, the test plays Rook, and a Glance uses them.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use c5c3_api::ext::rook::{CephClient, CephCluster, NAMESPACE};
use c5c3_operator_glance::Images;
use c5c3_stage::{Stage, World};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Client, Resource, ResourceExt};
use serde_json::json;

use crate::site::{Server, Site, install};

/// What the names of the Secrets with keys begin with.
const KEYS: &str = "rook-ceph-client-";

impl Site<Images> {
    /// A Glance whose user of Ceph is rotated, as the ControlPlane lets it be.
    pub(crate) async fn with_ceph() -> Self {
        let stage = Stage::set(c5c3_operator_glance::operator, &World::<Images>::with_all(Vec::new())).await;
        for kind in ["ControlPlane", "CredentialRotation"] {
            install(&stage, kind).await;
        }
        for definition in c5c3_providers::all_definitions() {
            if definition.spec.group == "ceph.rook.io" {
                stage.cluster.install(&definition).await.unwrap();
            }
        }
        stage.cluster.namespace_named(NAMESPACE).await.unwrap();
        cluster(&stage.client).await;
        tokio::spawn(rook(stage.client.clone()));
        let mut glance = World::<Images>::object(&json!({}));
        glance["metadata"]["name"] = json!("glance");
        stage.create(&glance).await;
        let services = json!({"keystone": {}, "glance": {"backend": {"type": "rbd"}}});
        let plane = json!({"apiVersion": "c5c3.io/v1alpha1", "kind": "ControlPlane",
            "metadata": {"name": "lab", "namespace": "cloud"}, "spec": {"services": services}});
        stage.create(&plane).await;
        Self {
            stage,
            server: Server::Ceph,
            rotation: "glance-ceph-rotation",
            target: "glance-ceph-credentials",
            service: c5c3_operator_glance::operator,
            is_used: AtomicBool::new(false),
        }
    }
}

/// The objects of Rook.
pub(crate) fn rooks<K: Resource<DynamicType = (), Scope = NamespaceResourceScope>>(client: &Client) -> Api<K> {
    Api::namespaced(client.clone(), NAMESPACE)
}

/// The key of a user.
pub(crate) async fn key(client: &Client, user: &str) -> Option<String> {
    let data = rooks::<Secret>(client).get_opt(&format!("{KEYS}{user}")).await.unwrap()?.data?;
    String::from_utf8(data.get("userKey")?.0.clone()).ok()
}

/// A cluster that is ready, and where its monitors are.
async fn cluster(client: &Client) {
    let cluster = json!({"metadata": {"name": "rook-ceph"}, "spec": {"mon": {"count": 1}}});
    let (clusters, params) = (rooks::<CephCluster>(client), PostParams::default());
    clusters.create(&params, &serde_json::from_value(cluster).unwrap()).await.unwrap();
    let status = json!({"status": {"phase": "Ready", "observedGeneration": 1, "ceph": {"fsid": "f5"}}});
    clusters.patch_status("rook-ceph", &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
    let monitors = json!({"metadata": {"name": "rook-ceph-mon-endpoints"}, "data": {"data": "a=192.0.2.7:6789"}});
    rooks::<ConfigMap>(client).create(&params, &serde_json::from_value(monitors).unwrap()).await.unwrap();
}

/// Makes a key for each user, and deletes it with the user. A user that is made again has another key.
async fn rook(client: Client) {
    let (users, secrets) = (rooks::<CephClient>(&client), rooks::<Secret>(&client));
    loop {
        let found = users.list(&ListParams::default()).await.unwrap().items;
        for secret in secrets.list(&ListParams::default()).await.unwrap() {
            let (name, owner) = (secret.name_any(), secret.annotations().get("of").cloned());
            if name.starts_with(KEYS) && !found.iter().any(|user| user.uid() == owner) {
                let _ = secrets.delete(&name, &DeleteParams::default()).await;
            }
        }
        for user in found {
            let (name, uid) = (user.name_any(), user.uid().unwrap());
            let secret = json!({"metadata": {"name": format!("{KEYS}{name}"), "annotations": {"of": uid}},
                "stringData": {"userID": name, "userKey": format!("key-of-{uid}")}});
            let secret = serde_json::from_value(secret).unwrap();
            if secrets.create(&PostParams::default(), &secret).await.is_ok() {
                let status = json!({"status": {"phase": "Ready", "observedGeneration": user.metadata.generation}});
                let _ = users.patch_status(&name, &PatchParams::default(), &Patch::Merge(status)).await;
            }
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
