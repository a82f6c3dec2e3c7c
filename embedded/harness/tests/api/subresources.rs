//! Status, scale and the rest of what is below an object.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::api::core::v1::{Binding, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, EvictParams, Patch, PatchParams, PostParams};
use serde_json::json;

use crate::fixtures::{Tested, cluster, embedded, of, orchard, picker, press, refusal, tree, without_controllers};

#[tokio::test]
async fn spec_and_status_are_written_apart() -> Tested {
    let (cluster, _) = cluster().await;
    let api = orchard(&cluster).await;
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
    let Some((_cluster, client)) = without_controllers("a controller would write the status in between").await else {
        return Ok(());
    };
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
    let (cluster, _) = cluster().await;
    let api = orchard(&cluster).await;
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
    let Some((_cluster, client)) = without_controllers("the pod must stay as it is").await else { return Ok(()) };
    let api = Api::<Pod>::default_namespaced(client);
    api.create(&PostParams::default(), &picker("a")).await?;
    api.evict("a", &EvictParams::default()).await?;
    assert!(api.get_opt("a").await?.is_none());
    assert_eq!(refusal(api.evict("a", &EvictParams::default()).await).code, 404);
    Ok(())
}

/// A pod that runs and is ready, and a budget for it.
async fn guarded(client: &kube::Client) -> Result<(Api<Pod>, Api<PodDisruptionBudget>), kube::Error> {
    let pods = Api::<Pod>::default_namespaced(client.clone());
    let budgets = Api::<PodDisruptionBudget>::default_namespaced(client.clone());
    let mut pod = picker("a");
    pod.metadata.labels = Some([("app".into(), "pick".into())].into());
    pods.create(&PostParams::default(), &pod).await?;
    let ready = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
    pods.patch_status("a", &PatchParams::default(), &Patch::Merge(ready)).await?;
    budgets.create(&PostParams::default(), &budget("b")).await?;
    Ok((pods, budgets))
}

fn budget(name: &str) -> PodDisruptionBudget {
    let spec = json!({"minAvailable": 1, "selector": {"matchLabels": {"app": "pick"}}});
    of(json!({"metadata": {"name": name}, "spec": spec}))
}

#[tokio::test]
async fn a_disruption_budget_keeps_a_pod_that_runs() -> Tested {
    let Some((_cluster, client)) = without_controllers("the pod must stay as it is").await else { return Ok(()) };
    let (pods, budgets) = guarded(&client).await?;
    let params = PatchParams::default();
    let refused = refusal(pods.evict("a", &EvictParams::default()).await);
    assert_eq!((refused.code, refused.reason.as_str()), (429, "TooManyRequests"));
    let details = refused.details.expect("details");
    assert!(details.causes[0].message.ends_with("is still being processed by the server."), "{details:?}");
    let mut status = json!({"status": {"observedGeneration": 1, "disruptionsAllowed": 0, "currentHealthy": 1,
                                       "desiredHealthy": 1, "expectedPods": 1}});
    budgets.patch_status("b", &params, &Patch::Merge(status.clone())).await?;
    let refused = refusal(pods.evict("a", &EvictParams::default()).await);
    let cause = refused.details.expect("details").causes[0].clone();
    assert_eq!(cause.message, "The disruption budget b needs 1 healthy pods and has 1 currently");
    status["status"]["disruptionsAllowed"] = json!(1);
    budgets.patch_status("b", &params, &Patch::Merge(status)).await?;
    pods.evict("a", &EvictParams::default()).await?;
    assert!(pods.get_opt("a").await?.is_none());
    let spent = budgets.get("b").await?.status.expect("a status");
    assert_eq!((spent.disruptions_allowed, spent.disrupted_pods.expect("pods").len()), (0, 1));
    Ok(())
}

#[tokio::test]
async fn a_pod_under_two_budgets_is_not_evicted() -> Tested {
    let Some((_cluster, client)) = without_controllers("the pod must stay as it is").await else { return Ok(()) };
    let (pods, budgets) = guarded(&client).await?;
    budgets.create(&PostParams::default(), &budget("c")).await?;
    let refused = refusal(pods.evict("a", &EvictParams::default()).await);
    assert_eq!(refused.code, 500);
    assert_eq!(
        refused.message,
        "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
    );
    Ok(())
}

#[tokio::test]
async fn a_pod_is_bound_to_one_node_for_good() -> Tested {
    let Some((_cluster, client)) = without_controllers("the pod must stay as it is").await else { return Ok(()) };
    let api = Api::<Pod>::default_namespaced(client.clone());
    api.create(&PostParams::default(), &picker("a")).await?;
    let to = |node: &str| of::<Binding>(json!({"metadata": {"name": "a"}, "target": {"kind": "Node", "name": node}}));
    let _: kube::core::Status = api.create_subresource("binding", "a", &PostParams::default(), &to("n1")).await?;
    let bound = api.get("a").await?;
    assert_eq!(bound.spec.and_then(|spec| spec.node_name).as_deref(), Some("n1"));
    let scheduled = bound.status.and_then(|status| status.conditions).into_iter().flatten();
    assert!(scheduled.into_iter().any(|condition| condition.type_ == "PodScheduled" && condition.status == "True"));
    let again =
        api.create_subresource::<_, kube::core::Status>("binding", "a", &PostParams::default(), &to("n2")).await;
    let again = refusal(again);
    assert_eq!(again.code, 409);
    assert_eq!(
        again.message,
        "Operation cannot be fulfilled on pods/binding \"a\": pod a is already assigned to node \"n1\""
    );
    let _: kube::core::Status = {
        api.create(&PostParams::default(), &picker("b")).await?;
        let binding = json!({"metadata": {"name": "b"}, "target": {"kind": "Node", "name": "n1"}});
        let request = http::Request::post(format!("/api/v1/namespaces/{}/bindings", client.default_namespace()))
            .body(serde_json::to_vec(&binding)?)?;
        client.request(request).await?
    };
    assert_eq!(api.get("b").await?.spec.and_then(|spec| spec.node_name).as_deref(), Some("n1"), "the old way");
    Ok(())
}

#[tokio::test]
async fn a_pod_that_is_going_can_be_made_to_hurry() -> Tested {
    let Some((_cluster, client)) = without_controllers("the pod must stay as it is").await else { return Ok(()) };
    let api = Api::<Pod>::default_namespaced(client);
    let mut pod = picker("a");
    pod.spec.get_or_insert_default().node_name = Some("n1".into());
    api.create(&PostParams::default(), &pod).await?;
    for (asked, grace) in [(None, 30), (Some(60), 30), (Some(7), 7), (None, 7)] {
        let params = DeleteParams { grace_period_seconds: asked, ..DeleteParams::default() };
        let going = api.delete("a", &params).await?.left().expect("it has time to stop");
        assert_eq!(going.metadata.deletion_grace_period_seconds, Some(grace), "{asked:?}");
    }
    let gone = api.delete("a", &DeleteParams::default().grace_period(0)).await?.left().expect("the pod itself");
    assert_eq!(gone.metadata.deletion_grace_period_seconds, Some(0));
    assert!(api.get_opt("a").await?.is_none());
    Ok(())
}

#[tokio::test]
async fn a_request_for_a_certificate_says_who_made_it_and_is_approved_apart() -> Tested {
    let Some((_cluster, client)) = embedded("others check that what is requested is a certificate").await else {
        return Ok(());
    };
    let api = Api::<CertificateSigningRequest>::all(client);
    let request: CertificateSigningRequest = of(json!({"metadata": {"name": "r"}, "spec": {
        "request": "LS0t", "signerName": "example.com/s", "usages": ["client auth"], "username": "somebody else"}}));
    let made = api.create(&PostParams::default(), &request).await?;
    assert_ne!(made.spec.username.as_deref(), Some("somebody else"));
    assert!(made.spec.groups.is_some_and(|groups| groups.contains(&"system:authenticated".to_owned())));
    let approval = json!({"metadata": {"annotations": {"by": "hand"}}, "spec": {"signerName": "example.com/t"}, "status": {
        "certificate": "LS0t", "conditions": [{"type": "Approved", "status": "True", "reason": "Known"}]}});
    let approved = api.patch_subresource("approval", "r", &PatchParams::default(), &Patch::Merge(&approval)).await?;
    assert_eq!(approved.annotations().get("by").map(String::as_str), Some("hand"));
    let status = approved.status.unwrap_or_default();
    assert_eq!((approved.spec.signer_name.as_str(), status.certificate.is_none()), ("example.com/s", true));
    assert_eq!(status.conditions.map(|conditions| conditions[0].type_.clone()).as_deref(), Some("Approved"));
    let signed = api.patch_status("r", &PatchParams::default(), &Patch::Merge(&approval)).await?;
    assert!(signed.status.is_some_and(|status| status.certificate.is_some()));
    Ok(())
}
