//! The Lease of a pod on an API server with a garbage collector.

use c5c3_harness::TestCluster;
use c5c3_kit::leader::{Candidate, Election, OwnPod};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, PostParams};
use kube::runtime::conditions::is_deleted;
use kube::runtime::wait::await_condition;
use serde_json::json;
use tokio_util::sync::CancellationToken;

#[tokio::test]
async fn a_lease_of_a_killed_leader_is_deleted_with_its_pod() {
    let cluster = TestCluster::start().await.unwrap();
    let (pods, leases): (Api<Pod>, Api<Lease>) =
        (Api::default_namespaced(cluster.client()), Api::default_namespaced(cluster.client()));
    let pod = json!({"metadata": {"name": "apple"}, "spec": {"nodeSelector": {"no": "such-node"},
        "containers": [{"name": "main", "image": "mill:1"}]}});
    let pod = pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
    let own = OwnPod { namespace: cluster.namespace().into(), name: "apple".into(), uid: pod.uid().unwrap() };
    let election = Election::new(cluster.namespace(), "mill", "apple_1").in_pod(Some(own));
    let candidate = Candidate::new(cluster.client(), election);
    let leading = tokio::spawn(candidate.lead(CancellationToken::new(), |_| {}, |_| std::future::pending::<()>()));
    let held = await_condition(leases.clone(), "mill", |lease: Option<&Lease>| lease.is_some()).await.unwrap().unwrap();
    // It does not come back: the process is killed.
    leading.abort();
    let now = DeleteParams::default().grace_period(0);
    pods.delete("apple", &now).await.unwrap();
    await_condition(leases, "mill", is_deleted(&held.uid().unwrap())).await.unwrap();
}
