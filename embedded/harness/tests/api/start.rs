//! A cluster starts fast enough for every test to have its own, and starts again in place.

use std::time::Instant;

use c5c3_harness::{Fault, TestCluster};
use futures::StreamExt;
use futures::future::join_all;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenReview};
use k8s_openapi::api::core::v1::{ConfigMap, ServiceAccount};
use kube::api::{Api, ListParams, PostParams, WatchParams};
use kube::{Client, ResourceExt};
use serde_json::json;

use crate::fixtures::{PATIENCE, Tested, basket, of, orchard, told, tree};

fn maps(cluster: &TestCluster) -> Api<ConfigMap> {
    Api::default_namespaced(cluster.client())
}

#[tokio::test]
async fn thirty_clusters_at_once_do_not_see_each_other() -> Tested {
    let Some(_warm) = TestCluster::embedded("another cluster need not bear thirty").await? else { return Ok(()) };
    let began = Instant::now();
    let clusters: Vec<TestCluster> =
        join_all((0..30).map(|_| TestCluster::start())).await.into_iter().collect::<Result<_, _>>()?;
    let started = began.elapsed();
    for (number, cluster) in clusters.iter().enumerate() {
        maps(cluster).create(&PostParams::default(), &basket(&format!("mine-{number}"))).await?;
    }
    for (number, cluster) in clusters.iter().enumerate() {
        let found = maps(cluster).list(&ListParams::default()).await?.items;
        let names: Vec<_> = found.iter().map(ResourceExt::name_any).filter(|name| name.starts_with("mine")).collect();
        assert_eq!(names, [format!("mine-{number}")]);
    }
    eprintln!("thirty clusters start in {started:?}");
    Ok(())
}

#[tokio::test]
async fn clusters_do_not_see_each_other() -> Tested {
    let (one, other) = (TestCluster::start().await?, TestCluster::start().await?);
    maps(&one).create(&PostParams::default(), &basket("mine")).await?;
    assert!(maps(&other).get_opt("mine").await?.is_none());
    let everywhere = Api::<ConfigMap>::all(other.client()).list(&ListParams::default()).await?;
    assert!(everywhere.items.iter().all(|map| map.name_any() != "mine"), "not even across all namespaces");
    Ok(())
}

async fn token(client: &Client) -> Result<String, kube::Error> {
    let accounts = Api::<ServiceAccount>::default_namespaced(client.clone());
    accounts.create(&PostParams::default(), &of(json!({"metadata": {"name": "picker"}}))).await?;
    let request: TokenRequest = of(json!({"metadata": {}, "spec": {"audiences": []}}));
    let answer: TokenRequest = accounts.create_subresource("token", "picker", &PostParams::default(), &request).await?;
    Ok(answer.status.expect("a status").token)
}

/// What must hold over a restart, whatever the server stores in.
async fn survives_a_restart(cluster: &TestCluster) -> Tested {
    let (client, trees) = (cluster.client(), orchard(cluster).await);
    let api = maps(cluster);
    let before = api.create(&PostParams::default(), &basket("before")).await?;
    trees.create(&PostParams::default(), &tree("oak")).await?;
    let token = token(&client).await?;
    let version = before.resource_version().expect("a version");
    let quiet = WatchParams::default().disable_bookmarks();
    let watch = api.watch(&quiet, &version).await?;
    cluster.restart().await?;
    let rest = tokio::time::timeout(PATIENCE, watch.collect::<Vec<_>>()).await?;
    assert!(rest.iter().all(Result::is_ok), "the watch ended: {rest:?}");
    assert_eq!(api.get("before").await?, before);
    assert_eq!(trees.get("oak").await?.name_any(), "oak", "definitions are served again");
    let after = api.create(&PostParams::default(), &basket("after")).await?;
    let number = |map: &ConfigMap| map.resource_version().and_then(|version| version.parse::<u64>().ok());
    assert!(number(&after) > number(&before), "versions go on");
    let mut events = api.watch(&quiet, &version).await?.boxed();
    let event = tokio::time::timeout(PATIENCE, events.next()).await?.expect("an event")?;
    assert_eq!(told(&event), "ADDED after", "a watch goes on where it was");
    let review: TokenReview = of(json!({"metadata": {}, "spec": {"token": token}}));
    let review = Api::all(client).create(&PostParams::default(), &review).await?;
    assert_eq!(review.status.and_then(|status| status.authenticated), Some(true), "keys stay");
    Ok(())
}

#[tokio::test]
async fn a_cluster_in_memory_survives_restarts() -> Tested {
    let Some(cluster) = TestCluster::embedded("another cluster is not ours to restart").await? else { return Ok(()) };
    survives_a_restart(&cluster).await?;
    cluster.restart().await?;
    assert!(maps(&cluster).get_opt("after").await?.is_some());
    Ok(())
}

#[tokio::test]
async fn a_cluster_on_disk_survives_restarts() -> Tested {
    if TestCluster::embedded("another cluster is not ours to restart").await?.is_none() {
        return Ok(());
    }
    survives_a_restart(&TestCluster::durable().await?).await
}

#[tokio::test]
async fn requests_during_a_restart_fail_or_are_served() -> Tested {
    let Some(cluster) = TestCluster::embedded("another cluster is not ours to restart").await? else { return Ok(()) };
    let api = maps(&cluster);
    let writing = async {
        let mut acknowledged = Vec::new();
        for number in 0..200 {
            let name = format!("b{number}");
            if api.create(&PostParams::default(), &basket(&name)).await.is_ok() {
                acknowledged.push(name);
            }
            tokio::task::yield_now().await;
        }
        acknowledged
    };
    let restarting = async {
        for _ in 0..3 {
            cluster.restart().await.expect("restarts");
        }
    };
    let (acknowledged, ()) = futures::future::join(writing, restarting).await;
    let there: Vec<_> = api.list(&ListParams::default()).await?.items.iter().map(ResourceExt::name_any).collect();
    assert!(acknowledged.iter().all(|name| there.contains(name)), "nothing acknowledged is lost");
    Ok(())
}

#[tokio::test]
async fn faults_outlast_a_restart() -> Tested {
    let Some(cluster) = TestCluster::embedded("another cluster is not ours to restart").await? else { return Ok(()) };
    cluster.inject(Fault::answer(500).to("get", "/configmaps").always());
    cluster.restart().await?;
    assert!(maps(&cluster).get("a").await.is_err());
    cluster.heal();
    assert!(maps(&cluster).get_opt("a").await?.is_none());
    Ok(())
}
