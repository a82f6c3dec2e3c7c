//! Namespaces: what they begin with, and how they end.

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod, Service, ServiceAccount};
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use serde_json::json;

use crate::fixtures::{Tested, basket, cluster, eventually, gone, of, picker, refusal};

fn is_going(namespace: Option<&Namespace>) -> bool {
    namespace.and_then(|namespace| namespace.status.as_ref()?.phase.clone()).as_deref() == Some("Terminating")
}

#[tokio::test]
async fn a_namespace_is_furnished() -> Tested {
    let (cluster, client) = cluster().await;
    let shed = cluster.name("shed");
    let created: Namespace =
        Api::all(client.clone()).create(&PostParams::default(), &of(json!({"metadata": {"name": shed}}))).await?;
    assert_eq!(created.labels().get("kubernetes.io/metadata.name"), Some(&shed), "at once");
    assert_eq!(created.status.and_then(|status| status.phase).as_deref(), Some("Active"));
    let accounts = Api::<ServiceAccount>::namespaced(client.clone(), &shed);
    eventually(&accounts, "default", |account: Option<&ServiceAccount>| account.is_some()).await;
    let maps = Api::<ConfigMap>::namespaced(client, &shed);
    let authority = eventually(&maps, "kube-root-ca.crt", |map: Option<&ConfigMap>| map.is_some()).await.expect("it");
    assert!(authority.data.expect("data")["ca.crt"].starts_with("-----BEGIN CERTIFICATE-----"));
    maps.delete("kube-root-ca.crt", &DeleteParams::default()).await?;
    eventually(&maps, "kube-root-ca.crt", |map: Option<&ConfigMap>| map.is_some()).await;
    Ok(())
}

#[tokio::test]
async fn nothing_is_created_in_a_namespace_that_is_not_there() -> Tested {
    let (cluster, client) = cluster().await;
    let nowhere = cluster.name("nowhere");
    let maps = Api::<ConfigMap>::namespaced(client, &nowhere);
    let refused = refusal(maps.create(&PostParams::default(), &basket("a")).await);
    assert_eq!((refused.code, refused.message), (404, format!("namespaces \"{nowhere}\" not found")));
    let applied =
        crate::fixtures::apply(&maps, "m", json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}));
    assert_eq!(refusal(applied.await).code, 404);
    Ok(())
}

#[tokio::test]
async fn a_namespace_goes_with_all_that_is_in_it() -> Tested {
    let (cluster, client) = cluster().await;
    let shed = cluster.namespace_named("shed").await?;
    let all = Api::<Namespace>::all(client.clone());
    let pods = Api::<Pod>::namespaced(client.clone(), &shed);
    let services = Api::<Service>::namespaced(client.clone(), &shed);
    pods.create(&PostParams::default(), &picker("p")).await?;
    let service: Service = of(json!({"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}}));
    services.create(&PostParams::default(), &service).await?;
    all.delete(&shed, &DeleteParams::default()).await?;
    gone(&all, &shed).await;
    assert!(pods.get_opt("p").await?.is_none() && services.get_opt("s").await?.is_none());
    cluster.namespace_named("shed").await?;
    Ok(())
}

#[tokio::test]
async fn pods_go_first_and_nothing_is_created_meanwhile() -> Tested {
    let (cluster, client) = cluster().await;
    let shed = cluster.namespace_named("shed").await?;
    let all = Api::<Namespace>::all(client.clone());
    let pods = Api::<Pod>::namespaced(client.clone(), &shed);
    let maps = Api::<ConfigMap>::namespaced(client, &shed);
    let mut pod = picker("p");
    pod.metadata.finalizers = Some(vec!["orchard.example/held".into()]);
    pods.create(&PostParams::default(), &pod).await?;
    maps.create(&PostParams::default(), &basket("a")).await?;
    all.delete(&shed, &DeleteParams::default()).await?;
    let told = |namespace: Option<&Namespace>| {
        let conditions = namespace.and_then(|namespace| namespace.status.as_ref()?.conditions.clone());
        conditions.into_iter().flatten().any(|c| c.type_ == "NamespaceFinalizersRemaining" && c.status == "True")
    };
    eventually(&all, &shed, told).await;
    assert!(pods.get("p").await?.metadata.deletion_timestamp.is_some());
    assert!(maps.get("a").await?.metadata.deletion_timestamp.is_none(), "a pod may still need it");
    let refused = refusal(maps.create(&PostParams::default(), &basket("b")).await);
    assert_eq!((refused.code, refused.reason.as_str()), (403, "Forbidden"));
    assert_eq!(
        refused.message,
        format!(
            "configmaps \"b\" is forbidden: unable to create new content in namespace {shed} because it is being terminated"
        )
    );
    assert_eq!(refused.details.expect("details").causes[0].reason, "NamespaceTerminating");
    pods.patch("p", &PatchParams::default(), &Patch::Merge(json!({"metadata": {"finalizers": null}}))).await?;
    gone(&all, &shed).await;
    Ok(())
}

#[tokio::test]
async fn a_namespace_has_finalizers_of_its_own() -> Tested {
    let (cluster, client) = cluster().await;
    let shed = cluster.namespace_named("shed").await?;
    let all = Api::<Namespace>::all(client);
    let mut held = all.get(&shed).await?;
    held.spec.get_or_insert_default().finalizers.get_or_insert_default().push("orchard.example/held".into());
    let held = all.replace_subresource("finalize", &shed, &PostParams::default(), &held).await?;
    assert_eq!(held.spec.and_then(|spec| spec.finalizers).map(|list| list.len()), Some(2));
    all.delete(&shed, &DeleteParams::default()).await?;
    let waiting = |namespace: Option<&Namespace>| {
        is_going(namespace)
            && namespace.and_then(|n| n.spec.as_ref()?.finalizers.clone()).is_some_and(|list| list.len() == 1)
    };
    let mut waiting = eventually(&all, &shed, waiting).await.expect("it waits");
    waiting.spec.get_or_insert_default().finalizers = None;
    all.replace_subresource("finalize", &shed, &PostParams::default(), &waiting).await?;
    gone(&all, &shed).await;
    Ok(())
}

#[tokio::test]
async fn the_status_of_a_namespace_is_patched_and_updated() -> Tested {
    let (cluster, client) = cluster().await;
    let shed = cluster.namespace_named("shed").await?;
    let all = Api::<Namespace>::all(client);
    let patch = json!({
        "metadata": {"annotations": {"seen": "yes"}},
        "status": {"conditions": [{"type": "Patched", "status": "Unknown", "reason": "Test", "message": "by a test"}]}});
    let patched = all.patch_status(&shed, &PatchParams::default(), &Patch::Merge(patch)).await?;
    assert_eq!(patched.annotations().get("seen").map(String::as_str), Some("yes"));
    assert_eq!(patched.status.and_then(|status| status.conditions).map(|list| list.len()), Some(1));
    Ok(())
}

#[tokio::test]
async fn the_first_namespaces_stay() -> Tested {
    let (_cluster, client) = cluster().await;
    for name in ["default", "kube-system", "kube-public"] {
        // Were it not refused, it should at least not happen to a cluster of others'.
        let params = DeleteParams::default().dry_run();
        assert_eq!(refusal(Api::<Namespace>::all(client.clone()).delete(name, &params).await).code, 403);
    }
    Ok(())
}
