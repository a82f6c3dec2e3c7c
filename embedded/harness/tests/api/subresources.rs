//! Status, scale and the rest of what is below an object.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Binding, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, EvictParams, Patch, PatchParams, PostParams};
use serde_json::json;

use crate::fixtures::{Tested, cluster, of, orchard, picker, press, refusal, tree};

#[tokio::test]
async fn spec_and_status_are_written_apart() -> Tested {
    let (_cluster, client) = cluster().await;
    let api = orchard(&client).await;
    let mut both = tree("a");
    both.data["status"] = json!({"ripe": true});
    let created = api.create(&PostParams::default(), &both).await?;
    assert!(created.data.get("status").is_none(), "a status is not created");
    let params = PatchParams::default();
    let change =
        Patch::Merge(json!({"spec": {"branches": 9}, "status": {"ripe": true}, "metadata": {"labels": {"a": "b"}}}));
    let reported = api.patch_status("a", &params, &change).await?;
    assert_eq!((&reported.data["spec"]["branches"], &reported.data["status"]["ripe"]), (&json!(3), &json!(true)));
    assert!(reported.labels().is_empty(), "the status endpoint of a custom resource takes the status alone");
    let change = Patch::Merge(json!({"spec": {"branches": 9}, "status": {"ripe": false}}));
    let changed = api.patch("a", &params, &change).await?;
    assert_eq!((&changed.data["spec"]["branches"], &changed.data["status"]["ripe"]), (&json!(9), &json!(true)));
    let mut replaced = changed.clone();
    replaced.data["status"] = json!({"ripe": false});
    let replaced = api.replace_status("a", &PostParams::default(), &replaced).await?;
    assert_eq!(replaced.data["status"]["ripe"], false);
    assert_eq!(refusal(api.replace_status("a", &PostParams::default(), &changed).await).code, 409);
    Ok(())
}

#[tokio::test]
async fn the_status_of_a_built_in_kind_takes_annotations_along() -> Tested {
    let (_cluster, client) = cluster().await;
    let api = Api::<Deployment>::default_namespaced(client);
    api.create(&PostParams::default(), &press("p")).await?;
    let change = Patch::Merge(json!({
        "metadata": {"annotations": {"seen": "yes"}}, "spec": {"replicas": 9}, "status": {"replicas": 1, "readyReplicas": 1}}));
    let reported = api.patch_status("p", &PatchParams::default(), &change).await?;
    assert_eq!(reported.annotations().get("seen").map(String::as_str), Some("yes"));
    assert_eq!(reported.spec.as_ref().and_then(|spec| spec.replicas), Some(2));
    assert_eq!(reported.status.and_then(|status| status.ready_replicas), Some(1));
    Ok(())
}

#[tokio::test]
async fn a_deployment_is_scaled() -> Tested {
    let (_cluster, client) = cluster().await;
    let api = Api::<Deployment>::default_namespaced(client);
    let created = api.create(&PostParams::default(), &press("p")).await?;
    let mut scale = api.get_scale("p").await?;
    assert_eq!(scale.spec.as_ref().and_then(|spec| spec.replicas), Some(2));
    assert_eq!(scale.status.as_ref().and_then(|status| status.selector.as_deref()), Some("app=p"));
    assert_eq!(scale.metadata.resource_version, created.resource_version());
    scale.spec.get_or_insert_default().replicas = Some(5);
    api.replace_scale("p", &PostParams::default(), &scale).await?;
    let scaled = api.get("p").await?;
    assert_eq!((scaled.spec.as_ref().and_then(|spec| spec.replicas), scaled.metadata.generation), (Some(5), Some(2)));
    assert_eq!(refusal(api.replace_scale("p", &PostParams::default(), &scale).await).code, 409, "the scale is stale");
    let patched =
        api.patch_scale("p", &PatchParams::default(), &Patch::Merge(json!({"spec": {"replicas": 1}}))).await?;
    assert_eq!(patched.spec.and_then(|spec| spec.replicas), Some(1));
    let negative = Patch::Merge(json!({"spec": {"replicas": -1}}));
    assert_eq!(refusal(api.patch_scale("p", &PatchParams::default(), &negative).await).code, 422);
    Ok(())
}

#[tokio::test]
async fn a_custom_resource_is_scaled_by_its_paths() -> Tested {
    let (_cluster, client) = cluster().await;
    let api = orchard(&client).await;
    api.create(&PostParams::default(), &tree("a")).await?;
    let status = Patch::Merge(json!({"status": {"branches": 2, "selector": "of=a"}}));
    api.patch_status("a", &PatchParams::default(), &status).await?;
    let scale = api.patch_scale("a", &PatchParams::default(), &Patch::Merge(json!({"spec": {"replicas": 8}}))).await?;
    assert_eq!(scale.status.as_ref().map(|status| status.replicas), Some(2));
    assert_eq!(scale.status.and_then(|status| status.selector).as_deref(), Some("of=a"));
    assert_eq!(api.get("a").await?.data["spec"]["branches"], 8);
    let many = Patch::Merge(json!({"spec": {"replicas": 101}}));
    let refused = refusal(api.patch_scale("a", &PatchParams::default(), &many).await);
    assert!(refused.message.contains("a tree has at most 100 branches"), "{}", refused.message);
    Ok(())
}

#[tokio::test]
async fn a_pod_is_evicted() -> Tested {
    let (_cluster, client) = cluster().await;
    let api = Api::<Pod>::default_namespaced(client);
    api.create(&PostParams::default(), &picker("a")).await?;
    api.evict("a", &EvictParams::default()).await?;
    assert!(api.get_opt("a").await?.is_none());
    assert_eq!(refusal(api.evict("a", &EvictParams::default()).await).code, 404);
    Ok(())
}

#[tokio::test]
async fn a_disruption_budget_keeps_a_pod_that_runs() -> Tested {
    let (_cluster, client) = cluster().await;
    let pods = Api::<Pod>::default_namespaced(client.clone());
    let budgets = Api::<PodDisruptionBudget>::default_namespaced(client);
    let mut pod = picker("a");
    pod.metadata.labels = Some([("app".into(), "pick".into())].into());
    pods.create(&PostParams::default(), &pod).await?;
    let params = PatchParams::default();
    pods.patch_status("a", &params, &Patch::Merge(json!({"status": {"phase": "Running"}}))).await?;
    let budget: PodDisruptionBudget = of(
        json!({"metadata": {"name": "b"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "pick"}}}}),
    );
    budgets.create(&PostParams::default(), &budget).await?;
    let refused = refusal(pods.evict("a", &EvictParams::default()).await);
    assert_eq!((refused.code, refused.reason.as_str()), (429, "TooManyRequests"));
    assert_eq!(refused.details.expect("details").causes[0].reason, "DisruptionBudget");
    let allow =
        json!({"status": {"disruptionsAllowed": 1, "currentHealthy": 2, "desiredHealthy": 1, "expectedPods": 2}});
    budgets.patch_status("b", &params, &Patch::Merge(allow)).await?;
    pods.evict("a", &EvictParams::default()).await?;
    assert!(pods.get_opt("a").await?.is_none());
    assert_eq!(budgets.get("b").await?.status.map(|status| status.disruptions_allowed), Some(0));
    Ok(())
}

#[tokio::test]
async fn a_pod_is_bound_to_one_node_for_good() -> Tested {
    let (_cluster, client) = cluster().await;
    let api = Api::<Pod>::default_namespaced(client);
    api.create(&PostParams::default(), &picker("a")).await?;
    let to = |node: &str| of::<Binding>(json!({"metadata": {"name": "a"}, "target": {"kind": "Node", "name": node}}));
    let _: kube::core::Status = api.create_subresource("binding", "a", &PostParams::default(), &to("n1")).await?;
    let bound = api.get("a").await?;
    assert_eq!(bound.spec.and_then(|spec| spec.node_name).as_deref(), Some("n1"));
    let scheduled = bound.status.and_then(|status| status.conditions).into_iter().flatten();
    assert!(scheduled.into_iter().any(|condition| condition.type_ == "PodScheduled" && condition.status == "True"));
    let again =
        api.create_subresource::<_, kube::core::Status>("binding", "a", &PostParams::default(), &to("n2")).await;
    assert_eq!(refusal(again).code, 409);
    let going = api.delete("a", &DeleteParams::default()).await?.left().expect("it has time to stop");
    assert_eq!(going.metadata.deletion_grace_period_seconds, Some(30));
    api.delete("a", &DeleteParams::default().grace_period(0)).await?;
    assert!(api.get_opt("a").await?.is_none());
    Ok(())
}
