//! Nodes that are lost, and disruption budgets.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{Api, DeleteParams, EvictParams, Patch, PatchParams};
use serde_json::{Value, json};

use crate::fixtures::{Stage, Tested, eventually, is_ready};

const UNREACHABLE: &str = "node.kubernetes.io/unreachable";

fn pod(name: &str, tolerated: i64) -> Value {
    let tolerations =
        json!([{"key": UNREACHABLE, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": tolerated}]);
    json!({"metadata": {"name": name, "labels": {"app": "lamp"}},
           "spec": {"containers": [{"name": "c", "image": "lamp:1"}], "tolerations": tolerations}})
}

fn taints(node: Option<&Node>) -> Vec<String> {
    let taints = node.and_then(|node| node.spec.as_ref()?.taints.clone()).unwrap_or_default();
    taints.into_iter().map(|taint| format!("{}:{}", taint.key, taint.effect)).collect()
}

#[tokio::test]
async fn a_node_that_falls_silent_is_tainted_and_emptied_and_may_come_back() -> Tested {
    let stage = Stage::set_with(&["n1"], |options| options.node_grace = Duration::from_millis(1500)).await;
    stage.create::<Pod>(pod("brief", 0)).await;
    stage.create::<Pod>(pod("patient", 3600)).await;
    let (nodes, pods) = (Api::<Node>::all(stage.client.clone()), stage.api::<Pod>());
    let tainted =
        |node: Option<&Node>| taints(node) == [format!("{UNREACHABLE}:NoSchedule"), format!("{UNREACHABLE}:NoExecute")];
    let lost = eventually(&nodes, "n1", tainted).await.unwrap();
    let ready = lost.status.unwrap().conditions.unwrap().into_iter().find(|found| found.type_ == "Ready").unwrap();
    assert_eq!((ready.status.as_str(), ready.reason.as_deref()), ("Unknown", Some("NodeStatusNeverUpdated")));
    eventually(&pods, "brief", |pod: Option<&Pod>| pod.is_none()).await;
    eventually(&pods, "patient", |pod: Option<&Pod>| pod.is_some_and(|pod| !is_ready(pod))).await;

    let later = Timestamp::now() + jiff::SignedDuration::from_hours(1);
    let back = json!({"status": {"conditions": [
        {"type": "Ready", "status": "True", "lastHeartbeatTime": later.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()}]}});
    nodes.patch_status("n1", &PatchParams::default(), &Patch::Strategic(back)).await?;
    eventually(&nodes, "n1", |node: Option<&Node>| node.is_some() && taints(node).is_empty()).await;
    assert!(pods.get("patient").await.is_ok());
    Ok(())
}

#[tokio::test]
async fn the_pods_of_a_node_that_is_gone_go_too() -> Tested {
    let stage = Stage::set_with(&["n1"], |options| options.orphan_quarantine = Duration::ZERO).await;
    stage.create::<Pod>(pod("orphan", 3600)).await;
    let pods = stage.api::<Pod>();
    eventually(&pods, "orphan", |pod: Option<&Pod>| pod.is_some_and(is_ready)).await;
    Api::<Node>::all(stage.client.clone()).delete("n1", &DeleteParams::default()).await?;
    eventually(&pods, "orphan", |pod: Option<&Pod>| pod.is_none()).await;
    Ok(())
}

#[tokio::test]
async fn a_budget_blocks_an_eviction_until_it_is_changed_to_allow_it() -> Tested {
    let stage = Stage::set(&["n1"]).await;
    let spec = json!({"minAvailable": 2, "selector": {"matchLabels": {"app": "lamp"}}});
    stage.create::<PodDisruptionBudget>(json!({"metadata": {"name": "lamps"}, "spec": spec})).await;
    let (budgets, pods) = (stage.api::<PodDisruptionBudget>(), stage.api::<Pod>());
    let healthy = |count: i32| {
        move |budget: Option<&PodDisruptionBudget>| {
            let status = budget.and_then(|budget| budget.status.as_ref());
            status.is_some_and(|status| status.current_healthy == count && status.observed_generation.is_some())
        }
    };
    eventually(&budgets, "lamps", healthy(0)).await;
    stage.create::<Pod>(pod("a", 3600)).await;
    stage.create::<Pod>(pod("b", 3600)).await;
    let full = eventually(&budgets, "lamps", healthy(2)).await.unwrap().status.unwrap();
    assert_eq!((full.disruptions_allowed, full.expected_pods, full.desired_healthy), (0, 2, 2));
    let refused = pods.evict("a", &EvictParams::default()).await.unwrap_err();
    assert!(matches!(refused, kube::Error::Api(status) if status.code == 429));

    stage.change::<PodDisruptionBudget>("lamps", json!({"spec": {"minAvailable": 1}})).await;
    let allows = |budget: Option<&PodDisruptionBudget>| {
        budget.is_some_and(|budget| budget.status.as_ref().is_some_and(|status| status.disruptions_allowed == 1))
    };
    let allowing = eventually(&budgets, "lamps", allows).await.unwrap().status.unwrap();
    let condition = &allowing.conditions.unwrap()[0];
    assert_eq!((condition.status.as_str(), condition.reason.as_str()), ("True", "SufficientPods"));
    pods.evict("a", &EvictParams::default()).await?;
    eventually(&pods, "a", |pod: Option<&Pod>| pod.is_none()).await;
    eventually(&budgets, "lamps", healthy(1)).await;
    assert!(pods.evict("b", &EvictParams::default()).await.is_err());
    Ok(())
}
