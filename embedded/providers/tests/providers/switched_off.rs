//! A provider that is switched off, for the genuine operator in its place.

use c5c3_api::ext::rook::CephCluster;
use c5c3_api::ext::valkey::Valkey;
use c5c3_harness::TestCluster;
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use kube::Api;
use kube::api::{ListParams, PostParams};
use kube::runtime::wait::await_condition;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::stage::{PATIENCE, of};

#[tokio::test]
async fn a_provider_that_is_switched_off_installs_no_kind_and_acts_on_no_object() {
    let cluster = TestCluster::in_process().await.unwrap();
    let (client, stop) = (cluster.client(), CancellationToken::new());
    let _stop = stop.clone().drop_guard();
    let off = vec!["rook".to_owned()];
    let rook = |kind: &str| c5c3_providers::provider_of("ceph.rook.io", kind) == Some("rook");
    assert!(["CephCluster", "CephBlockPool", "CephClient"].into_iter().all(rook));
    let left = c5c3_providers::definitions_without(&off);
    assert!(
        left.iter().all(|one| one.spec.group != "ceph.rook.io")
            && left.iter().any(|one| one.spec.group == "k8s.mariadb.com")
    );

    // The kind as the genuine operator brings it along.
    let genuine = c5c3_providers::all_definitions().into_iter().find(|one| one.spec.names.kind == "CephCluster");
    cluster.install(&genuine.unwrap()).await.unwrap();
    let clusters: Api<CephCluster> = Api::default_namespaced(client.clone());
    let pottery = of(json!({"metadata": {"name": "pottery"}, "spec": {"mon": {"count": 1}}}));
    clusters.create(&PostParams::default(), &pottery).await.unwrap();
    tokio::spawn(c5c3_providers::run(client.clone(), off, stop));
    let larder = of(json!({"metadata": {"name": "larder"}, "spec": {"replicas": 1}}));
    let made = async {
        let valkeys: Api<Valkey> = Api::default_namespaced(client.clone());
        while valkeys.create(&PostParams::default(), &larder).await.is_err() {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        let sets: Api<StatefulSet> = Api::default_namespaced(client.clone());
        await_condition(sets, "valkey-larder-primary", |set: Option<&StatefulSet>| set.is_some()).await.unwrap();
    };
    tokio::time::timeout(PATIENCE, made).await.expect("the others act");
    let untouched = clusters.get("pottery").await.unwrap();
    assert!(untouched.status.is_none() && untouched.metadata.finalizers.is_none(), "{untouched:?}");
    let deployments: Api<Deployment> = Api::default_namespaced(client);
    assert!(deployments.list(&ListParams::default()).await.unwrap().items.is_empty());
}
