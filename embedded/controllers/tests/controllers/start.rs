//! The stage that the other tests play on.

use crate::fixtures::{Stage, Tested, eventually, of};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, PostParams};
use serde_json::json;

#[tokio::test]
async fn a_pretended_node_runs_pods_and_ends_them() -> Tested {
    let stage = Stage::set(&["n1"]).await;
    let pods = stage.api::<Pod>();
    let pod: Pod = of(json!({"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": "fruit:1"}]}}));
    pods.create(&PostParams::default(), &pod).await?;
    let ready = eventually(&pods, "a", |pod: Option<&Pod>| pod.is_some_and(crate::fixtures::is_ready)).await;
    assert_eq!(ready.and_then(|pod| pod.spec?.node_name).as_deref(), Some("n1"));
    pods.delete("a", &DeleteParams::default()).await?;
    eventually(&pods, "a", |pod: Option<&Pod>| pod.is_none()).await;
    Ok(())
}
