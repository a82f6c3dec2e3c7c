//! Binds with the webhook there, away, slow and without the node.

use std::pin::pin;
use std::time::{Duration, Instant};

use c5c3_harness::Fault;
use c5c3_operator_labels_injector::{Injector, Labels};
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::runtime::watcher::{Config, Event, watcher};
use serde_json::json;

use crate::site::{NAME, Site, ZONE};

/// The first version of a pod that the kubelet of a node sees.
async fn first_seen(site: &Site, node: &str) -> Pod {
    let events = watcher(site.pods(), Config::default().fields(&format!("spec.nodeName={node}")));
    let mut events = pin!(events);
    loop {
        if let Some(Ok(Event::Apply(pod) | Event::InitApply(pod))) = events.next().await {
            return pod;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kubelet_never_sees_a_pod_without_the_labels_of_its_node() {
    let Some(site) = Site::start().await else { return };
    site.node("pear", json!({ZONE: "orchard-1"})).await;
    let _webhook = site.webhook(|injector| injector).await;
    site.pod("cider", None, json!({"app": "press"})).await;
    let (seen, bound) = tokio::join!(first_seen(&site, "pear"), site.bind("cider", "pear", false));
    bound.unwrap();
    assert_eq!(json!(seen.labels()), json!({"app": "press", NAME: "pear", ZONE: "orchard-1"}));
}

#[tokio::test(flavor = "multi_thread")]
async fn bindings_of_our_scheduler_and_of_older_ones_are_seen() {
    let Some(site) = Site::start().await else { return };
    let _webhook = site.webhook(|injector| injector).await;
    site.node("quince", json!({ZONE: "orchard-2"})).await;
    site.pod("old", None, json!({})).await;
    site.bind_by_the_old_way("old", "quince").await;
    assert_eq!(site.labels("old").await, json!({NAME: "quince", ZONE: "orchard-2"}));

    let status = json!({"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"},
        "conditions": [{"type": "Ready", "status": "True"}]});
    let nodes = kube::Api::<k8s_openapi::api::core::v1::Node>::all(site.cluster.client());
    let patch = kube::api::Patch::Merge(json!({"status": status}));
    nodes.patch_status("quince", &kube::api::PatchParams::default(), &patch).await.unwrap();
    let stop = tokio_util::sync::CancellationToken::new();
    let _end = stop.clone().drop_guard();
    tokio::spawn(c5c3_scheduler::run(site.cluster.client(), stop));
    let wanted = json!({"kubernetes.io/os": "linux"});
    let pod = json!({"metadata": {"name": "new"}, "spec": {"containers": [{"name": "a", "image": "a"}]}});
    let never = json!({"metadata": {"name": "never"},
        "spec": {"containers": [{"name": "a", "image": "a"}], "nodeSelector": wanted}});
    for pod in [never, pod] {
        site.pods().create(&kube::api::PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
    }
    let seen = async {
        loop {
            let pod = site.pods().get("new").await.unwrap();
            if pod.spec.as_ref().unwrap().node_name.is_some() {
                return pod;
            }
            tokio::task::yield_now().await;
        }
    };
    let seen = tokio::time::timeout(Duration::from_mins(1), seen).await.unwrap();
    assert_eq!(json!(seen.labels()), json!({NAME: "quince", ZONE: "orchard-2"}));
    assert_eq!(site.labels("never").await, json!({}), "it is unschedulable");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dry_run_leaves_nothing() {
    let Some(site) = Site::start().await else { return };
    site.node("pear", json!({ZONE: "orchard-1"})).await;
    let _webhook = site.webhook(|injector| injector).await;
    let before = site.pod("cider", None, json!({})).await;
    site.bind("cider", "pear", true).await.unwrap();
    let after = site.pods().get("cider").await.unwrap();
    assert_eq!(after.resource_version(), before.resource_version());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_cannot_be_read_gives_no_empty_label_and_the_bind_goes_on() {
    let Some(site) = Site::start().await else { return };
    site.node("pear", json!({ZONE: "orchard-1"})).await;
    let _webhook = site.webhook(|injector| injector).await;
    site.cluster.inject(Fault::answer(500).to("get", "/nodes/pear").always());
    site.pod("cider", None, json!({})).await;
    site.bind("cider", "pear", false).await.unwrap();
    site.pod("perry", None, json!({})).await;
    site.bind("perry", "absent", false).await.unwrap();
    assert_eq!((site.labels("cider").await, site.labels("perry").await), (json!({}), json!({})));
    site.cluster.heal();
    let _running = site.reconciler().await;
    site.until_labelled("cider", ZONE, "orchard-1").await;
    assert_eq!(site.labels("perry").await, json!({}), "its node is not there");
}

#[tokio::test(flavor = "multi_thread")]
async fn scheduling_goes_on_without_the_webhook_and_labels_follow() {
    let Some(site) = Site::start().await else { return };
    site.node("pear", json!({ZONE: "orchard-1"})).await;
    let webhook = site.webhook(|injector| injector).await;
    webhook.cancel();
    site.pod("cider", None, json!({})).await;
    site.bind("cider", "pear", false).await.unwrap();
    let _running = site.reconciler().await;
    site.until_labelled("cider", ZONE, "orchard-1").await;
    site.until_labelled("cider", NAME, "pear").await;
    // It also sees binds that come while it runs.
    site.pod("perry", None, json!({})).await;
    site.bind("perry", "pear", false).await.unwrap();
    site.until_labelled("perry", ZONE, "orchard-1").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn within_five_seconds_of_its_return_pods_have_their_labels_and_binds_bring_them_again() {
    const RETURN: Duration = Duration::from_secs(5);
    let Some(site) = Site::start().await else { return };
    site.node("pear", json!({ZONE: "orchard-1"})).await;
    let webhook = site.webhook(|injector| injector).await;
    let running = site.reconciler().await;
    site.pod("before", None, json!({})).await;
    site.bind("before", "pear", false).await.unwrap();
    site.until_labelled("before", NAME, "pear").await;

    // The process is gone, with its webhook and its reconciler.
    webhook.cancel();
    drop(running);
    // Both end soon and not at once: the pods that count are those at the end, which no one has labelled.
    let (mut missed, until_gone) = (Vec::new(), Instant::now());
    for index in 0.. {
        let pod = format!("pod-{index}");
        site.pod(&pod, None, json!({})).await;
        site.bind(&pod, "pear", false).await.unwrap();
        if site.labels(&pod).await == json!({}) {
            missed.push(pod);
        } else {
            missed.clear();
        }
        if missed.len() == 20 {
            break;
        }
        assert!(until_gone.elapsed() < Duration::from_mins(1), "pods are labelled though no one is there to do it");
    }

    let returned = Instant::now();
    let (_webhook, _running) = (site.webhook(|injector| injector).await, site.reconciler().await);
    for pod in &missed {
        let left = RETURN.saturating_sub(returned.elapsed());
        site.labelled_within(left, pod, (ZONE, "orchard-1")).await;
        assert_eq!(site.labels(pod).await, json!({NAME: "pear", ZONE: "orchard-1"}));
    }
    // What is bound from now on has them in the first version that a kubelet sees.
    site.node("quince", json!({ZONE: "orchard-2"})).await;
    site.pod("after", None, json!({})).await;
    let (seen, bound) = tokio::join!(first_seen(&site, "quince"), site.bind("after", "quince", false));
    bound.unwrap();
    assert_eq!(json!(seen.labels()), json!({NAME: "quince", ZONE: "orchard-2"}));
    assert!(returned.elapsed() < RETURN, "{:?}", returned.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn labels_for_a_bind_that_failed_are_taken_back() {
    let Some(site) = Site::start().await else { return };
    site.node("pear", json!({ZONE: "orchard-1"})).await;
    let _webhook = site.webhook(|injector| injector.bound_within(Duration::from_millis(200))).await;
    let pod = json!({"metadata": {"name": "gated", "labels": {NAME: "chosen"}}, "spec": {
        "containers": [{"name": "a", "image": "a"}], "schedulingGates": [{"name": "gate"}]}});
    site.pods().create(&kube::api::PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
    let refused = site.bind("gated", "pear", false).await.unwrap_err();
    assert!(refused.to_string().contains("schedulingGates"), "{refused}");
    site.until_labelled("gated", NAME, "chosen").await;
    assert_eq!(site.labels("gated").await, json!({NAME: "chosen"}));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_stores_labels_of_bindings_gets_them_there_and_the_pod_is_not_patched() {
    let Some(site) = Site::start().await else { return };
    site.node("pear", json!({ZONE: "orchard-1"})).await;
    let injector = Injector::new(site.cluster.client(), Labels::default());
    let routes = injector.stores_labels(true).routes();
    let pod = site.pod("cider", None, json!({})).await;
    let ask = async |path: &str, labels: serde_json::Value| {
        let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
            "uid": "1", "kind": {"group": "", "version": "v1", "kind": "Binding"}, "name": "cider",
            "resource": {"group": "", "version": "v1", "resource": "pods"}, "subResource": "binding",
            "namespace": site.cluster.namespace(), "operation": "CREATE", "userInfo": {}, "dryRun": false,
            "object": {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "cider", "labels": labels},
                "target": {"kind": "Node", "name": "pear"}},
        }});
        let request = http::Request::post(path).header("content-type", "application/json");
        let request = request.body(axum::body::Body::from(review.to_string())).unwrap();
        let answer = tower::ServiceExt::oneshot(routes.clone(), request).await.unwrap();
        let body = axum::body::to_bytes(answer.into_body(), usize::MAX).await.unwrap();
        serde_json::from_slice::<serde_json::Value>(&body).unwrap()["response"].clone()
    };
    let patch = |answer: &serde_json::Value| {
        let bytes: Vec<u8> = serde_json::from_value(answer["patch"].clone()).unwrap();
        serde_json::from_slice::<serde_json::Value>(&bytes).unwrap()
    };
    let bare = patch(&ask("/labels/binding", json!(null)).await);
    assert_eq!(bare, json!([{"op": "add", "path": "/metadata/labels", "value": {NAME: "pear", ZONE: "orchard-1"}}]));
    let some = patch(&ask("/labels/binding", json!({"kept": "x", ZONE: "wrong"})).await);
    assert!(some.to_string().contains("orchard-1") && !some.to_string().contains("kept"), "{some}");
    let complete = ask("/labels/binding", json!({NAME: "pear", ZONE: "orchard-1"})).await;
    assert_eq!((&complete["allowed"], &complete["patch"]), (&json!(true), &json!(null)));
    assert_eq!(ask("/labels/pod", json!({})).await["allowed"], true);
    assert_eq!(site.pods().get("cider").await.unwrap().resource_version(), pod.resource_version());
}
