//! A node with the rights of a node can read all that its network is made from.

use c5c3_auth::UserInfo;
use c5c3_harness::TestCluster;
use k8s_openapi::api::core::v1::{Namespace, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::Api;
use kube::api::{ListParams, PostParams};

#[tokio::test]
async fn a_node_may_read_what_its_network_is_made_from() {
    let cluster = TestCluster::in_process().await.unwrap();
    let node = cluster.client_as(UserInfo::new("system:node:n1", ["system:nodes", "system:authenticated"]));
    let policies = Api::<NetworkPolicy>::all(node.clone());
    let everything = ListParams::default();
    assert!(policies.list(&everything).await.is_err(), "Kubernetes itself does not let nodes read policies");

    let (role, binding) = c5c3_network::access::for_nodes();
    Api::all(cluster.client()).create(&PostParams::default(), &role).await.unwrap();
    Api::all(cluster.client()).create(&PostParams::default(), &binding).await.unwrap();
    policies.list(&everything).await.unwrap();
    Api::<Namespace>::all(node.clone()).list(&everything).await.unwrap();
    Api::<Pod>::all(node.clone()).list(&everything).await.unwrap();
    Api::<Service>::all(node.clone()).list(&everything).await.unwrap();
    Api::<EndpointSlice>::all(node).list(&everything).await.unwrap();
}
