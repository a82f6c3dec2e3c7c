//! The reconciler: relabelled nodes, pods that are none of its business, and nothing at rest.

use std::sync::atomic::Ordering;

use futures::{StreamExt as _, stream};
use kube::ResourceExt as _;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::site::{NAME, Site, ZONE};

#[tokio::test(flavor = "multi_thread")]
async fn pods_follow_their_node_when_it_is_relabelled() {
    let Some(site) = Site::start().await else { return };
    site.node("pear", json!({ZONE: "orchard-1"})).await;
    site.node("quince", json!({ZONE: "orchard-2"})).await;
    site.pod("cider", Some("pear"), json!({"app": "press"})).await;
    site.pod("jam", Some("quince"), json!({})).await;
    let _running = site.reconciler().await;
    site.until_labelled("cider", ZONE, "orchard-1").await;
    site.until_labelled("jam", ZONE, "orchard-2").await;
    site.relabel("pear", json!({ZONE: "orchard-3", NAME: "rack-7"})).await;
    site.until_labelled("cider", ZONE, "orchard-3").await;
    site.until_labelled("cider", NAME, "rack-7").await;
    assert_eq!(site.labels("cider").await["app"], "press");
    assert_eq!(site.labels("jam").await, json!({NAME: "quince", ZONE: "orchard-2"}));
    // A label that a node loses stays on its pods: they were scheduled by it.
    site.relabel("pear", json!({ZONE: null, NAME: "rack-8"})).await;
    site.until_labelled("cider", NAME, "rack-8").await;
    assert_eq!(site.labels("cider").await[ZONE], "orchard-3");
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_without_a_node_and_finished_pods_are_left_alone() {
    let Some(site) = Site::start().await else { return };
    site.node("pear", json!({ZONE: "orchard-1"})).await;
    let waiting = site.pod("waiting", None, json!({})).await;
    let mut finished = Vec::new();
    for (name, phase) in [("done", "Succeeded"), ("failed", "Failed")] {
        site.pod(name, Some("pear"), json!({})).await;
        let status = Patch::Merge(json!({"status": {"phase": phase}}));
        finished.push(site.pods().patch_status(name, &PatchParams::default(), &status).await.unwrap());
    }
    site.pod("cider", Some("pear"), json!({})).await;
    let _running = site.reconciler().await;
    site.until_labelled("cider", ZONE, "orchard-1").await;
    for pod in finished.iter().chain([&waiting]) {
        let now = site.pods().get(&pod.name_any()).await.unwrap();
        assert_eq!(now.resource_version(), pod.resource_version(), "{}", pod.name_any());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn five_thousand_pods_at_rest_are_read_in_pages_and_never_written() {
    const PODS: usize = 5000;
    let Some(site) = Site::start().await else { return };
    site.node("pear", json!({ZONE: "orchard-1"})).await;
    let labelled = json!({NAME: "pear", ZONE: "orchard-1"});
    let create = |index: usize| {
        let (site, labels) = (&site, labelled.clone());
        async move { site.pod(&format!("pod-{index}"), Some("pear"), labels).await }
    };
    stream::iter(0..PODS).map(create).buffer_unordered(16).for_each(async |_| {}).await;
    let running = site.reconciler().await;
    let reads = running.requests.reads.load(Ordering::SeqCst);
    assert!(reads < 60, "{reads} requests for {PODS} pods");
    assert_eq!(running.requests.writes(), 0, "the start-up pass writes nothing");

    // All watches start over and read their lists again. What comes after the marker was seen by the reconciler.
    site.cluster.drop_watches();
    site.pod("marker", Some("pear"), json!({})).await;
    site.until_labelled("marker", ZONE, "orchard-1").await;
    assert_eq!(running.requests.writes(), 1, "only the marker was written");
}
