//! Limit ranges: what pods get that say nothing, and what is refused.

use k8s_openapi::api::core::v1::{LimitRange, PersistentVolumeClaim, Pod};
use kube::api::{Api, PostParams};
use serde_json::{Value, json};

use crate::fixtures::{Tested, cluster, of, picker, refusal};

fn pod(name: &str, resources: &Value) -> Pod {
    of(json!({"metadata": {"name": name}, "spec": {"containers": [
        {"name": "pick", "image": "picker:1", "resources": resources}]}}))
}

#[tokio::test]
async fn a_pod_gets_what_it_does_not_say_and_may_not_leave_the_range() -> Tested {
    let (cluster, client) = cluster().await;
    let shed = cluster.namespace_named("shed").await?;
    let range: LimitRange = of(json!({"metadata": {"name": "r"}, "spec": {"limits": [
        {"type": "Container", "min": {"cpu": "50m"}, "max": {"cpu": "500m"}, "default": {"cpu": "400m"},
         "defaultRequest": {"cpu": "100m", "memory": "64Mi"}},
        {"type": "PersistentVolumeClaim", "max": {"storage": "1Gi"}},
    ]}}));
    Api::namespaced(client.clone(), &shed).create(&PostParams::default(), &range).await?;
    let pods = Api::<Pod>::namespaced(client.clone(), &shed);
    let needs = |pod: Pod| json!(pod.spec.and_then(|spec| spec.containers[0].resources.clone()));
    let silent = needs(pods.create(&PostParams::default(), &picker("silent")).await?);
    assert_eq!(silent, json!({"limits": {"cpu": "400m"}, "requests": {"cpu": "100m", "memory": "64Mi"}}));
    // Who limits without a request requests as much, and is not given another.
    let limited =
        needs(pods.create(&PostParams::default(), &pod("limited", &json!({"limits": {"cpu": "300m"}}))).await?);
    assert_eq!(limited["requests"], json!({"cpu": "300m", "memory": "64Mi"}));
    let refused = refusal(pods.create(&PostParams::default(), &pod("huge", &json!({"limits": {"cpu": "2"}}))).await);
    assert_eq!(
        (refused.code, refused.message.as_str()),
        (403, "pods \"huge\" is forbidden: maximum cpu usage per Container is 500m, but limit is 2")
    );
    let claim: PersistentVolumeClaim = of(json!({"metadata": {"name": "c"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "2Gi"}}}}));
    let refused = refusal(Api::namespaced(client, &shed).create(&PostParams::default(), &claim).await);
    assert_eq!(
        refused.message,
        "persistentvolumeclaims \"c\" is forbidden: maximum storage usage per PersistentVolumeClaim is 1Gi, but limit is 2Gi"
    );
    Ok(())
}
