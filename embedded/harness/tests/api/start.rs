//! A cluster starts fast enough for every test to have its own.

use std::time::{Duration, Instant};

use c5c3_harness::TestCluster;
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::api::PostParams;

use crate::fixtures::Tested;

#[tokio::test]
async fn a_cluster_starts_in_milliseconds() -> Tested {
    let _warm = TestCluster::start().await?;
    let began = Instant::now();
    let cluster = TestCluster::start().await?;
    let started = began.elapsed();
    Api::<Namespace>::all(cluster.client()).get("default").await?;
    let took = began.elapsed();
    eprintln!("a cluster starts in {started:?}, and answers after {took:?}");
    if cfg!(not(debug_assertions)) {
        assert!(took < Duration::from_millis(50), "{took:?}");
    }
    Ok(())
}

#[tokio::test]
async fn clusters_do_not_see_each_other() -> Tested {
    let (one, other) = (TestCluster::start().await?, TestCluster::start().await?);
    let maps =
        |cluster: &TestCluster| Api::<k8s_openapi::api::core::v1::ConfigMap>::default_namespaced(cluster.client());
    maps(&one).create(&PostParams::default(), &crate::fixtures::basket("mine")).await?;
    assert!(maps(&other).get_opt("mine").await?.is_none());
    Ok(())
}
